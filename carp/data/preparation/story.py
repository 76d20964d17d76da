"""A story that passages are cut from, at sentence boundaries, within a token budget."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carp.data.preparation.masking import THRESHOLD, grams
from carp.data.preparation.sentences import sentence_starts
from carp.data.preparation.words import keys_in, pattern_for, word_spans

TokenEnds = Callable[[str], Sequence[int] | NDArray[np.int64]]

BUDGET = 512  # tokens of a passage, the encoder's special ones included
SPECIAL_TOKENS = 2


class Span(NamedTuple):
    """Characters ``start`` to ``end`` of a story."""

    start: int
    end: int


class Story:
    """A story that passages are cut from.

    Args:
        text: the story.
        token_ends: gives the end offset of every token of a text, in order.
        budget: tokens of a passage, special ones included.
        clean: replaces names and the like, which may change the number of tokens; the passages fit when it is done.
    """

    def __init__(
        self, text: str, token_ends: TokenEnds, budget: int = BUDGET, clean: Callable[[str], str] | None = None
    ) -> None:
        self.text = text
        self._budget = budget - SPECIAL_TOKENS
        self._ends = token_ends(text)
        self.sentence_starts = sentence_starts(text)
        self._edges = [*self.sentence_starts, len(text)]
        # The number of tokens before each sentence, and of all.
        if clean is None:
            before = np.searchsorted(self._ends, self.sentence_starts, side="right")
            self._before = [*before.tolist(), len(self._ends)]
        else:
            cleaned = (clean(text[start:end]) for start, end in pairwise(self._edges))
            self._before = list(accumulate((len(token_ends(sentence)) for sentence in cleaned), initial=0))

    @property
    def sentences(self) -> int:
        return len(self.sentence_starts)

    @property
    def fits(self) -> bool:
        """Whether the whole story is one passage."""
        return self._before[-1] <= self._budget

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """What is compared of each word."""
        return tuple(key for keys in self._keys_of_sentences for key in keys)

    @cached_property
    def runs(self) -> frozenset[tuple[str, ...]]:
        """Every run of four words."""
        return frozenset(grams(self.keys, THRESHOLD))

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """Where each word stands, counted in words."""
        places = defaultdict(list)
        for place, key in enumerate(self.keys):
            places[key].append(place)
        return dict(places)

    @cached_property
    def sentence_of_word(self) -> NDArray[np.int64]:
        """The sentence that each word stands in."""
        return np.repeat(np.arange(self.sentences), [len(keys) for keys in self._keys_of_sentences])

    @cached_property
    def _keys_of_sentences(self) -> list[tuple[str, ...]]:
        # Sentences begin behind white space or a full stop, so no word is cut.
        pattern = pattern_for(self.text)
        return [tuple(keys_in(self.text[start:end], pattern)) for start, end in pairwise(self._edges)]

    def phrase(self, place: int, length: int) -> Span:
        """The characters of ``length`` words from the word ``place`` on."""
        return Span(self._word(place).start, self._word(place + length - 1).end)

    def _word(self, place: int) -> Span:
        sentence = int(self.sentence_of_word[place])
        start, end = self._edges[sentence : sentence + 2]
        before = int(np.searchsorted(self.sentence_of_word, sentence))
        first, last = word_spans(self.text[start:end])[place - before]
        return Span(start + first, start + last)

    def around(self, start: int, end: int) -> Span:
        """The sentences around the characters ``start`` to ``end``, as many on both sides as the budget allows.

        Of a span that exceeds the budget, the beginning is taken.
        """
        first = max(0, bisect_right(self.sentence_starts, start) - 1)
        last = max(first, bisect_left(self.sentence_starts, end) - 1)
        if not self._fit(first, last):
            return self._beginning_from(first)
        before = after = True
        while before or after:
            before = first > 0 and self._fit(first - 1, last)
            first -= before
            after = last + 1 < self.sentences and self._fit(first, last + 1)
            last += after
        return self._span(first, last)

    def beginning(self) -> Span:
        """The first sentences, as many as fit."""
        return self.around(0, 1)

    @cached_property
    def windows(self) -> NDArray[np.int64]:
        """[n, 2] first and last sentence of every run of sentences that fits and cannot grow at its end."""
        found, last = [], -1
        for first in range(self.sentences):
            grown = max(last, first)
            while grown + 1 < self.sentences and self._fit(first, grown + 1):
                grown += 1
            if grown > last:
                found.append((first, grown))
            last = grown
        return np.array(found)

    def window(self, first: int, last: int) -> Span:
        """The characters of the sentences ``first`` to ``last``; of one that exceeds the budget, its beginning."""
        return self._span(first, last) if self._fit(first, last) else self._beginning_from(first)

    def _fit(self, first: int, last: int) -> bool:
        return self._before[last + 1] - self._before[first] <= self._budget

    def _span(self, first: int, last: int) -> Span:
        return self._trimmed(self._edges[first], self._edges[last + 1])

    def _beginning_from(self, first: int) -> Span:
        before, after = np.searchsorted(self._ends, self._edges[first : first + 2], side="right").tolist()
        share = (after - before) / (self._before[first + 1] - self._before[first])  # 1 where nothing is replaced
        return self._trimmed(self._edges[first], int(self._ends[before + max(1, int(self._budget * share)) - 1]))

    def _trimmed(self, start: int, end: int) -> Span:
        text = self.text[start:end]
        return Span(end - len(text.lstrip()), start + len(text.rstrip()))
