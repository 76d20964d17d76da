"""Capitalised words of a text, and whether they stand at the beginning of a sentence."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from carp.data.preparation.vocabulary import GENERIC, TITLES, words

_LETTER = "(?:[^\\W_]|[\u0300-\u036f])"
_PATTERN = re.compile(rf"\[(?:quote|email|url|user|id)\]|{_LETTER}+(?:['’ʼ＇]{_LETTER}+)*")
_SUFFIX = re.compile(r"['’ʼ＇](?:s|d|ll|ve|re|m)$", re.IGNORECASE)
_MARKS = re.compile("['’ʼ＇\u0300-\u036f]")
_STARTS = re.compile(r"[.!?…:;\n\"“«‹(\[{*_#|>~•/]|(?:^|\s)['‘]")  # between two words
_HEADING = re.compile(r"^[ \t>#*_\"“]*(\S[^\n]*)$", re.MULTILINE)
_SMALL = words("a an and as at but by for from in into nor of on or the to with is vs s")


class Token(NamedTuple):
    """A word; ``end`` and ``key`` are without a possessive or contracted ending.

    ``form`` is "lower", "initial" (a capital first) or "upper". A capital may be due to the word's place: ``starts``
    is true of the first word of a sentence, a line or a quotation and of the words of a ``heading``.
    """

    start: int
    end: int
    key: str
    form: str
    starts: bool
    heading: bool


def tokens_of(text: str) -> list[Token]:
    """The words of a text but for masks and generic names, which part sentences."""
    headings = _headings(text)
    found, before, previous = [], 0, ""
    for match in _PATTERN.finditer(text):
        start, word = match.start(), match.group()
        key, form, length = _analysed(word)
        if form:
            heading = bool(headings) and _inside(start, headings)
            starts = heading or (form != "lower" and (not before or _begins(text[before:start], previous)))
            found.append(Token(start, start + length, key, form, starts, heading))
        before, previous = match.end(), key
    return found


def _begins(gap: str, previous: str) -> bool:
    if gap == " ":
        return False
    if gap.startswith(".") and gap.strip() == "." and "\n" not in gap and (previous in TITLES or len(previous) == 1):
        return False
    return not gap or _STARTS.search(gap) is not None


@lru_cache(maxsize=200_000)
def _analysed(word: str) -> tuple[str, str, int]:
    """Key, form and length without the ending; no form for what is never touched."""
    base = _SUFFIX.sub("", word)
    if word[0] == "[" or GENERIC.fullmatch(base):
        return "", "", len(base)
    first = next((c for c in base if c.isalpha()), "")
    if base.islower() or (first.islower() and not re.search(r"['’ʼ＇]\w*[A-Z]", base)) or not first:
        return word_key(base), "lower", len(base)
    return word_key(base), "upper" if base.isupper() and len(base) > 1 else "initial", len(base)


@lru_cache(maxsize=200_000)
def word_key(word: str) -> str:
    """The same for spellings that differ in case, accents and apostrophes."""
    return _MARKS.sub("", unicodedata.normalize("NFKD", word)).casefold()


def _headings(text: str) -> list[tuple[int, int]]:
    """Spans of the lines that are written in title case or in capitals."""
    return [match.span(1) for match in _HEADING.finditer(text) if _is_heading(match.group(1))]


def _is_heading(line: str) -> bool:
    if not line[0].isupper() and not line[0].isdigit():
        return False
    words = re.findall(r"[^\W\d_][\w'’]*", line)
    large = [word for word in words if word.lower() not in _SMALL]
    return (
        1 < len(words) <= 12
        and line.rstrip(' *_"”')[-1:] not in {".", "!", "?", ","}
        and all(word[0].isupper() for word in large)
    )


def _inside(place: int, spans: list[tuple[int, int]]) -> bool:
    return any(start <= place < end for start, end in spans)
