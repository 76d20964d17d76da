"""Scores read as percentiles.

A raw cosine is no grade: some reviews lie close to every passage, some far from all. What a score means shows beside
the scores of many other passages for the same review. A checkpoint carries the embeddings of such passages, so that
this works for any review that a person can phrase.
"""

from __future__ import annotations

import torch
from torch import Tensor

from carp.errors import InputError
from carp.model.carp_model import CarpModel


def expect_reference(model: CarpModel) -> Tensor:
    """[n, dim] embeddings of the passages that a model's scores are compared with, on its device.

    Raises:
        InputError: if the checkpoint has none.
    """
    if model.reference is None:
        name = model.config._name_or_path
        raise InputError(f"{name}: has no reference passages; leave calibrated out, or see carp.calibrate")
    return model.reference.to(model.device)


def percentiles(scores: Tensor, reference: Tensor) -> Tensor:
    """The share of reference scores that lie below each score, in percent; equal ones count half.

    Args:
        scores: [n, n_reviews].
        reference: [k, n_reviews] scores of other passages for the same reviews.

    Returns:
        [n, n_reviews] in [0, 100].
    """
    columns = reference.T.contiguous().sort(dim=1).values
    wanted = scores.T.contiguous()
    below = torch.searchsorted(columns, wanted)
    not_above = torch.searchsorted(columns, wanted, right=True)
    return (below + not_above).T * (50 / len(reference))


def calibrate(model: CarpModel, passages: list[str], progress: bool = False) -> None:
    """Let a model compare its scores with those of these passages; ``save_pretrained`` writes their embeddings.

    Training does it by itself, with validation passages. Passages should be of the kind and about the length of those
    that will be scored; a few hundred are enough.

    Raises:
        InputError: if there are fewer than two, or one is empty.
    """
    if len(passages) < 2:
        raise InputError("give at least two passages to compare scores with; a few hundred are better")
    model.reference = model.encode_passages(passages, progress=progress).float().cpu()
