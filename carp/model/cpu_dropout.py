"""Dropout on a CPU, drawn faster than torch draws it and kept in a quarter of the memory.

torch draws each element of a mask by itself, which takes a tenth of a training step; here a draw of 64 bits serves
four elements, and it comes from a generator of numpy's that is several times as fast, seeded by torch's own. A graph
keeps one byte an element, and of attention the weights before dropout alone: so more chunks' graphs fit into memory and
need no second pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LEVELS = 2**16  # of a drop-out probability: what is kept is scaled by the probability that it is rounded to


class CpuDropout(nn.Dropout):
    """``nn.Dropout`` with masks of :func:`dropout`."""

    def forward(self, states: Tensor) -> Tensor:
        return dropout(states, self.p) if self.training else states


def dropout(states: Tensor, p: float) -> Tensor:
    """Every element zero with probability ``p``, rounded to a 65536th, else scaled so that the expectation stays."""
    if not _is_drawn(states, p):
        return F.dropout(states, p)
    found: Tensor = _Dropout.apply(states, p)
    return found


def attend_with_dropout(query: Tensor, key: Tensor, value: Tensor, p: float, scaling: float | None) -> Tensor:
    """Attention [..., heads, tokens, width] with dropout of its weights: what torch does on a CPU, where it has no
    kernel for it, but for a guard against empty rows."""
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if not _is_drawn(query, p):
        weights = ((query * scale) @ key.transpose(-1, -2)).softmax(-1)
        return F.dropout(weights, p) @ value
    found: Tensor = _Attention.apply(query, key, value, p, scale)
    return found


def _is_drawn(states: Tensor, p: float) -> bool:
    return states.device.type == "cpu" and 0 < round(p * LEVELS) < LEVELS


def _drawn(states: Tensor, p: float) -> tuple[Tensor, float]:
    """Which elements are kept, of the shape of ``states``, and what they are scaled by."""
    dropped = round(p * LEVELS)
    generator = np.random.SFC64(int(torch.empty((), dtype=torch.int64).random_()))
    draws = torch.from_numpy(generator.random_raw((states.numel() + 3) // 4).view(np.int16))
    kept = (draws[: states.numel()] >= dropped - LEVELS // 2).view(states.shape)
    return kept, LEVELS / (LEVELS - dropped)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, p: float) -> Tensor:
        kept, ctx.factor = _drawn(states, p)
        ctx.save_for_backward(kept)
        return kept.to(states.dtype).mul_(ctx.factor).mul_(states)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return kept.to(grad.dtype).mul_(ctx.factor).mul_(grad), None


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, p: float, scale: float) -> Tensor:
        rows = query.shape[:-2]
        query, key, value = (x.flatten(0, -3) for x in (query, key, value))
        weights = _scaled_product(query, key.mT, scale).softmax(-1).to(query.dtype)
        kept, ctx.factor = _drawn(weights, p)
        ctx.scale = scale
        ctx.save_for_backward(query, key, value, weights, kept)
        return _scaled_product(weights * kept.view(torch.int8), value, ctx.factor).unflatten(0, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        query, key, value, weights, kept = ctx.saved_tensors
        rows, grad, mask = grad.shape[:-2], grad.flatten(0, -3), kept.view(torch.int8)
        grad_value = _scaled_product((weights * mask).mT, grad, ctx.factor)
        grad_weights = _scaled_product(grad, value.mT, ctx.factor).mul_(mask)
        grad_scores = torch._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
        grad_query = _scaled_product(grad_scores, key, ctx.scale)
        grad_key = _scaled_product(grad_scores.mT, query, ctx.scale)
        return (*(x.unflatten(0, rows) for x in (grad_query, grad_key, grad_value)), None, None)


def _scaled_product(left: Tensor, right: Tensor, scale: float) -> Tensor:
    """[n, a, b] x [n, b, c], scaled without a pass of its own."""
    return torch.baddbmm(left.new_empty(()), left, right, beta=0, alpha=scale)
