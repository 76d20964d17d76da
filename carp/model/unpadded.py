"""Encoding without padding: all tokens of a chunk in one row, attention within each text.

Linear layers, norms and embeddings see one row of real tokens; only attention knows where a text ends. The model
code stays that of transformers: position ids are given explicitly, and attention is a function registered with its
attention interface that reads the texts' boundaries from a keyword argument.

On a CPU attention is computed for runs of texts of equal lengths, which need neither masks nor copies; on a GPU by one
variable-length kernel, the one that torch chooses for jagged tensors (flash attention in half precision, the
memory-efficient one in float32), because many small kernels would starve it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from carp.model.cpu_dropout import attend_with_dropout

ATTENTION = "carp_unpadded"
# Encoders whose code takes position ids and hands keyword arguments down to attention, with the id of the first
# position: RoBERTa counts from behind its padding token.
BERT_LIKE = ("bert",)
ROBERTA_LIKE = ("roberta", "xlm-roberta", "camembert")
LANES = 16  # float32 values of the widest vector register
log = logging.getLogger(__name__)


class EqualLengths(NamedTuple):
    """A run of ``number`` texts of ``length`` tokens each."""

    number: int
    length: int


class Window(NamedTuple):
    """The keys that each text of a run attends to in inference: ``size`` tokens, its own among them.

    torch's kernel is up to a third slower where the keys fill no whole vector registers (scripts/bench/README.md); so
    a window ends where registers do, if need be in a neighbouring text, whose tokens get the ``bias`` of minus
    infinity.

    Attributes:
        first: token at which the window of the run's first text begins.
        bias: [size], 0 for the text's own tokens; ``None`` where there are no others.
    """

    first: int
    size: int
    bias: Tensor | None


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the ``n`` texts of a chunk lie in its one row of tokens.

    Attributes:
        runs: the texts as runs of equal lengths; few where the chunk is sorted by length.
        offsets: [n + 1] first token of each text, and the number of all tokens; on the encoder's device.
        shortest, longest: tokens of a text.
    """

    runs: list[EqualLengths]
    offsets: Tensor
    shortest: int
    longest: int

    @classmethod
    def of(cls, lengths: Tensor, device: torch.device) -> Layout:
        """The layout of texts of these ``lengths`` [n], one behind the other."""
        runs = [EqualLengths(len(list(group)), length) for length, group in groupby(lengths.tolist())]
        offsets = F.pad(lengths.cumsum(0), (1, 0)).to(device, non_blocking=True)
        return cls(runs, offsets, int(lengths.min()), int(lengths.max()))

    @cached_property
    def windows(self) -> list[Window]:
        """The window of each run."""
        windows, start, total = [], 0, sum(run.number * run.length for run in self.runs)
        for number, length in self.runs:
            size = -(-length // LANES) * LANES
            first = min(start, total - (number - 1) * length - size)  # the last window ends with the chunk
            if size == length or first < 0:
                windows.append(Window(start, length, None))
            else:
                bias = torch.full((size,), -torch.inf)
                bias[start - first :][:length] = 0
                windows.append(Window(first, size, bias))
            start += number * length
        return windows

    def split(self, states: Tensor) -> list[Tensor]:
        """[total, ...] -> [number, length, ...] of each run, views."""
        # One split: slices would each make a gradient of the whole row, zeros but for their own run.
        parts = states.split([run.number * run.length for run in self.runs])
        return [part.unflatten(0, run) for part, run in zip(parts, self.runs, strict=True)]


def first_position(config: PreTrainedConfig) -> int | None:
    """The position id of a text's first token, or ``None`` where an encoder cannot be run without padding."""
    if config.model_type in BERT_LIKE and getattr(config, "position_embedding_type", "absolute") == "absolute":
        return 0
    if config.model_type in ROBERTA_LIKE:
        return int(config.pad_token_id) + 1
    _say_that_it_is_padded(config.model_type)
    return None


@cache  # once for each kind of encoder
def _say_that_it_is_padded(model_type: str) -> None:
    log.warning("%s encoders are run in padded chunks: un-padded encoding knows BERT and RoBERTa only", model_type)


def position_ids(lengths: Tensor, first: int) -> Tensor:
    """[total] position of each token within its text, counted from ``first``."""
    starts = lengths.cumsum(0) - lengths
    return torch.arange(int(lengths.sum())) - starts.repeat_interleave(lengths) + first


def pool_runs(states: Tensor, layout: Layout, pooling: str) -> Tensor:
    """[total, width] token states -> [n, width] pooled texts; see :data:`carp.model.tower.POOLINGS`."""
    pooled = []
    for texts in layout.split(states):
        pooled.append(texts[:, 0] if pooling == "cls" else texts.sum(1) if pooling == "masked_sum" else texts.mean(1))
    return torch.cat(pooled)


def unpadded_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    layout: Layout | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention of one row of texts [1, heads, total, width], each text to itself; padded input goes to sdpa."""
    if layout is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )
    query, key, value = (x[0].transpose(0, 1) for x in (query, key, value))  # [total, heads, width]: no copy
    attend = attend_jagged if query.is_cuda else attend_runs
    return attend(query, key, value, layout, dropout, scaling)[None], None


def attend_runs(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float, scaling: float | None
) -> Tensor:
    """Attention within each text, [total, heads, width], one call for each run of equal lengths."""
    # Not in training: its first pass, without a graph, must compute the digits of its second.
    if torch.is_inference_mode_enabled() and not dropout:
        return attend_windows(query, key, value, layout, scaling)
    attended = []
    for run in zip(*map(layout.split, (query, key, value)), strict=True):
        q, k, v = (x.transpose(1, 2) for x in run)
        if dropout:
            found = attend_with_dropout(q, k, v, dropout, scaling)
        else:
            found = F.scaled_dot_product_attention(q, k, v, scale=scaling)
        attended.append(found.transpose(1, 2).flatten(0, 1))
    return torch.cat(attended)


def attend_windows(query: Tensor, key: Tensor, value: Tensor, layout: Layout, scaling: float | None) -> Tensor:
    """The same, with keys and values read from the run's :class:`Window`; it has no gradient."""
    attended = []
    for q, run, (first, size, bias) in zip(layout.split(query), layout.runs, layout.windows, strict=True):
        number, length = run
        k, v = (x[first:].unfold(0, size, length)[:number].transpose(-1, -2) for x in (key, value))
        bias = None if bias is None else bias.to(q.dtype)[None, None, None]
        found = F.scaled_dot_product_attention(q.transpose(1, 2), k, v, attn_mask=bias, scale=scaling)
        attended.append(found.transpose(1, 2).flatten(0, 1))
    return torch.cat(attended)


def attend_jagged(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float, scaling: float | None
) -> Tensor:
    """The same, [total, heads, width], in one call over a jagged tensor."""
    q, k, v = (
        torch.nested.nested_tensor_from_jagged(
            x, layout.offsets, min_seqlen=layout.shortest, max_seqlen=layout.longest
        ).transpose(1, 2)
        for x in (query, key, value)
    )
    found: Any = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, scale=scaling)
    attended: Tensor = found.transpose(1, 2).values()
    return attended


AttentionInterface.register(ATTENTION, unpadded_attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
