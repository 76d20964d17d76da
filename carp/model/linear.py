"""Linear layers whose float32 products on a CPU are computed by oneDNN.

torch gives them to MKL, which on CPUs of other makers than its own is a quarter to a third slower at the shapes of a
chunk (`scripts/bench/README.md`). oneDNN comes with torch too, and is what torch.compile calls for the same layers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def _find_product() -> Any:
    """oneDNN's linear layer, an operator for dense tensors that has no gradient; ``None`` where torch lacks it."""
    if not torch.backends.mkldnn.is_available():
        return None
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


_product = _find_product()


class OneDnnLinear(nn.Linear):
    """``nn.Linear`` by oneDNN where that can be: float32 on a CPU, outside of autocast; else just ``nn.Linear``."""

    def forward(self, states: Tensor) -> Tensor:
        dense = states.device.type == "cpu" and states.dtype == self.weight.dtype == torch.float32
        if _product is None or not dense or torch.is_autocast_enabled("cpu"):
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


def use_onednn(module: nn.Module) -> None:
    """Make every plain linear layer within ``module`` a :class:`OneDnnLinear`, in place; the weights stay."""
    for child in module.modules():
        if type(child) is nn.Linear:
            child.__class__ = OneDnnLinear
