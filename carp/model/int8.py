"""Encoders with 8-bit linear layers, for scoring on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from carp.errors import InputError
from carp.model.carp_model import CarpModel

# A reduced range: CPUs without VNNI add pairs of products in 16 bits, and 2 x 127 x 127 would just fit, but
# libraries shift activations to 0..255 there, and 2 x 255 x 127 would not.
WEIGHT_RANGE = 63
ACTIVATION_RANGE = 127
MIN_SCALE = 1e-12  # of a row of zeros


class Int8Linear(nn.Module):
    """A linear layer whose product is computed in 8 bits: weights per output channel, activations per token.

    Args:
        linear: the layer that it stands for.
    """

    weight: Tensor  # [in, out] int8
    scale: Tensor  # [out]
    bias: Tensor | None  # [out]

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        scale = (weight.abs().amax(dim=1) / WEIGHT_RANGE).clamp(min=MIN_SCALE)
        self.register_buffer("weight", (weight / scale[:, None]).round().to(torch.int8).t().contiguous())
        self.register_buffer("scale", scale)
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().float())

    def forward(self, states: Tensor) -> Tensor:
        """[..., in] -> [..., out], float32. In place where it can: a copy would cost as much as the product."""
        rows = states.flatten(0, -2)
        scale = (rows.abs().amax(dim=1, keepdim=True) / ACTIVATION_RANGE).clamp_(min=MIN_SCALE)
        product = torch._int_mm((rows / scale).round_().to(torch.int8), self.weight)
        found = product.to(torch.float32).mul_(scale).mul_(self.scale)
        if self.bias is not None:
            found += self.bias
        return found.unflatten(0, states.shape[:-1])


def convert_to_int8(model: CarpModel) -> CarpModel:
    """Replace the linear layers of both encoders, in place; embeddings keep a mean cosine above 0.99 to float32.

    The projections stay as they are: they take a thousandth of the time, and their error would not average out.

    Raises:
        InputError: if the model is not on a CPU.
    """
    if model.device.type != "cpu":
        raise InputError(f"int8 is for CPUs, and the model is on {model.device}: use bfloat16 there")
    for tower in (model.passage_tower, model.critique_tower):
        _replace_linear_layers(tower.encoder)
    return model.eval()


def is_int8(model: CarpModel) -> bool:
    return any(isinstance(module, Int8Linear) for module in model.modules())


def _replace_linear_layers(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Int8Linear(child))
        else:
            _replace_linear_layers(child)
