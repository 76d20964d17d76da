"""The configuration of a CARP model: two encoder configurations and what CARP adds to them."""

from __future__ import annotations

import math
from typing import Any, Literal

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig
from transformers.configuration_utils import SubConfigSpec

INITIAL_LOGIT_SCALE = math.log(1 / 0.07)  # CLIP's start
LOGIT_SCALE_BOUNDS = (math.log(1 / 100), math.log(100))  # CARP, section 3


@strict
class CarpConfig(PreTrainedConfig):
    """Configuration of :class:`~carp.CarpModel`; follows the conventions of transformers.

    Args:
        passage_config, critique_config: configurations of the two encoders (any encoder of transformers),
            as objects or as dicts with a ``model_type``.
        projection_dim: width of the embedding space (2048 in the paper); ``None`` for no projection.
        pooling: how token states become one vector. ``masked_sum`` is the paper's; after the L2
            normalisation that follows, ``mean`` differs from it by rounding only; ``cls`` takes the first token.
        max_passage_tokens, max_critique_tokens: context lengths; longer texts are cut at the token level.
    """

    model_type = "carp"
    sub_configs_defaults = {  # noqa: RUF012  (transformers declares it so)
        "passage_config": SubConfigSpec(config_class=AutoConfig, model_type="roberta"),
        "critique_config": SubConfigSpec(config_class=AutoConfig, model_type="roberta"),
    }

    passage_config: Any = None
    critique_config: Any = None
    projection_dim: int | None = 2048
    pooling: Literal["masked_sum", "mean", "cls"] = "masked_sum"
    max_passage_tokens: int = 512
    max_critique_tokens: int = 512

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        for side in ("passage", "critique"):
            capacity = context_capacity(getattr(self, f"{side}_config"))
            wanted = getattr(self, f"max_{side}_tokens")
            if wanted > capacity:
                raise ValueError(
                    f"max_{side}_tokens is {wanted}, but the {side} encoder holds {capacity} positions: "
                    f"set max_{side}_tokens to {capacity} or less"
                )
        if self.projection_dim is None and self.passage_config.hidden_size != self.critique_config.hidden_size:
            raise ValueError("encoders of different widths need a projection: set projection_dim")

    @property
    def embedding_dim(self) -> int:
        """Width of the embeddings that the model returns."""
        return self.projection_dim or self.passage_config.hidden_size


def context_capacity(encoder_config: PreTrainedConfig) -> int:
    """Number of tokens that an encoder can read at once (a large number where it has no limit)."""
    positions = getattr(encoder_config, "max_position_embeddings", None) or 1_000_000
    # RoBERTa counts positions from padding_idx + 1 on.
    shifted = encoder_config.model_type in ("roberta", "xlm-roberta", "camembert")
    return positions - (encoder_config.pad_token_id + 1 if shifted else 0)
