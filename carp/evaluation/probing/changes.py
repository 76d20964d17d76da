"""Changes that should make no difference to what is said of a passage."""

from __future__ import annotations

import re
from collections.abc import Callable

from carp.data.damage.passage import sentences_of
from carp.data.preparation.tokens import tokens_of
from carp.data.preparation.vocabulary import KEPT

_OTHERS = ("Marek", "Linnea", "Tobias", "Yusuf", "Paloma", "Ingrid", "Dario", "Noor", "Felix", "Esther")
_STRAIGHT = {"“": '"', "”": '"', "‘": "'", "’": "'"}


def other_names(text: str) -> str:
    """Every name another one; capitalised words that never begin a sentence alone are taken for names."""
    names = dict.fromkeys(
        text[token.start : token.end]
        for token in tokens_of(text)
        if token.form == "initial" and not token.starts and token.key not in KEPT
    )
    others = dict(zip(names, _OTHERS, strict=False))
    return re.sub(r"\b[^\W\d_]+\b", lambda found: others.get(found.group(), found.group()), text)


def other_quotes(text: str) -> str:
    """Straight quotation marks and apostrophes for typographic ones, or the other way round."""
    if any(mark in text for mark in _STRAIGHT):
        return "".join(_STRAIGHT.get(mark, mark) for mark in text)
    opened = re.sub(r'(^|[\s(\[—-])"', r"\1“", text)
    return opened.replace('"', "”").replace("'", "’")


def white_space(text: str) -> str:
    """White space at the ends of lines, and of the passage."""
    return re.sub(r"\n", "  \n", text) + " \n\n"


def other_paragraphs(text: str) -> str:
    """One paragraph out of several, or several out of one."""
    if "\n" in text.strip():
        return " ".join(text.split())
    sentences = sentences_of(text)
    return "".join(
        f"{sentence.rstrip()}\n\n" if i % 3 == 2 else sentence for i, sentence in enumerate(sentences)
    ).rstrip()


def first_half(text: str) -> str:
    """The first half of the sentences: whatever changes with it comes of the length, or of what is missing."""
    sentences = sentences_of(text)
    return "".join(sentences[: (len(sentences) + 1) // 2]).rstrip()


INVARIANCES: dict[str, Callable[[str], str]] = {
    "other names": other_names,
    "other quotation marks": other_quotes,
    "trailing white space": white_space,
    "other paragraph breaks": other_paragraphs,
}
