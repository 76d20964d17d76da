"""The passages that a comment is about (CARP, section 2.2, first step).

The paper's comments were inline: each had its place in the story. A comment without offsets is aligned by what it
quotes of the story; else by the window that shares most of its rare words; else with the beginning.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from carp.data.preparation.masking import THRESHOLD, quoted_runs
from carp.data.preparation.story import Span, Story
from carp.data.preparation.words import word_keys

Alignment = Literal["offsets", "quotation", "window", "beginning", "whole"]

SHARED_WORDS = 2  # rare words of the comment that a window must hold
RARE = 0.25  # in at most so many of the sentences
_QUOTED = re.compile("[\"“«]([^\"“”«»\n]{3,200})[\"”»]|(?<!\\w)['‘]([^'‘’\n]{3,200})['’](?!\\w)")


class Aligned(NamedTuple):
    """A passage of a story, and how it was found."""

    span: Span
    alignment: Alignment


def align(story: Story, comment: str, offsets: Span | None = None) -> list[Aligned]:
    """The passages that a comment is about: one, or several where it quotes places that lie far apart.

    Args:
        story: the story.
        comment: the comment's text.
        offsets: what of the story the comment is about, where that is known.
    """
    if offsets is not None:
        return [Aligned(story.around(*offsets), "offsets")]
    if story.fits:
        return [Aligned(story.beginning(), "whole")]
    if quotes := quoted_spans(story, comment):
        return [Aligned(span, "quotation") for span in _passages_over(story, quotes)]
    if window := closest_window(story, comment):
        return [Aligned(window, "window")]
    return [Aligned(story.beginning(), "beginning")]


def quoted_spans(story: Story, comment: str) -> list[Span]:
    """What a comment quotes: runs of four words, and shorter phrases in quotation marks that occur once."""
    runs = [(run.place, run.length) for run in quoted_runs(word_keys(comment), story.keys, THRESHOLD, story.runs)]
    for found in _QUOTED.finditer(comment):
        keys = word_keys(found.group(1) or found.group(2))
        if 2 <= len(keys) < THRESHOLD and (place := _only_place(story, keys)) is not None:
            runs.append((place, len(keys)))
    return [Span(story.words[place][0], story.words[place + n - 1][1]) for place, n in sorted(set(runs))]


def _only_place(story: Story, keys: list[str]) -> int | None:
    places = [p for p in story.bigrams.get((keys[0], keys[1]), ()) if story.keys[p : p + len(keys)] == keys]
    return places[0] if len(places) == 1 else None


def _passages_over(story: Story, quotes: Sequence[Span]) -> list[Span]:
    """As few passages as hold all quotes (given in the order of the story)."""
    passages: list[Span] = []
    first = quotes[0]
    for quote in quotes:
        joined = story.around(first.start, quote.end)
        if passages and joined.start <= first.start and quote.end <= joined.end:
            passages[-1] = joined
        else:
            first = quote
            passages.append(story.around(*quote))
    return passages


def closest_window(story: Story, comment: str) -> Span | None:
    """The window that shares most words with a comment, each weighted by its rarity in the story (TF-IDF, with the
    story's sentences as documents); ``None`` where no window holds enough of them."""
    wanted = frozenset(word_keys(comment))
    found = [wanted & words for words in story.words_of_sentences]
    counts = Counter(key for keys in found for key in keys)
    weights = {key: math.log(story.sentences / count) for key, count in counts.items()}
    first, last = _heaviest(story.windows, found, weights)
    shared = frozenset().union(*found[first : last + 1])
    rare = [key for key in shared if counts[key] <= RARE * story.sentences]
    return story.window(first, last) if len(rare) >= SHARED_WORDS else None


def _heaviest(
    windows: Sequence[tuple[int, int]], found: Sequence[frozenset[str]], weights: dict[str, float]
) -> tuple[int, int]:
    """The first window of the largest sum of the weights of its different words."""
    held: Counter[str] = Counter()
    weight, most, best = 0.0, -1.0, windows[0]
    begun = ended = 0  # sentences that the window before begins and ends with
    for first, last in windows:
        for keys in found[ended : last + 1]:
            weight += sum(weights[key] for key in keys if not held[key])
            held.update(keys)
        for keys in found[begun:first]:
            held.subtract(keys)
            weight -= sum(weights[key] for key in keys if not held[key])
        begun, ended = first, last + 1
        if weight > most + 1e-9:
            most, best = weight, (first, last)
    return best
