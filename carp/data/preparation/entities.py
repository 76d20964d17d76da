"""Proper nouns of texts, and what finds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

Kind = Literal["person", "place", "group", "work", "other"]

KINDS: dict[str, Kind] = {  # of OntoNotes (spaCy) and of CoNLL-2003 (the Hub's)
    "PERSON": "person",
    "PER": "person",
    "GPE": "place",
    "LOC": "place",
    "FAC": "place",
    "ORG": "group",
    "NORP": "group",
    "WORK_OF_ART": "work",
    "PRODUCT": "other",
    "EVENT": "other",
    "LAW": "other",
    "LANGUAGE": "other",
    "MISC": "other",
}


class Entity(NamedTuple):
    """A proper noun at ``text[start:end]``.

    ``cluster`` is a number that the mentions of one entity share in a text, where coreference has been resolved.
    ``weak`` marks what looks like a proper noun to a tagger, but that no entity recogniser has found.
    """

    start: int
    end: int
    kind: Kind
    cluster: int | None = None
    weak: bool = False


class Recognizer(Protocol):
    """Finds the proper nouns of texts."""

    def entities(self, texts: Sequence[str]) -> list[list[Entity]]:
        """The entities of every text, in the order of the text."""
        ...
