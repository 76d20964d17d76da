"""The checkpoints that come with the package."""

from __future__ import annotations

import os
from pathlib import Path

from carp.errors import InputError

DEFAULT_MODEL = "carp-mini"


def default_model() -> str:
    """The model that is used where none is named: ``$CARP_MODEL``, else the bundled one.

    Raises:
        InputError: if there is neither.
    """
    if named := os.environ.get("CARP_MODEL"):
        return named
    if bundled_checkpoint(DEFAULT_MODEL) is None:
        raise InputError("no model is named: give a folder or Hub id (--model), or set CARP_MODEL")
    return DEFAULT_MODEL


def bundled_checkpoint(name: str | os.PathLike[str]) -> Path | None:
    """The folder of a bundled checkpoint such as ``carp-mini``, or ``None``."""
    package = Path(__file__).parent.parent
    for parent in (package, package.parent):  # installed, or a checkout
        folder = parent / "checkpoints" / DEFAULT_MODEL
        if str(name) == DEFAULT_MODEL and (folder / "config.json").is_file():
            return folder
    return None
