"""Checkpoints of some megabytes: what training has changed in encoders that everybody can get.

Both towers start from one public encoder. A compact checkpoint names it and keeps of each matrix the difference in 4
bits an element, with a scale for each row. What has not changed, such as frozen word embeddings, is left out; what is
small (biases, norms, rows of added tokens, the temperature) is kept in float32, projections in float16.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from carp.constants import COMPACT
from carp.errors import InputError
from carp.files import written_file
from carp.model.card import basic_card
from carp.model.encoders import load_encoder_config, load_tokenizer, quiet_transformers, resolve_encoder
from carp.model.tower import encoder_options

if TYPE_CHECKING:
    from carp.model.carp_model import CarpModel

LEVELS = 7  # on either side of zero: 15 of the 16 values that 4 bits hold
CODES, SCALE, ROWS = "|codes", "|scale", "|rows"  # what follows a weight's name where it is not stored whole
State = dict[str, Tensor]


def save_compact(model: CarpModel, encoder: str, folder: Path) -> None:
    """Write a compact checkpoint, which ``CarpModel.from_pretrained`` loads like any other.

    Its embeddings differ a little from the model's own, since 4 bits are kept of every change.

    Args:
        model: both towers of which were trained from ``encoder``.
        encoder: folder or Hub id; needed for loading, too. Its tokenizer is the checkpoint's.
        folder: made where it does not exist.

    Raises:
        InputError: if ``encoder`` cannot be loaded or is of another shape.
    """
    base = _encoder_state(encoder)
    own = {name: weight.detach().float().cpu() for name, weight in model.state_dict().items()}
    stored: State = {}
    for name, weight in own.items():
        stored |= _stored(name, weight, base.get(_name_in_encoder(name)))
    folder.mkdir(parents=True, exist_ok=True)
    model.config.save_pretrained(folder)
    model.save_reference(folder)
    about = {"format": "pt", "encoder": encoder, "encoder_digest": weights_digest(base)}
    with written_file(folder / COMPACT) as draft:
        save_file({name: tensor.contiguous() for name, tensor in stored.items()}, draft, about)
    if not (folder / "README.md").exists():
        (folder / "README.md").write_text(basic_card(model), encoding="utf-8")


def is_compact(folder: Path) -> bool:
    return (folder / COMPACT).exists()


def load_compact_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of the encoder that a compact checkpoint builds on."""
    with safe_open(folder / COMPACT, "pt") as file:
        return load_tokenizer(file.metadata()["encoder"])


def restored_state(folder: Path) -> State:
    """All weights of a compact checkpoint's model, by their names in the model.

    Raises:
        InputError: if the encoder that it builds on cannot be loaded or has other weights than it had.
    """
    with safe_open(folder / COMPACT, "pt") as file:
        about = file.metadata()
        stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (it is no dict)
    base = _encoder_state(about["encoder"])
    if weights_digest(base) != about["encoder_digest"]:
        raise InputError(f"{folder}: needs the weights of {about['encoder']} that it was made from; these are others")
    state = {
        f"{side}_tower.encoder.{name}": weight for side in ("passage", "critique") for name, weight in base.items()
    }
    for name, tensor in sorted(stored.items()):  # a weight's codes before the rows that follow the encoder's
        weight, _, part = name.partition("|")
        if not part:
            state[weight] = tensor.float()
        elif name.endswith(ROWS):
            state[weight] = torch.cat([state[weight], tensor])
        elif name.endswith(CODES):
            state[weight] = state[weight] + _unpacked(tensor, stored[weight + SCALE], state[weight].shape)
    return state


def _stored(name: str, weight: Tensor, base: Tensor | None) -> State:
    if base is None:
        return {name: weight.half() if weight.dim() > 1 else weight}
    if weight.dim() < 2:
        return {} if torch.equal(weight, base) else {name: weight}
    if weight.shape[1:] != base.shape[1:] or len(weight) < len(base):
        raise InputError(
            f"{name} has the shape {list(weight.shape)}, the encoder's {list(base.shape)}: name its encoder"
        )
    found: State = {}
    if len(weight) > len(base):
        found[name + ROWS] = weight[len(base) :]
    if not torch.equal(weight[: len(base)], base):
        found[name + CODES], found[name + SCALE] = _packed(weight[: len(base)] - base)
    return found


def _packed(change: Tensor) -> tuple[Tensor, Tensor]:
    """Codes [ceil(numel / 2)] uint8, two to a byte, and scales [rows] float16."""
    rows = change.flatten(1)
    # Rounded to what is stored before anything is divided by it; none is zero, not even of a row without a change.
    scale = (rows.abs().amax(dim=1) / LEVELS).clamp(min=2**-24).half()
    codes = (rows / scale.float()[:, None]).round().clamp(-LEVELS, LEVELS).to(torch.int16)
    flat = torch.nn.functional.pad((codes + LEVELS).flatten(), (0, codes.numel() % 2)).to(torch.uint8)
    return flat[::2] | flat[1::2] << 4, scale


def _unpacked(codes: Tensor, scale: Tensor, shape: torch.Size) -> Tensor:
    flat = torch.stack([codes & 15, codes >> 4], dim=1).flatten()[: shape.numel()]
    rows = (flat.float() - LEVELS).view(len(scale), -1) * scale.float()[:, None]
    return rows.view(shape)


def _name_in_encoder(name: str) -> str:
    return name.partition("_tower.encoder.")[2]


def _encoder_state(name: str) -> State:
    config = load_encoder_config(name)
    with quiet_transformers():
        encoder: Any = AutoModel.from_pretrained(resolve_encoder(name), use_safetensors=True, **encoder_options(config))
    return {key: weight.float() for key, weight in encoder.state_dict().items()}


def weights_digest(state: Mapping[str, Tensor]) -> str:
    """What tells whether weights on the CPU are still the same."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(state):
        digest.update(state[name].contiguous().numpy().data)
    return digest.hexdigest()
