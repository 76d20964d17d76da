"""One tower: encoder, pooling, normalisation, projection, normalisation (CARP, section 3)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModel, PreTrainedConfig

from carp.model.texts import TokenizedTexts


def masked_sum(states: Tensor, mask: Tensor) -> Tensor:
    return (states * mask[..., None]).sum(dim=1)


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    return masked_sum(states, mask) / mask.sum(dim=1, keepdim=True)


def first_token(states: Tensor, mask: Tensor) -> Tensor:
    return states[:, 0]


POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "masked_sum": masked_sum,
    "mean": masked_mean,
    "cls": first_token,
}


def without_pooler(config: PreTrainedConfig) -> dict[str, bool]:
    """Options that leave out an encoder's pooler, whose weights would never get a gradient."""
    model_class: Any = AutoModel._model_mapping[type(config)]
    candidates = model_class if isinstance(model_class, tuple) else (model_class,)
    takes_option = all("add_pooling_layer" in inspect.signature(c).parameters for c in candidates)
    return {"add_pooling_layer": False} if takes_option else {}


class TextTower(nn.Module):
    """Texts to unit vectors.

    Args:
        encoder_config: configuration of the encoder.
        projection_dim: output width, or ``None`` for the encoder's own.
        pooling: a key of :data:`POOLINGS`.
    """

    def __init__(self, encoder_config: PreTrainedConfig, projection_dim: int | None, pooling: str) -> None:
        super().__init__()
        self.encoder = AutoModel.from_config(encoder_config, **without_pooler(encoder_config))
        self.projection = nn.Linear(encoder_config.hidden_size, projection_dim, bias=False) if projection_dim else None
        self.pool = POOLINGS[pooling]
        self.pad_token_id: int = encoder_config.pad_token_id or 0

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """[n, length] token ids and mask -> [n, dim] embeddings of unit length, float32 or better."""
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        # A sum over 512 tokens overflows float16 and loses most of bfloat16's digits.
        states = states.to(torch.promote_types(states.dtype, torch.float32))
        pooled = F.normalize(self.pool(states, attention_mask), dim=-1)
        if self.projection is not None:
            projected = self.projection(pooled.to(self.projection.weight.dtype))
            pooled = F.normalize(projected.to(states.dtype), dim=-1)
        return pooled

    def embed(self, texts: TokenizedTexts, rows: Tensor) -> Tensor:
        """Embeddings [k, dim] of the texts ``rows``: the one place where a chunk is computed."""
        device = next(self.parameters()).device
        input_ids, mask = texts.padded(rows, self.pad_token_id)
        return self(input_ids.to(device), mask.to(device))
