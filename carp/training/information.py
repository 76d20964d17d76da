"""What a preset or checkpoint is made of."""

from __future__ import annotations

from pathlib import Path

import torch
from rich.table import Table
from torch import nn
from transformers.initialization import no_init_weights

from carp.config import load_config, preset_names, preset_path
from carp.errors import InputError
from carp.model.carp_model import CarpModel
from carp.model.configuration import CarpConfig
from carp.model.encoders import load_encoder_config
from carp.training.setup import architecture_config


def describe_model(name: str) -> Table:
    """A table of the architecture and the numbers of parameters.

    Args:
        name: a preset, a YAML configuration, a checkpoint folder or a Hub id.

    Raises:
        InputError: if there is nothing of this name.
    """
    config = find_config(name)
    with torch.device("meta"), no_init_weights():
        model = CarpModel(config)
    table = Table("", "passages", "critiques", title=name, title_justify="left")
    encoders = (config.passage_config, config.critique_config)
    for label, field in (
        ("encoder", "model_type"),
        ("layers", "num_hidden_layers"),
        ("width", "hidden_size"),
        ("heads", "num_attention_heads"),
        ("feed-forward width", "intermediate_size"),
        ("vocabulary with the quote token", "vocab_size"),
    ):
        table.add_row(label, *(str(getattr(encoder, field, "-")) for encoder in encoders))
    table.add_row("context, tokens", str(config.max_passage_tokens), str(config.max_critique_tokens))
    table.add_row("pooling", config.pooling, config.pooling)
    table.add_row("embedding width", *[str(config.embedding_dim)] * 2)
    table.add_row("parameters", *(f"{count_parameters(t):,}" for t in (model.passage_tower, model.critique_tower)))
    table.add_section()
    table.add_row("parameters in all", f"{count_parameters(model):,}", "")
    table.add_row("with poolers, as the paper counts", f"{count_parameters(model) + pooler_parameters(config):,}", "")
    return table


def find_config(name: str) -> CarpConfig:
    """The model configuration behind a preset, a YAML file, a checkpoint folder or a Hub id."""
    if preset_path(name) is None and not name.endswith((".yaml", ".yml")):
        return _checkpoint_config(name)
    settings = load_config(name).model
    if settings.checkpoint:
        return _checkpoint_config(settings.checkpoint)
    architecture = settings.architecture or load_encoder_config(str(settings.encoder)).to_dict()
    quote = 1 if settings.encoder else 0  # a tokenizer trained on the pairs counts [quote] in
    settings = settings.model_copy(update={"architecture": architecture})
    return architecture_config(settings, vocab_size=architecture["vocab_size"] + quote)


def _checkpoint_config(name: str) -> CarpConfig:
    if not Path(name).exists() and name.count("/") != 1:
        raise InputError(f"{name}: no preset ({', '.join(preset_names())}), no folder and no Hub id")
    try:
        config = CarpConfig.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: holds no CARP model ({str(error).splitlines()[0]})") from error
    if config.model_type != "carp":
        raise InputError(f"{name}: a {config.model_type} model, not a CARP model")
    return config


def count_parameters(module: nn.Module) -> int:
    """Number of parameters of a module."""
    return sum(p.numel() for p in module.parameters())


def pooler_parameters(config: CarpConfig) -> int:
    """What the encoders' pooler layers would add: CARP never uses them, the paper counts them."""
    return sum(e.hidden_size * (e.hidden_size + 1) for e in (config.passage_config, config.critique_config))
