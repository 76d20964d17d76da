"""Checkpoints of the paper's own code, as checkpoints of this package."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import RobertaConfig

from carp.errors import InputError
from carp.model.carp_model import CarpModel
from carp.model.configuration import CarpConfig
from carp.model.encoders import load_tokenizer

HEAD_WIDTH = 64  # of every RoBERTa that the paper used; the weights do not tell
POSITION_OFFSET = 2  # RoBERTa's positions start behind the padding token
# Parts of the old files that CARP does not use: poolers, masked-language heads, buffers.
UNUSED = re.compile(r"(pooler\.|lm_head\.|embeddings\.position_ids$|embeddings\.token_type_ids$)")
PREFIXES = {"encA.model.": "passage_tower.encoder.", "encB.model.": "critique_tower.encoder."}
NAMES = {
    "projA.weight": "passage_tower.projection.weight",
    "projB.weight": "critique_tower.projection.weight",
    "logit_scale": "logit_scale",
}


def convert_checkpoint(old: str | Path, tokenizer: str) -> CarpModel:
    """Read a state dict of the paper's own release (``encA.model.*``, ``encB.model.*``, ``projA.weight``, ...).

    Args:
        old: the ``.pt`` file; nothing but tensors is read from it.
        tokenizer: folder or Hub id of the tokenizer that the encoders were trained with, without ``[quote]``.

    Raises:
        InputError: if the file is missing, holds anything else than tensors, or is no such state dict.
    """
    state = _rename(_load_tensors(Path(old)), old)
    configs: dict[str, Any] = {f"{side}_config": _encoder_config(state, side) for side in ("passage", "critique")}
    dim = state["passage_tower.projection.weight"].shape[0]
    contexts: dict[str, Any] = {
        f"max_{side}_tokens": configs[f"{side}_config"].max_position_embeddings - POSITION_OFFSET
        for side in ("passage", "critique")
    }
    model = CarpModel(CarpConfig(**configs, projection_dim=dim, **contexts))
    try:
        missing, unexpected = model.load_state_dict(state, strict=False)
    except RuntimeError as error:
        problem = str(error).splitlines()[1].strip()
        raise InputError(f"{old}: no checkpoint of the paper's code ({problem})") from error
    if missing or unexpected:
        problem = f"lacks {missing[0]}" if missing else f"holds the unknown {unexpected[0]}"
        raise InputError(f"{old}: no checkpoint of the paper's code ({problem})")
    for side in ("passage", "critique"):
        found = load_tokenizer(tokenizer)
        if len(found) != configs[f"{side}_config"].vocab_size:
            raise InputError(
                f"{old}: its {side} encoder knows {configs[f'{side}_config'].vocab_size} tokens, the tokenizer "
                f"{tokenizer!r} with [quote] {len(found)}: name the right one with --tokenizer"
            )
        setattr(model, f"{side}_tokenizer", found)
    return model


def _load_tensors(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise InputError(
            f"{path}: holds something else than tensors, or is damaged; it was not loaded: save model.state_dict()"
        ) from error
    if not isinstance(loaded, Mapping) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise InputError(f"{path}: no state dict of tensors; save model.state_dict() and convert that")
    return dict(loaded)


def _rename(old: Mapping[str, Tensor], path: str | Path) -> dict[str, Tensor]:
    new: dict[str, Tensor] = {}
    for name, tensor in old.items():
        if UNUSED.search(name):
            continue
        for prefix, replacement in PREFIXES.items():
            if name.startswith(prefix):
                new[replacement + name.removeprefix(prefix).removeprefix("roberta.")] = tensor
                break
        else:
            new[NAMES.get(name, name)] = tensor
    for name, wanted in NAMES.items():
        if wanted not in new:
            raise InputError(f"{path}: no checkpoint of the paper's code (it has no {name})")
    for name, dimensions in (("projA.weight", 2), ("projB.weight", 2)):
        if new[NAMES[name]].ndim != dimensions:
            raise InputError(f"{path}: no checkpoint of the paper's code ({name} is no matrix)")
    if new["logit_scale"].numel() != 1:
        raise InputError(f"{path}: no checkpoint of the paper's code (logit_scale is no single number)")
    new["logit_scale"] = new["logit_scale"].reshape(1)
    return new


def _encoder_config(state: Mapping[str, Tensor], side: str) -> RobertaConfig:
    prefix = f"{side}_tower.encoder."
    try:
        vocab_size, hidden = state[f"{prefix}embeddings.word_embeddings.weight"].shape
        layers = {int(m[1]) for k in state if (m := re.match(re.escape(prefix) + r"encoder\.layer\.(\d+)\.", k))}
        return RobertaConfig(
            vocab_size=vocab_size,
            hidden_size=hidden,
            num_hidden_layers=max(layers) + 1,
            num_attention_heads=max(1, hidden // HEAD_WIDTH),
            intermediate_size=state[f"{prefix}encoder.layer.0.intermediate.dense.weight"].shape[0],
            max_position_embeddings=state[f"{prefix}embeddings.position_embeddings.weight"].shape[0],
            type_vocab_size=state[f"{prefix}embeddings.token_type_embeddings.weight"].shape[0],
            layer_norm_eps=1e-5,
            pad_token_id=1,
            bos_token_id=0,
            eos_token_id=2,
        )
    except (KeyError, ValueError) as error:
        raise InputError(f"no checkpoint of the paper's code: its {side} encoder is no RoBERTa ({error})") from error
