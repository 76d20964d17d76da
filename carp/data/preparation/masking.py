"""Masking what a critique quotes of its passage (CARP, section 2.2.1).

The paper speaks of the longest common subsequence of words; what it masks is a phrase, so the longest common run of
words is meant. It is masked when it has at least four words, and so on until no run of four remains.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple, TypeAlias

from carp.constants import QUOTE_TOKEN
from carp.data.preparation.words import Word, word_keys, words_of

THRESHOLD = 4  # words; "successfully avoids misidentification of common phrases"
OPENING = "\"'“‘„‚«‹「『*_"
CLOSING = "\"'”’“‘»›」』*_"
DOUBLE_MARKS = '"“”„«»「」『』'  # a single one may be an apostrophe
BEFORE_CLOSING = ".,;:!?…-–—"  # punctuation that belongs to the quotation

Keys: TypeAlias = Sequence[str]


class Masked(NamedTuple):
    """A masked critique, and how many words of it were masked."""

    text: str
    words: int


class Run(NamedTuple):
    """``length`` words of a critique from word ``start`` on, and the passage's word ``place`` where they stand."""

    start: int
    length: int
    place: int


def mask_quotes(critique: str, passage: str, threshold: int = THRESHOLD) -> Masked:
    """Replace what a critique quotes of a passage by ``[quote]``.

    Words are compared without case and punctuation. The rest of the critique stays as it was; quotation marks around
    a masked quote go with it. No run of ``threshold`` words is common to passage and result, and masking the result
    again changes nothing. A mask that is there already parts runs.

    Args:
        critique, passage: plain texts.
        threshold: the shortest run of common words that counts as a quote.

    Raises:
        ValueError: if ``threshold`` is below 1.

    Example:
        >>> mask_quotes('I love "the old grey cat slept" here.', "And there the old gray, the old grey cat slept.").text
        'I love [quote] here.'
    """
    if threshold < 1:
        raise ValueError(f"threshold must be at least 1, not {threshold}")
    runs = quoted_runs(word_keys(critique), word_keys(passage), threshold)
    if not runs:
        return Masked(critique, 0)
    return Masked(_replaced(critique, words_of(critique), runs), sum(run.length for run in runs))


def grams(keys: Keys, size: int) -> Iterator[tuple[str, ...]]:
    """Every run of ``size`` words."""
    return zip(*(keys[i:] for i in range(size)), strict=False)


def quoted_runs(keys: Keys, passage: Keys, size: int, known: Set[tuple[str, ...]] | None = None) -> list[Run]:
    """What is quoted, in the order of the critique: longest first, every instance, until no run of ``size`` is left.

    Args:
        keys, passage: the words of the critique and of the passage.
        size: the shortest run that counts.
        known: the :func:`grams` of the passage, where it has many critiques.
    """
    common = set(grams(keys, size)).intersection(grams(passage, size) if known is None else known)
    if not common:  # nearly always
        return []
    places = defaultdict(list)
    for place, gram in enumerate(grams(passage, size)):
        if gram in common:
            places[gram].append(place)
    starts = [i for i, gram in enumerate(grams(keys, size)) if gram in common]
    free = [key != QUOTE_TOKEN for key in keys]  # neither masked already nor a mask
    runs: list[Run] = []
    while best := _longest(keys, passage, starts, free, places, size):
        quote = keys[best.start : best.start + best.length]
        for i in starts:
            if keys[i : i + best.length] == quote and all(free[i : i + best.length]):
                runs.append(best._replace(start=i))
                free[i : i + best.length] = [False] * best.length
    return sorted(runs)


def _longest(
    keys: Keys,
    passage: Keys,
    starts: list[int],
    free: list[bool],
    places: Mapping[tuple[str, ...], list[int]],
    size: int,
) -> Run | None:
    """The longest run of free words that the passage holds, the first of equally long ones."""
    best = None
    for start in starts:
        end = next((i for i in range(start, len(keys)) if not free[i]), len(keys))
        if end - start < max(size, best.length + 1 if best else 0):
            continue
        for place in places[tuple(keys[start : start + size])]:
            length = _common(keys[start:end], passage[place : place + end - start])
            if length >= size and (best is None or length > best.length):
                best = Run(start, length, place)
            if length == end - start:  # a text that loops has very many places
                break
    return best


def _common(first: Keys, second: Keys) -> int:
    """Number of words with which both begin."""
    length = 0
    for own, other in zip(first, second, strict=False):
        if own != other:
            break
        length += 1
    return length


def _replaced(critique: str, words: list[Word], runs: list[Run]) -> str:
    parts, end = [], 0
    for run in runs:
        start, stop = words[run.start].start, words[run.start + run.length - 1].end
        start, stop = _with_quotation_marks(critique, start, stop, end)
        parts += [critique[end:start], QUOTE_TOKEN]
        end = stop
    return "".join([*parts, critique[end:]])


def _with_quotation_marks(text: str, start: int, end: int, least: int) -> tuple[int, int]:
    """The span of a quote, with the marks that enclose it and the punctuation within them."""
    before = start
    while before > least and text[before - 1] in OPENING:
        before -= 1
    after = end
    while after < len(text) and text[after] in BEFORE_CLOSING:
        after += 1
    closing = after
    while closing < len(text) and text[closing] in CLOSING:
        closing += 1
    marks = min(start - before, closing - after)
    if marks:
        return start - marks, after + marks
    # The partner of a mark may be among the masked words: "the cat" sat.
    partner = sum(text[start:end].count(mark) for mark in DOUBLE_MARKS) % 2 == 1
    if partner and text[before:start].strip("*_'‘"):
        return before, end
    return start, closing if partner and text[after:closing].strip("*_'’") else end
