"""The checkpoints that come with the package."""

from __future__ import annotations

import os
from pathlib import Path

DEFAULT_MODEL = "carp-mini"


def default_model() -> str:
    """The model that is used where none is named: ``$CARP_MODEL``, else the bundled one."""
    return os.environ.get("CARP_MODEL") or DEFAULT_MODEL


def bundled_checkpoint(name: str | os.PathLike[str]) -> Path | None:
    """The folder of a bundled checkpoint such as ``carp-mini``, or ``None``."""
    package = Path(__file__).parent.parent
    for parent in (package, package.parent):  # installed, or a checkout
        if str(name) == DEFAULT_MODEL and (folder := parent / "checkpoints" / DEFAULT_MODEL).is_dir():
            return folder
    return None
