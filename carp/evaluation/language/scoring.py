"""The negative log-likelihood of texts that follow others, exact, with what they share computed once.

1. What all prefixes begin with (the examples of a prompt) is read once, into a key-value cache.
2. The rest of every prefix, but its last token, is read once, many stories at a time, behind a copy of that cache.
3. Every continuation is read behind a copy of its story's cache, many at a time; the last token of the prefix comes
   first, as it predicts the first token that counts.

In (2) shorter rows are padded on the right, where causal attention does not look. For (3) each row of the cache is
moved to the right, so that the padding comes first and all real tokens lie side by side: positions and sliding windows
are then those of a sequence without any padding, and the result that of a model that reads every sequence alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F
from tqdm.auto import tqdm
from transformers import DynamicCache

from carp.errors import CarpError

TOKENS_AT_ONCE = 8192  # rows times length; a key-value cache of GPT-J holds 0.46 MB per token
LOGITS_AT_ONCE = 2**28  # 1 GB in float32
FEWEST_TOKENS = 128
IGNORED = -100  # no target
Floats = NDArray[np.float64]
T = TypeVar("T")


class Request(NamedTuple):
    """Token ids: a prefix, and what may follow it, none of them empty."""

    prefix: list[int]
    continuations: list[list[int]]


class _Row(NamedTuple):
    place: int  # of its story in the cache
    known: int  # tokens of it there
    prefix: list[int]
    continuation: list[int]

    @property
    def unread(self) -> list[int]:
        return self.prefix[self.known :] + self.continuation[:-1]


@torch.no_grad()
def negative_log_likelihoods(
    model: Any, requests: Sequence[Request], tokens_at_once: int = TOKENS_AT_ONCE, progress: bool = False
) -> list[Floats]:
    """How unlikely a model finds each continuation of each prefix.

    Args:
        model: a causal language model in evaluation mode.
        requests: ``n`` prefixes with their continuations.
        tokens_at_once: of a batch, rows times length; halved as often as the memory demands.
        progress: show a progress bar.

    Returns:
        ``n`` arrays [n_continuations]: minus the natural logarithm of the probability, in float64. In float32 they
        equal those of one sequence at a time within 1e-5 of their size, whatever is in a batch.

    Raises:
        CarpError: if the memory does not hold a single sequence.
    """
    try:
        return _score_all(model, requests, tokens_at_once, progress)
    except torch.OutOfMemoryError as error:
        if tokens_at_once // 2 < FEWEST_TOKENS:
            raise CarpError("not enough memory for a single sequence; take a smaller model or shorter texts") from error
    torch.cuda.empty_cache()
    return negative_log_likelihoods(model, requests, tokens_at_once // 2, progress)


def _score_all(model: Any, requests: Sequence[Request], tokens_at_once: int, progress: bool) -> list[Floats]:
    found: list[Floats] = [np.zeros(0)] * len(requests)
    recurrent = bool(getattr(model, "_is_stateful", False))  # e.g. Mamba: what it keeps cannot be divided or moved
    shared = _common_beginning([request.prefix[:-1] for request in requests])
    header = None if recurrent else _read(model, DynamicCache(), [shared])
    # The longest first: if the memory fails, it does so at once.
    order = sorted(range(len(requests)), key=lambda i: len(requests[i].prefix), reverse=True)
    with tqdm(total=len(requests), unit="story", desc="reading", disable=not progress) as bar:
        for places in _batches(order, lambda i: len(requests[i].prefix), tokens_at_once):
            batch = [requests[i] for i in places]
            cache = None if header is None else _behind(model, header, batch, len(shared))
            rows = [
                _Row(place, 0 if cache is None else len(prefix) - 1, prefix, continuation)
                for place, (prefix, continuations) in enumerate(batch)
                for continuation in continuations
            ]
            values = np.concatenate([np.zeros(0), *_score_rows(model, cache, rows, tokens_at_once)])
            counts = [len(request.continuations) for request in batch]
            for i, part in zip(places, np.split(values, np.cumsum(counts)[:-1]), strict=True):
                found[i] = part
            bar.update(len(batch))
    return found


def _common_beginning(rows: Sequence[list[int]]) -> list[int]:
    # The first and the last one in order differ soonest.
    first, last = min(rows, default=[]), max(rows, default=[])
    size = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:size]


def _batches(items: Sequence[T], length: Callable[[T], int], tokens_at_once: int) -> Iterator[list[T]]:
    """Items, longest first, in lists of at least one whose number times the first one's length is within the limit."""
    start = 0
    while start < len(items):
        count = max(1, tokens_at_once // length(items[start]))
        yield list(items[start : start + count])
        start += count


def _behind(model: Any, header: DynamicCache, batch: Sequence[Request], shared: int) -> DynamicCache:
    """A cache with a row for every prefix, without its last token, padded on the right."""
    copies = _moved(header, [0] * len(batch), [0] * len(batch))
    return _read(model, copies, [request.prefix[shared:-1] for request in batch])


def _read(model: Any, cache: DynamicCache, rows: list[list[int]]) -> DynamicCache:
    """The cache after it has read more tokens in each row."""
    ids, mask = _padded(rows)
    if ids.shape[1]:
        before = torch.ones(len(rows), cache.get_seq_length(), dtype=torch.long)
        _forward(model, ids, torch.cat([before, mask], dim=1), cache, logits_to_keep=1)
    return cache


def _moved(cache: DynamicCache, places: Sequence[int], shifts: Sequence[int]) -> DynamicCache:
    """A new cache of some rows of another one, each moved to the right in a circle."""
    moved = DynamicCache()
    layers: Any = cache.layers
    for number, layer in enumerate(layers):
        keys, values = (
            torch.stack([part[place].roll(shift, dims=-2) for place, shift in zip(places, shifts, strict=True)])
            for part in (layer.keys, layer.values)
        )
        moved.update(keys, values, number)
    return moved


def _score_rows(model: Any, cache: DynamicCache | None, rows: Sequence[_Row], tokens_at_once: int) -> Iterator[Floats]:
    held = 0 if cache is None else cache.get_seq_length()
    longest = max((len(row.unread) for row in rows), default=0)
    vocabulary = model.config.get_text_config().vocab_size
    budget = min(tokens_at_once, LOGITS_AT_ONCE * (held + longest) // max(1, longest * vocabulary))
    for part in _batches(rows, lambda row: held + longest, budget):
        shifts = [held - row.known for row in part] if held else [0] * len(part)
        ids, mask = _padded([row.unread for row in part])
        before = torch.tensor([[0] * shift + [1] * (held - shift) for shift in shifts], dtype=torch.long)
        logits = _forward(
            model,
            ids,
            torch.cat([before, mask], dim=1),
            None if cache is None else _moved(cache, [row.place for row in part], shifts),
            # A padded place repeats the last position: one beyond the context would not exist.
            position_ids=before.sum(1, keepdim=True) + mask.cumsum(1) - 1,
        )
        yield _summed(logits, part)


def _summed(logits: Tensor, rows: Sequence[_Row]) -> Floats:
    targets = torch.full(logits.shape[:2], IGNORED, device=logits.device)
    for target, row in zip(targets, rows, strict=True):
        end = len(row.unread)
        target[end - len(row.continuation) : end] = torch.tensor(row.continuation)
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    losses = F.cross_entropy(exact.transpose(1, 2), targets, ignore_index=IGNORED, reduction="none")
    found: Floats = losses.double().sum(1).cpu().numpy()
    return found


def _forward(model: Any, ids: Tensor, mask: Tensor, cache: DynamicCache | None, **more: Any) -> Tensor:
    if cache is not None:
        more["past_key_values"] = cache
    inputs = {"input_ids": ids, "attention_mask": mask, **more}
    # Some models take no positions: their attention is enough.
    taken = inspect.signature(type(model).forward).parameters
    inputs = {name: v.to(model.device) if isinstance(v, Tensor) else v for name, v in inputs.items() if name in taken}
    logits: Tensor = model(**inputs, use_cache=cache is not None).logits
    return logits


def _padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Token ids and attention mask, both [rows, longest], padded on the right with any token."""
    longest = max(len(row) for row in rows)
    ids, mask = torch.zeros(2, len(rows), longest, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row, dtype=torch.long)
        mask[i, : len(row)] = 1
    return ids, mask
