"""A passage taken apart into sentences, and put together again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from random import Random

from carp.data.preparation.sentences import sentence_starts

WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_PRONOUNS = {"I": "I was", "he": "He was", "she": "She was", "they": "They were", "we": "We were"}


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, each with the white space behind it: joined, they are the text."""
    return [text[start:end] for start, end in pairwise([*sentence_starts(text), len(text)])]


def as_long_as(text: str, sentences: Sequence[str]) -> str:
    """As many of the sentences as have no more words than a text, so that its length gives no damage away."""
    return within(len(text.split()), sentences)


def within(words: int, sentences: Sequence[str]) -> str:
    """As many of the sentences as have no more words than that, but one at least."""
    room = words
    kept: list[str] = []
    for sentence in sentences:
        room -= len(sentence.split())
        if room < 0 and kept:
            break
        kept.append(sentence)
    return "".join(kept).rstrip()


def inserted(sentences: Sequence[str], additions: Sequence[str], places: Sequence[int]) -> list[str]:
    """Sentences with ``additions`` behind those at ``places``."""
    behind = dict(zip(places, additions, strict=True))
    found = []
    for i, sentence in enumerate(sentences):
        found.append(sentence)
        if i in behind:
            kept = sentence.rstrip()
            found[-1] = f"{kept} "
            found.append(behind[i] + (sentence[len(kept) :] or " "))
    return found


def some_places(rng: Random, count: int, share: float, least: int) -> list[int]:
    """Places of ``share`` of ``count`` sentences, in order; the first is spared, the last too."""
    inner = range(1, max(1, count - 1))
    return sorted(rng.sample(inner, min(len(inner), max(least, round(share * count)))))


def narrator(text: str) -> str:
    """The pronoun that a passage uses most, with its verb: "She was"."""
    words = [word if word == "I" else word.lower() for word in WORD.findall(text)]
    return _PRONOUNS[max(_PRONOUNS, key=words.count)]


def starts_sentence(text: str, place: int) -> bool:
    """Whether the word at ``place`` begins a sentence or a quotation."""
    before = text[:place].rstrip(" \"“”'‘(*_")
    return not before or before[-1] in ".!?…\n:—"
