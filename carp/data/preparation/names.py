"""Replacing proper nouns by generic, numbered names (CARP, section 2.2.2).

1. :func:`~carp.data.preparation.evidence.evidence_of` gathers, over a story and all of its critiques, what a
   recogniser has found and which words are capitalised in mid-sentence and never in lower case.
2. Mentions become identities: "Ignatius J. Reilly", "Ignatius" and "Mr. Reilly" are one, because the words of the
   shorter are among the longer one's, and no other's.
3. Every capitalised occurrence in any part of those texts is replaced, whether it was recognised there or not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from carp.data.preparation.entities import Entity
from carp.data.preparation.evidence import Evidence, Keys, evidence_of, joined, stems
from carp.data.preparation.identifiers import Replaced
from carp.data.preparation.identities import generic_names
from carp.data.preparation.tokens import Token, tokens_of
from carp.data.preparation.vocabulary import KEPT, VERBS

CONTEXT = 40  # characters on both sides of a suspect


class Suspect(NamedTuple):
    """A word that may be a name and was not replaced; ``context`` has 40 characters on both sides of it."""

    word: str
    start: int
    end: int
    context: str


class _Match(NamedTuple):
    """``length`` tokens that are a name; ``tail`` characters at their end are a plural's."""

    length: int
    generic: str
    tail: int = 0


class Names:
    """The names of one story and of its critiques, and what replaces them.

    ``mapping`` has every mention, as it was first written, with its generic name.
    """

    def __init__(self, generic: Mapping[Keys, str], displays: Mapping[str, str], evidence: Evidence) -> None:
        self.mapping = dict(displays)
        self._generic = generic
        self._evidence = evidence
        self._by_first: dict[str, list[Keys]] = defaultdict(list)
        for keys in sorted(generic, key=len, reverse=True):
            self._by_first[keys[0]].append(keys)

    @classmethod
    def of(cls, texts: Sequence[str], entities: Sequence[Sequence[Entity]]) -> Names:
        """Find out who is who.

        Args:
            texts: a story and all of its critiques.
            entities: of every text, what a recogniser has found.

        Raises:
            ValueError: if there are not as many lists of entities as texts.

        Example:
            >>> names = Names.of(["Ignatius J. Reilly sat. Mr. Reilly's cap!"], [[Entity(0, 18, "person")]])
            >>> names.replace("IGNATIUS, or the Reillys' cap").text
            "JOHN0, or the John0s' cap"
        """
        evidence = evidence_of(texts, entities)
        return cls(*generic_names(evidence), evidence)

    def replace(self, text: str) -> Replaced:
        """Replace every name in a part of the texts, or in the whole of one.

        Titles, possessives, plurals and capitals survive. Masks are not touched; doing it again changes nothing.
        """
        parts, end, count = [], 0, 0
        for start, stop, generic in self._replacements(text):
            parts += [text[end:start], generic]
            end, count = stop, count + 1
        return Replaced("".join([*parts, text[end:]]), count)

    def suspects(self, text: str) -> list[Suspect]:
        """Words of a text that may be names and that :meth:`replace` leaves: those capitalised in mid-sentence."""
        covered = {i for start, end, _ in self._replacements(text) for i in range(start, end)}
        return [
            Suspect(text[token.start : token.end], token.start, token.end, _around(text, token))
            for token in tokens_of(text)
            if token.form != "lower" and not token.starts and len(token.key) > 1
            if token.key not in KEPT and token.start not in covered
        ]

    def _replacements(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Start, end and generic name; neighbours of one identity are replaced by one name."""
        tokens = tokens_of(text)
        i = 0
        while i < len(tokens):
            match = self._match(text, tokens, i)
            if match is None:
                i += 1
                continue
            first, i = i, i + match.length
            while i < len(tokens) and joined(text, tokens[i - 1], tokens[i]):
                following = self._match(text, tokens, i)
                if following is None or following.generic != match.generic:
                    break
                match, i = following, i + following.length
            begin = _with_initials(text, tokens, first)
            yield tokens[begin].start, tokens[i - 1].end - match.tail, _cased(match.generic, tokens[first:i])

    def _match(self, text: str, tokens: Sequence[Token], i: int) -> _Match | None:
        """The longest name that begins with a token."""
        for keys in self._by_first.get(tokens[i].key, ()):
            length = _length(text, tokens, i, keys) if len(keys) > 1 else self._stands_alone(text, tokens, i)
            if length:
                return _Match(length, self._generic[keys])
        if tokens[i].form != "lower" and tokens[i].key not in KEPT:
            for stem in stems(tokens[i].key):
                if stem in self._evidence.sure and (stem,) in self._generic:
                    return _Match(1, self._generic[(stem,)], len(tokens[i].key) - len(stem))
        return None

    def _stands_alone(self, text: str, tokens: Sequence[Token], i: int) -> int:
        """1 if a word is a name here, else 0."""
        token = tokens[i]
        if token.form == "lower":
            return int(token.key in self._evidence.careless and self._is_careless(text, tokens, token.key))
        if token.key in self._evidence.sure:
            return 1
        if token.key not in self._evidence.in_places or token.form == "upper":
            return 0
        return int(not token.starts or self._acts(text, tokens, i))

    def _acts(self, text: str, tokens: Sequence[Token], i: int) -> bool:
        """At the beginning of a sentence: what follows makes the word a name ("Dream's eyes", "Dream waved")."""
        token = tokens[i]
        following = tokens[i + 1].key if i + 1 < len(tokens) else ""
        if (token.key, following) in self._evidence.contexts:
            return True
        if token.heading or token.key in KEPT:
            return False
        after = text[token.end : token.end + 2].lower()
        return after in {"'s", "’s"} or (after[:1] == " " and (following.endswith("ed") or following in VERBS))

    def _is_careless(self, text: str, tokens: Sequence[Token], key: str) -> bool:
        """Does a text write a name in lower case only, this one's capitalised mentions replaced or not?"""
        generic = self._generic[(key,)]
        return generic not in text and not any(
            token.form != "lower" and self._generic.get((token.key,)) == generic for token in tokens
        )


def _length(text: str, tokens: Sequence[Token], i: int, keys: Keys) -> int:
    """Number of tokens that are these words, initials between them included; 0 if they are not."""
    place = i
    for number, key in enumerate(keys):
        if number and place < len(tokens) and len(tokens[place].key) == 1 and _follows(text, tokens, place):
            place += 1
        if place >= len(tokens) or tokens[place].key != key or (number and not _follows(text, tokens, place)):
            return 0
        place += 1
    return place - i if tokens[place - 1].form != "lower" else 0


def _follows(text: str, tokens: Sequence[Token], i: int) -> bool:
    return joined(text, tokens[i - 1], tokens[i])


def _with_initials(text: str, tokens: Sequence[Token], first: int) -> int:
    """The token at which a name with the initials in front of it begins: "J. R. Reilly"."""
    while first and len(tokens[first - 1].key) == 1 and tokens[first - 1].form == "initial":
        if text[tokens[first - 1].end : tokens[first].start] not in {".", ". "}:
            break
        first -= 1
    return first


def _cased(generic: str, tokens: Sequence[Token]) -> str:
    if all(token.form == "upper" for token in tokens):
        return generic.upper()
    return generic.lower() if all(token.form == "lower" for token in tokens) else generic


def _around(text: str, token: Token) -> str:
    return text[max(0, token.start - CONTEXT) : token.end + CONTEXT]
