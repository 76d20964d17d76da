"""Finding the model that scores."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from carp.errors import InputError
from carp.model.bundled import bundled_checkpoint, default_model
from carp.model.carp_model import CarpModel
from carp.model.int8 import convert_to_int8

Precision = Literal["float32", "bfloat16", "float16", "int8"]


def load(
    name: str | os.PathLike[str] | None = None,
    *,
    device: str | None = None,
    precision: Precision = "float32",
    **options: Any,
) -> CarpModel:
    """Load a model for scoring, on the GPU if there is one.

    Args:
        name: folder or Hub id; by default what the environment variable ``CARP_MODEL`` names, else the bundled
            checkpoint, where there is one.
        device: e.g. ``"cuda:1"``; by default CUDA or MPS where there is one, else the CPU.
        precision: ``"bfloat16"`` and ``"float16"`` are for GPUs; ``"int8"`` computes the encoders' linear layers
            in 8 bits on a CPU (embeddings keep a mean cosine of at least 0.99 to float32).
        **options: of ``from_pretrained``, e.g. ``revision``.

    Raises:
        InputError: if there is no such model, device or precision.
    """
    name = name or default_model()
    if not Path(name).exists() and not bundled_checkpoint(name) and str(name).count("/") != 1:
        raise InputError(f"{name}: no such folder (a Hub id has the form organisation/name)")
    if precision not in get_args(Precision):
        raise InputError(f"precision={precision!r}: choose {', '.join(get_args(Precision))}")
    dtype = torch.float32 if precision == "int8" else getattr(torch, precision)
    place = checked_device(device or ("cpu" if precision == "int8" else _best_device()))
    model: Any = CarpModel.from_pretrained(name, **{"dtype": dtype, **options})
    loaded: CarpModel = model.to(place).eval()
    return convert_to_int8(loaded) if precision == "int8" else loaded


def found_model(model: CarpModel | str | None) -> CarpModel:
    """A model as it is, or the one of this name (see :func:`load` for the default), loaded once."""
    return model if isinstance(model, CarpModel) else _load_once(model or default_model())


@lru_cache(maxsize=2)
def _load_once(name: str) -> CarpModel:
    return load(name)


def checked_device(name: str) -> str:
    """The name of a device that this machine has.

    Raises:
        InputError: if there is no such device.
    """
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # torch raises the latter where it was built without CUDA
        raise InputError(f"no device {name!r} on this machine: use e.g. {_best_device()}") from error
    return name


def _best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
