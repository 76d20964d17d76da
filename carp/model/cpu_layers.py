"""Layers that do on a CPU what torch's own do, faster; elsewhere they are torch's own.

Products: torch gives float32 ones to MKL, which on CPUs of other makers than its own is a quarter to a third slower at
the shapes of a chunk (``scripts/bench/README.md``). oneDNN comes with torch too, and is what torch.compile calls for
the same layers.

Dropout: torch draws each element of a mask by itself, which takes a tenth of a training step; here a draw of 64 bits
serves four elements.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LEVELS = 2**16  # of a drop-out probability: what is kept is scaled by the probability that it is rounded to


def use_cpu_layers(module: nn.Module) -> None:
    """Make the linear layers and dropouts within ``module`` those of this file, in place; the weights stay."""
    for child in module.modules():
        if type(child) in CPU_LAYERS:
            child.__class__ = CPU_LAYERS[type(child)]


def _find_product() -> Any:
    """oneDNN's linear layer, an operator for dense tensors that has no gradient; ``None`` where torch lacks it."""
    if not torch.backends.mkldnn.is_available():
        return None
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


_product = _find_product()


class CpuLinear(nn.Linear):
    """``nn.Linear`` by oneDNN: in float32 on a CPU, outside of autocast."""

    def forward(self, states: Tensor) -> Tensor:
        dense = states.device.type == "cpu" and states.dtype == self.weight.dtype == torch.float32
        if _product is None or states.dim() < 2 or not dense or torch.is_autocast_enabled("cpu"):
            return super().forward(states)
        found: Tensor = _Linear.apply(states, self.weight, self.bias)
        return found


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(states, weight)
        found: Tensor = _product(states, weight, bias, "none", [], "")
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        states, weight = ctx.saved_tensors
        needs_states, needs_weight, needs_bias = ctx.needs_input_grad
        rows = grad.flatten(0, -2)
        grad_states = _product(grad, weight.t(), None, "none", [], "") if needs_states else None
        # A sum over thousands of tokens into a small matrix: there MKL is the faster one.
        grad_weight = rows.t() @ states.flatten(0, -2) if needs_weight else None
        return grad_states, grad_weight, rows.sum(0) if needs_bias else None


class CpuDropout(nn.Dropout):
    """``nn.Dropout`` with masks of :func:`dropout`."""

    def forward(self, states: Tensor) -> Tensor:
        return dropout(states, self.p) if self.training else states


def dropout(states: Tensor, p: float) -> Tensor:
    """Every element zero with probability ``p``, rounded to a 65536th, else scaled so that the expectation stays."""
    dropped = round(p * LEVELS)
    if states.device.type != "cpu" or not 0 < dropped < LEVELS:
        return F.dropout(states, p)
    draws = torch.empty((states.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    kept = draws[: states.numel()] >= dropped - LEVELS // 2
    return states * kept.to(states.dtype).mul_(LEVELS / (LEVELS - dropped)).view(states.shape)


CPU_LAYERS: dict[type[nn.Module], type[nn.Module]] = {nn.Linear: CpuLinear, nn.Dropout: CpuDropout}
