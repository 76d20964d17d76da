"""What counts as a word, and when two words are the same."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from carp.constants import QUOTE_TOKEN

# Letters and digits with their combining marks. Apostrophes, typographic ones too, hold a word together ("don't"), and
# so do the points and commas of a number ("3,000.5"); hyphens part words, because people quote "well-known" as
# "well known". Scripts without spaces between words give a word per character.
_ALONE = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u200d"
_CHARACTER = f"[^\\W_{_ALONE}]"
_MASK = re.escape(QUOTE_TOKEN)
_ANY = re.compile(
    rf"{_MASK}|[{_ALONE}]"
    rf"|{_CHARACTER}(?:{_CHARACTER}|[{_MARKS}]|['’ʼ＇](?={_CHARACTER})|(?<=\d)[.,](?=\d))*"
)
_PLAIN = re.compile(rf"[^\W_]+(?:['’ʼ＇][^\W_]+|(?<=\d)[.,](?=\d)[^\W_]+)*|{_MASK}")  # the same, three times as fast
_NOT_PLAIN = re.compile(f"[{_ALONE}{_MARKS}]")
_APOSTROPHES = re.compile("['’ʼ＇]|(?<=\\d)[.,](?=\\d)")


class Word(NamedTuple):
    """A word of a text: what is compared, and its character offsets."""

    key: str
    start: int
    end: int


def words_of(text: str) -> list[Word]:
    """The words of a text; a mask is one too, of its own kind."""
    return [Word(word_key(found.group()), *found.span()) for found in pattern_for(text).finditer(text)]


@lru_cache(maxsize=64)  # a story, a passage and a critique are compared several times
def word_keys(text: str) -> tuple[str, ...]:
    """The keys of :func:`words_of` alone, faster."""
    return tuple(keys_in(text, pattern_for(text)))


def keys_in(text: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """The same, one by one, of a text that will not be asked for again; ``pattern`` is the one for it."""
    return map(word_key, pattern.findall(text))


def word_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each of :func:`words_of`, faster."""
    return [found.span() for found in pattern_for(text).finditer(text)]


def pattern_for(text: str) -> re.Pattern[str]:
    """What finds the words of a text and of its parts."""
    return _PLAIN if text.isascii() or not _NOT_PLAIN.search(text) else _ANY


@lru_cache(maxsize=200_000)
def word_key(word: str) -> str:
    """The word without case and punctuation: equal for words that are the same."""
    if word == QUOTE_TOKEN:
        return word
    return unicodedata.normalize("NFKC", _APOSTROPHES.sub("", word)).casefold()
