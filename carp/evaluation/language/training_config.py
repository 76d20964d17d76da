"""What a language model is finetuned with: the configuration of ``carp train``, and two settings more."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, PositiveInt

from carp.config import Section, TrainingConfig, load_config
from carp.errors import InputError
from carp.training.setup import with_prepared_parts

# What says nothing about a language model.
FOREIGN = {
    "model": ("projection_dim", "pooling", "max_passage_tokens", "max_critique_tokens"),
    "train": ("keep_graphs", "logit_scale_lr"),
}


class LanguageSettings(Section):
    """What the configuration of a CARP model has no name for."""

    context: PositiveInt | None = Field(None, description="tokens of a window; by default the model's context")
    lora: int = Field(0, ge=0, description="rank of LoRA adapters; 0: all weights are trained")


class FinetuneConfig(TrainingConfig):
    """Everything a finetuning run depends on; saved with every checkpoint.

    ``model.checkpoint`` is the language model; ``train.batch_size`` counts windows; ``train.tokens_per_chunk`` over the
    context is how many windows each process computes at once.
    """

    language: LanguageSettings = LanguageSettings()  # type: ignore[call-arg]


def load_finetune_config(source: str, overrides: Sequence[str], context: int | None, lora: int) -> FinetuneConfig:
    """Build a configuration.

    Args:
        source: a YAML file or ``finetune_gptj``.
        overrides: words ``section.key=value``.
        context: tokens of a window; ``None``: the model's context.
        lora: rank of LoRA adapters; 0: none.

    Raises:
        InputError: names what does not fit.
    """
    if lora < 0 or (context is not None and context < 2):
        raise InputError("--lora takes a rank of 0 or more, --context 2 tokens or more")
    config = with_prepared_parts(load_config(source, overrides))
    if not config.model.checkpoint:
        raise InputError(f"{source}: names no language model; add model.checkpoint=EleutherAI/gpt-j-6b, or another one")
    for section, names in FOREIGN.items():
        settings = getattr(config, section)
        for name in names:
            if getattr(settings, name) != type(settings).model_fields[name].get_default():
                raise InputError(f"{section}.{name} says nothing about a language model; leave it out")
    return FinetuneConfig(**config.model_dump(), language={"context": context, "lora": lora})  # type: ignore[arg-type]
