"""Finding the model that scores."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from carp.errors import InputError
from carp.model.carp_model import CarpModel


def load(name: str | os.PathLike[str] | None = None, *, device: str | None = None, **options: Any) -> CarpModel:
    """Load a model for scoring, on the GPU if there is one.

    Args:
        name: folder or Hub id; by default what the environment variable ``CARP_MODEL`` names.
        device: e.g. ``"cuda:1"``; by default CUDA or MPS where there is one, else the CPU.
        **options: of ``from_pretrained``, e.g. ``revision``.

    Raises:
        InputError: if there is no such model.
    """
    name = name or os.environ.get("CARP_MODEL")
    if not name:
        raise InputError("no model is named: give a folder or Hub id (--model), or set CARP_MODEL")
    if not Path(name).exists() and str(name).count("/") != 1:
        raise InputError(f"{name}: no such folder (a Hub id has the form organisation/name)")
    model: Any = CarpModel.from_pretrained(name, **options)
    loaded: CarpModel = model.to(device or _best_device()).eval()
    return loaded


def _best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
