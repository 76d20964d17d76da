"""Layers that do on a CPU what torch's own do, faster or in less memory; elsewhere they are torch's own.

torch gives float32 products to MKL, which on CPUs of other makers than its own is a quarter to a third slower at the
shapes of a chunk, on its maker's a little faster (``scripts/bench/README.md``). oneDNN comes with torch too, and is
what torch.compile calls for the same layers. Dropout: see :mod:`carp.model.cpu_dropout`.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers.activations import GELUActivation

from carp.model.cpu_dropout import CpuDropout


def use_cpu_layers(module: nn.Module) -> None:
    """Make the linear layers, GELUs and dropouts within ``module`` those of this file, in place; the weights stay."""
    for child in module.modules():
        if type(child) in CPU_LAYERS:
            child.__class__ = CPU_LAYERS[type(child)]


def onednn_product() -> Any:
    """oneDNN's linear layer, an operator for dense tensors that has no gradient; ``None`` where torch lacks it."""
    if not torch.backends.mkldnn.is_available():
        return None
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


def _is_intel() -> bool:
    # By the maker, not by a trial: a run that is resumed must compute the same digits.
    cpus = Path("/proc/cpuinfo")
    return "Intel" in (cpus.read_text(errors="replace") if cpus.exists() else platform.processor())


_product: Any = None if _is_intel() else onednn_product()


class CpuLinear(nn.Linear):
    """``nn.Linear`` by the faster library, in float32 on a CPU, outside of autocast; see also :class:`CpuGelu`."""

    def forward(self, states: Tensor) -> Tensor:
        dense = states.device.type == "cpu" and states.dtype == self.weight.dtype == torch.float32
        if states.dim() < 2 or not dense or torch.is_autocast_enabled("cpu"):
            return super().forward(states)
        found: Tensor = _Linear.apply(states, self.weight, self.bias, getattr(states, "before_gelu", None))
        return found


class CpuGelu(GELUActivation):
    """GELU whose result no graph keeps: :class:`CpuLinear` behind it computes it again for its weights' gradient.

    It does so from GELU's input, which GELU's own gradient needs anyway. The result, four hidden states wide, would be
    a fifth of a graph.
    """

    def forward(self, states: Tensor) -> Tensor:
        found: Any = super().forward(states)
        if found.requires_grad:
            found.before_gelu = states.detach()
        return found


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None, before_gelu: Tensor | None) -> Tensor:
        ctx.follows_gelu = before_gelu is not None
        ctx.save_for_backward(states if before_gelu is None else before_gelu, weight)
        return _multiply(states, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        saved, weight = ctx.saved_tensors
        needs_states, needs_weight, needs_bias, _ = ctx.needs_input_grad
        rows, grad_weight = grad.flatten(0, -2), None
        if needs_weight:
            states = F.gelu(saved) if ctx.follows_gelu else saved
            # A sum over thousands of tokens into a small matrix: there MKL is the faster one on every CPU.
            grad_weight = rows.t() @ states.flatten(0, -2)
        grad_states = _multiply(grad, weight.t(), None) if needs_states else None
        return grad_states, grad_weight, rows.sum(0) if needs_bias else None, None


def _multiply(states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """[..., in] x [out, in] -> [..., out]."""
    if _product is None:
        return F.linear(states, weight, bias)
    found: Tensor = _product(states, weight, bias, "none", [], "")
    return found


CPU_LAYERS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: CpuLinear,
    nn.Dropout: CpuDropout,
    GELUActivation: CpuGelu,
}
