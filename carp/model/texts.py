"""Tokenised texts without padding, and how they are cut into chunks under a token budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class TokenizedTexts:
    """``n`` tokenised texts, one behind the other.

    Attributes:
        tokens: [total] token ids of all texts.
        lengths: [n] number of tokens of each text, at least 1.
        pooled: [n, hidden] pooled states of a frozen encoder, where they are known: it is not run then.
    """

    tokens: Tensor
    lengths: Tensor
    pooled: Tensor | None = None

    @classmethod
    def of(cls, texts: TokenizedTexts | Mapping[str, Any]) -> TokenizedTexts:
        """From what a tokenizer returns: ``input_ids`` and ``attention_mask``, padded tensors or lists.

        Raises:
            ValueError: if there is no text, or a text without a token.
        """
        if isinstance(texts, TokenizedTexts):
            return texts
        ids, mask = texts["input_ids"], texts.get("attention_mask")
        if isinstance(ids, Tensor):
            real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
            return cls._checked(ids[real], real.sum(dim=1).cpu())
        if mask is not None:
            ids = [[token for token, real in zip(*row, strict=True) if real] for row in zip(ids, mask, strict=True)]
        return cls.from_lists(ids)

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]]) -> TokenizedTexts:
        """From a list of token-id lists."""
        tokens = torch.tensor(list(chain.from_iterable(rows)), dtype=torch.long)
        return cls._checked(tokens, torch.tensor([len(row) for row in rows], dtype=torch.long))

    @classmethod
    def _checked(cls, tokens: Tensor, lengths: Tensor) -> TokenizedTexts:
        if len(lengths) == 0:
            raise ValueError("there is no text to embed")
        if empty := (lengths == 0).nonzero().flatten().tolist():
            raise ValueError(f"text {empty[0]} has no token: give every text at least one")
        return cls(tokens, lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def with_pooled(self, pooled: Tensor) -> TokenizedTexts:
        """The same texts with their pooled states [n, hidden]."""
        return replace(self, pooled=pooled)

    def take(self, rows: Tensor) -> TokenizedTexts:
        """The texts ``rows`` [k] alone."""
        return TokenizedTexts(*self.flat(rows), None if self.pooled is None else self.pooled[rows])

    @cached_property
    def starts(self) -> Tensor:
        """[n] index of each text's first token."""
        return self.lengths.cumsum(0) - self.lengths

    def flat(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The tokens of the texts ``rows`` [k], one text behind the other, and their lengths [k]."""
        lengths = self.lengths[rows]
        shift = self.starts[rows] - (lengths.cumsum(0) - lengths)
        source = torch.arange(int(lengths.sum())) + shift.repeat_interleave(lengths)
        return self.tokens.cpu()[source], lengths

    def padded(self, rows: Tensor, pad_token_id: int) -> tuple[Tensor, Tensor]:
        """The texts ``rows`` [k] as ``input_ids`` and ``attention_mask``, [k, longest], padded on the right."""
        tokens, lengths = self.flat(rows)
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        ids = torch.full(mask.shape, pad_token_id, dtype=torch.long)
        ids[mask] = tokens
        return ids, mask.long()

    def fingerprints(self) -> Tensor:
        """[n] non-negative int64 hash of each text's tokens: equal texts have equal ones.

        A random linear form modulo 2**64: two different texts collide with a probability near 2**-63.
        """
        position = torch.arange(len(self.tokens)) - self.starts.repeat_interleave(self.lengths)
        generator = torch.Generator().manual_seed(20211006)
        weights = torch.randint(-(2**62), 2**62, (int(self.lengths.max()),), generator=generator) * 2 + 1
        text = torch.arange(len(self)).repeat_interleave(self.lengths)
        terms = (self.tokens.cpu() + 1) * weights[position]
        return torch.zeros(len(self), dtype=torch.long).index_add_(0, text, terms) & (2**63 - 1)


def plan_chunks(lengths: Tensor, tokens_per_chunk: int) -> list[Tensor]:
    """Cut texts into chunks of similar lengths so that little is padded.

    Longest first: if memory is short, the first chunk says so, not the last.

    Args:
        lengths: [n] tokens per text.
        tokens_per_chunk: budget of a chunk, padding included; a longer text gets a chunk of its own.

    Returns:
        Row indices of each chunk; together a permutation of 0..n-1.
    """
    if tokens_per_chunk < 1:
        raise ValueError(f"tokens_per_chunk must be at least 1, not {tokens_per_chunk}")
    order = lengths.argsort(descending=True, stable=True)
    longest = lengths[order].tolist()
    chunks, start = [], 0
    while start < len(longest):
        end = start + max(1, tokens_per_chunk // longest[start])
        chunks.append(order[start:end])
        start = end
    return chunks
