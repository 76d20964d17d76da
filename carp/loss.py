"""The CLIP loss and its accuracies: pure functions of embeddings and a temperature.

No model and no process group inside: who trains on several processes gathers first.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


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


def false_negatives(*labels: Tensor) -> Tensor:
    """Which pairs share a label and so must not count as each other's negatives.

    Args:
        labels: any number of [n] integer tensors (group, passage text, critique text); a negative
            label means "shares nothing".

    Returns:
        [n, n] bool, symmetric, false on the diagonal.
    """
    n = len(labels[0])
    shared = torch.zeros(n, n, dtype=torch.bool, device=labels[0].device)
    for label in labels:
        shared |= (label[:, None] == label) & (label >= 0)
    return shared.fill_diagonal_(False)


def top_k_accuracy(logits: Tensor, k: int, ignore: Tensor | None = None) -> Tensor:
    """Share of rows whose own column is among the ``k`` highest; call with ``logits.T`` for the other way.

    Equal logits count against the row, so that a collapsed model does not look right.
    """
    if ignore is not None:
        logits = logits.masked_fill(ignore, float("-inf"))
    own = logits.diagonal()[:, None]
    rivals = (logits >= own).sum(dim=1) - 1
    return (rivals < k).float().mean()
