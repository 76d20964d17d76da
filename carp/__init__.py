"""carp: train and use contrastive story-critique models.

Everything named here is imported on first use, so that ``import carp`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from carp.errors import CarpError, InputError
    from carp.model.carp_model import CarpModel
    from carp.model.configuration import CarpConfig
    from carp.scoring.calibration import calibrate
    from carp.scoring.embeddings import Embeddings, embed
    from carp.scoring.loading import load
    from carp.scoring.score import score
    from carp.training.contrastive import contrastive_backward

_HOMES = {
    "CarpConfig": "carp.model.configuration",
    "CarpError": "carp.errors",
    "CarpModel": "carp.model.carp_model",
    "Embeddings": "carp.scoring.embeddings",
    "InputError": "carp.errors",
    "calibrate": "carp.scoring.calibration",
    "contrastive_backward": "carp.training.contrastive",
    "embed": "carp.scoring.embeddings",
    "load": "carp.scoring.loading",
    "score": "carp.scoring.score",
}

__all__ = [
    "CarpConfig",
    "CarpError",
    "CarpModel",
    "Embeddings",
    "InputError",
    "calibrate",
    "contrastive_backward",
    "embed",
    "load",
    "score",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'carp' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
