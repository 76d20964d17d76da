"""The pairs of a benchmark's batches: random ones of natural lengths, or real ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from carp.constants import MINILM
from carp.data.pairs import read_pairs
from carp.model.configuration import CarpConfig, context_capacity
from carp.model.encoders import load_tokenizer, resolve_encoder, train_tokenizer
from carp.model.texts import TokenizedTexts

SIDES = ("passage", "critique")


class Pairs(NamedTuple):
    """Passages and critiques, ``n`` each."""

    passages: TokenizedTexts
    critiques: TokenizedTexts

    def rows(self, rows: Tensor) -> Pairs:
        """The pairs ``rows`` [k], in that order."""
        return Pairs(*(side.take(rows) for side in self))

    def first(self, n: int) -> Pairs:
        return self.rows(torch.arange(min(n, len(self.passages))))


def random_pairs(config: CarpConfig, count: int, longest: int) -> Pairs:
    """Random token ids; log-normal lengths (sigma 0.7) with medians 110 and 25, as stories and comments have them."""
    generator = torch.Generator().manual_seed(count)
    sides = []
    for side, middle, limit in (("passage", 110, longest), ("critique", 25, min(longest, 256))):
        vocab_size = getattr(config, f"{side}_config").vocab_size
        deviations = torch.randn(count, generator=generator) * 0.7
        lengths = (deviations + np.log(middle)).exp().round().long().clamp(4, limit)
        sides.append(TokenizedTexts(torch.randint(5, vocab_size, (int(lengths.sum()),), generator=generator), lengths))
    return Pairs(*sides)


def real_pairs(config: CarpConfig, source: str, count: int, longest: int) -> Pairs:
    """The first ``count`` pairs of a file in a shuffled order in which no passage and no critique comes twice.

    carp would mask those as false negatives; its peers would not, and the gradients would differ. Sets the padding
    token of ``config`` to that of the tokenizer.
    """
    pairs = list(read_pairs(source))
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0)).tolist()
    tokenizer = _tokenizer(config, [text for i in order[:5000] for text in pairs[i][:2]])
    for side in SIDES:
        getattr(config, f"{side}_config").pad_token_id = tokenizer.pad_token_id
    limits = (min(longest, config.max_passage_tokens), min(longest, 256, config.max_critique_tokens))
    seen: set[tuple[int, ...]] = set()
    sides: tuple[list[Any], list[Any]] = ([], [])
    for i in order:
        if len(sides[0]) == count:
            break
        tokens = [
            tuple(tokenizer(text, truncation=True, max_length=limit)["input_ids"])
            for text, limit in zip(pairs[i][:2], limits, strict=True)
        ]
        if seen.isdisjoint(tokens):
            seen.update(tokens)
            for side, row in zip(sides, tokens, strict=True):
                side.append(row)
    if len(sides[0]) < count:
        raise SystemExit(f"{source}: {len(sides[0])} pairs of different texts, fewer than {count}")
    return Pairs(*(TokenizedTexts.from_lists(side) for side in sides))


def _tokenizer(config: CarpConfig, texts: list[str]) -> Any:
    """MiniLM's where it is installed and the model's vocabulary holds it; else one that is trained on the texts."""
    vocab_size = config.passage_config.vocab_size
    if resolve_encoder(MINILM) != MINILM:
        tokenizer = load_tokenizer(MINILM)
        if len(tokenizer) <= vocab_size:
            return tokenizer
    return train_tokenizer(texts, vocab_size, context_capacity(config.passage_config))
