"""The passages that a comment is about (CARP, section 2.2, first step).

The paper's comments were inline: each had its place in the story. A comment without offsets is aligned by what it
quotes of the story; else by the window that shares most of its rare words; else with the beginning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

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
    return [story.phrase(place, length) for place, length in sorted(set(runs))]


def _only_place(story: Story, keys: Sequence[str]) -> int | None:
    places = [p for p in story.places.get(keys[0], ()) if story.keys[p : p + len(keys)] == keys]
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
    shared = sorted(story.places.keys() & set(word_keys(comment)))  # sorted: a sum of floats depends on the order
    held = np.zeros((len(shared), story.sentences + 1), np.int64)  # by the sentences up to each
    for row, key in zip(held, shared, strict=True):
        row[story.sentence_of_word[story.places[key]] + 1] = 1
    counts = held.sum(axis=1)
    held = held.cumsum(axis=1)
    first, last = story.windows.T
    in_window = held[:, last + 1] > held[:, first]  # [word, window]
    weights = np.log(story.sentences / counts) @ in_window
    best = int(np.argmax(weights > weights.max() - 1e-9))  # the first of the best
    rare = in_window[:, best] & (counts <= RARE * story.sentences)
    return story.window(int(first[best]), int(last[best])) if rare.sum() >= SHARED_WORDS else None
