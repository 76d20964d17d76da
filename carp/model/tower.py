"""One tower: encoder, pooling, normalisation, projection, normalisation (CARP, section 3)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModel, PreTrainedConfig

from carp.model.cpu_layers import use_cpu_layers
from carp.model.heap import keep_heap
from carp.model.texts import TokenizedTexts
from carp.model.unpadded import ATTENTION, Layout, first_position, pool_runs, position_ids


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


def encoder_options(config: PreTrainedConfig) -> dict[str, Any]:
    """Options of ``from_config`` and ``from_pretrained``: un-padded attention where an encoder can do it, and no
    pooler, whose weights would never get a gradient."""
    options: dict[str, Any] = {} if first_position(config) is None else {"attn_implementation": ATTENTION}
    model_class: Any = AutoModel._model_mapping[type(config)]
    candidates = model_class if isinstance(model_class, tuple) else (model_class,)
    takes_option = all("add_pooling_layer" in inspect.signature(c).parameters for c in candidates)
    return options | ({"add_pooling_layer": False} if takes_option else {})


class TextTower(nn.Module):
    """Texts to unit vectors.

    Args:
        encoder_config: configuration of the encoder.
        projection_dim: output width, or ``None`` for the encoder's own.
        pooling: a key of :data:`POOLINGS`.
    """

    def __init__(self, encoder_config: PreTrainedConfig, projection_dim: int | None, pooling: str) -> None:
        super().__init__()
        self.first_position = first_position(encoder_config)
        self.take_encoder(AutoModel.from_config(encoder_config, **encoder_options(encoder_config)))
        self.projection = nn.Linear(encoder_config.hidden_size, projection_dim, bias=False) if projection_dim else None
        self.pooling = pooling
        self.pad_token_id: int = encoder_config.pad_token_id or 0

    def take_encoder(self, encoder: nn.Module) -> None:
        """Make this the encoder; it is of the class and size of the one before."""
        use_cpu_layers(encoder)
        self.encoder: Any = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """[n, length] token ids and mask -> [n, dim] embeddings of unit length, float32 or better."""
        return self._project(self._pool_padded(input_ids, attention_mask))

    def embed(self, texts: TokenizedTexts, rows: Tensor) -> Tensor:
        """Embeddings [k, dim] of the texts ``rows``: the one place where a chunk is computed."""
        if self.device.type == "cpu":
            keep_heap()
        if texts.pooled is None:
            return self._project(self.pool(texts, rows))
        return self._project(texts.pooled[rows].to(self.device))

    def pool(self, texts: TokenizedTexts, rows: Tensor) -> Tensor:
        """Pooled states [k, hidden] of the texts ``rows``: what the projection is of."""
        device = self.device
        # Any other attention would ignore the boundaries and let texts see each other.
        if self.first_position is None or self.encoder.config._attn_implementation != ATTENTION:
            input_ids, mask = texts.padded(rows, self.pad_token_id)
            return self._pool_padded(input_ids.to(device), mask.to(device))
        tokens, lengths = texts.flat(rows)
        layout = Layout.of(lengths, device)
        states = self.encoder(
            input_ids=tokens[None].to(device),
            position_ids=position_ids(lengths, self.first_position)[None].to(device),
            layout=layout,
        ).last_hidden_state[0]
        return pool_runs(_sharpened(states), layout, self.pooling)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def _pool_padded(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return POOLINGS[self.pooling](_sharpened(states), attention_mask)

    def _project(self, pooled: Tensor) -> Tensor:
        pooled = F.normalize(pooled, dim=-1)
        if self.projection is None:
            return pooled
        projected = self.projection(pooled.to(self.projection.weight.dtype))
        return F.normalize(projected.to(pooled.dtype), dim=-1)


def _sharpened(states: Tensor) -> Tensor:
    # A sum over 512 tokens overflows float16 and loses most of bfloat16's digits.
    return states.to(torch.promote_types(states.dtype, torch.float32))
