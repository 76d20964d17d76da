"""The CLIP loss and its accuracies: pure functions of embeddings and a temperature.

No model and no process group inside: who trains on several processes gathers first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

ROWS_PER_TILE = 1024


def similarity_logits(passage_embeds: Tensor, critique_embeds: Tensor, scale: Tensor | float) -> Tensor:
    """Cosines times ``scale``, in float32 or better.

    Args:
        passage_embeds: [n, dim], unit length.
        critique_embeds: [m, dim], unit length.
        scale: exp(logit_scale), positive.

    Returns:
        [n, m] logits.
    """
    dtype = torch.promote_types(passage_embeds.dtype, torch.float32)
    return passage_embeds.to(dtype) @ critique_embeds.to(dtype).T * scale


def clip_loss(logits: Tensor, ignore: Tensor | None = None) -> Tensor:
    """Mean of the cross-entropies passage -> critique and critique -> passage (CARP, section 3).

    Args:
        logits: [n, n]; the pair of row i is column i.
        ignore: [n, n] bool, true where two pairs are not each other's negatives (see
            :func:`false_negatives`); its diagonal must be false.

    Returns:
        Scalar loss, the mean over the n pairs.
    """
    if ignore is not None:
        logits = logits.masked_fill(ignore, float("-inf"))
    target = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


def false_negatives(labels: Tensor, rows: slice = slice(None)) -> Tensor:
    """Which pairs share a label and so must not count as each other's negatives.

    Args:
        labels: [n, kinds] integers (group, passage text, critique text); a negative label means "shares nothing".
        rows: the pairs of interest, ``k`` of them.

    Returns:
        [k, n] bool, false where a pair meets itself.
    """
    own = labels[rows]
    shared = torch.zeros(len(own), len(labels), dtype=torch.bool, device=labels.device)
    for mine, all_labels in zip(own.unbind(dim=1), labels.unbind(dim=1), strict=True):
        shared |= (mine[:, None] == all_labels) & (all_labels >= 0)
    shared.diagonal(offset=rows.start or 0).fill_(False)
    return shared


def top_k_accuracy(logits: Tensor, k: int, ignore: Tensor | None = None) -> Tensor:
    """Share of rows whose own column is among the ``k`` highest; call with ``logits.T`` for the other way.

    Equal logits count against the row, so that a collapsed model does not look right.
    """
    if ignore is not None:
        logits = logits.masked_fill(ignore, float("-inf"))
    own = logits.diagonal()[:, None]
    rivals = (logits >= own).sum(dim=1) - 1
    return (rivals < k).float().mean()


class LossAndGradients(NamedTuple):
    """What :func:`clip_loss_and_gradients` returns.

    Attributes:
        loss: scalar.
        accuracy: scalar, top-1, the mean of both directions.
        passages, critiques: [n, dim] gradients of the loss with respect to the embeddings.
        scale: scalar, its gradient with respect to ``scale``.
    """

    loss: Tensor
    accuracy: Tensor
    passages: Tensor
    critiques: Tensor
    scale: Tensor


@torch.no_grad()
def clip_loss_and_gradients(
    passage_embeds: Tensor, critique_embeds: Tensor, scale: Tensor, labels: Tensor, rows_per_tile: int = ROWS_PER_TILE
) -> LossAndGradients:
    """:func:`clip_loss` and its gradients without ever holding the [n, n] logits.

    The logits are formed twice, a tile of rows at a time: first for the normalisers of rows and columns, then for
    the gradient, which is softmax minus identity in both directions.

    Args:
        passage_embeds, critique_embeds: [n, dim], unit length.
        scale: exp(logit_scale), scalar.
        labels: [n, kinds], see :func:`false_negatives`.
        rows_per_tile: logits of so many passages are held at once, with all critiques.
    """
    n, dtype = len(passage_embeds), torch.promote_types(passage_embeds.dtype, torch.float32)
    passages, critiques = passage_embeds.to(dtype), critique_embeds.to(dtype)
    own = (passages * critiques).sum(dim=1) * scale
    row_sums = torch.empty(n, dtype=dtype, device=own.device)
    column_sums = torch.full_like(row_sums, float("-inf"))
    best_in_row = torch.empty(n, dtype=torch.bool, device=own.device)
    column_rivals = torch.zeros(n, dtype=torch.long, device=own.device)
    for rows, logits in _tiles(passages, critiques, scale, labels, rows_per_tile):
        row_sums[rows] = logits.logsumexp(dim=1)
        column_sums = torch.logaddexp(column_sums, logits.logsumexp(dim=0))
        logits.diagonal(offset=rows.start).fill_(float("-inf"))
        best_in_row[rows] = (logits < own[rows, None]).all(dim=1)
        column_rivals += (logits >= own).sum(dim=0)

    passage_gradient, critique_gradient = torch.empty_like(passages), torch.zeros_like(critiques)
    scale_gradient = torch.zeros((), dtype=dtype, device=own.device)
    for rows, logits in _tiles(passages, critiques, scale, labels, rows_per_tile):
        softmaxes = (logits - row_sums[rows, None]).exp_() + (logits - column_sums).exp_()
        softmaxes.diagonal(offset=rows.start).sub_(2)
        softmaxes /= 2 * n
        passage_gradient[rows] = softmaxes @ critiques
        critique_gradient += softmaxes.T @ passages[rows]
        scale_gradient += (passage_gradient[rows] * passages[rows]).sum()
    loss = (row_sums + column_sums - 2 * own).mean() / 2
    accuracy = (best_in_row.float().mean() + (column_rivals == 0).float().mean()) / 2
    return LossAndGradients(loss, accuracy, passage_gradient.mul_(scale), critique_gradient.mul_(scale), scale_gradient)


def _tiles(
    passages: Tensor, critiques: Tensor, scale: Tensor, labels: Tensor, rows_per_tile: int
) -> Iterator[tuple[slice, Tensor]]:
    for start in range(0, len(passages), rows_per_tile):
        rows = slice(start, start + rows_per_tile)
        logits = (passages[rows] @ critiques.T).mul_(scale)
        yield rows, logits.masked_fill_(false_negatives(labels, rows), float("-inf"))
