"""Dropout on a CPU, drawn faster than torch draws it and kept in a quarter of the memory.

torch draws each element of a mask by itself, which takes a tenth of a training step; here a draw of 64 bits serves
four elements. A graph keeps one byte an element, and of attention the weights before dropout alone: so more chunks'
graphs fit into memory and need no second pass.
"""

from __future__ import annotations

from typing import Any

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
    """Attention [..., tokens, width] with dropout of its weights: what torch does on a CPU, where it has no kernel
    for it, but for a guard against empty rows."""
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
    draws = torch.empty((states.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
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
        weights = ((query * scale) @ key.transpose(-1, -2)).softmax(-1).to(query.dtype)
        kept, ctx.factor = _drawn(weights, p)
        ctx.scale = scale
        ctx.save_for_backward(query, key, value, weights, kept)
        # The factor scales the values: they are fewer than the weights.
        return (weights * kept.to(weights.dtype)) @ (value * ctx.factor)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        query, key, value, weights, kept = ctx.saved_tensors
        mask = kept.to(weights.dtype)
        scaled = grad * ctx.factor
        grad_value = (weights * mask).transpose(-1, -2) @ scaled
        grad_weights = mask.mul_(scaled @ value.transpose(-1, -2))
        grad_scores = torch._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
        grad_query = (grad_scores @ key).mul_(ctx.scale)
        grad_key = (grad_scores.transpose(-1, -2) @ query).mul_(ctx.scale)
        return grad_query, grad_key, grad_value, None, None
