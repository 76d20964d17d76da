"""What the texts of one story say about their capitalised words: which are names, and which belong together."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from carp.data.preparation.entities import Entity
from carp.data.preparation.tokens import Token, tokens_of
from carp.data.preparation.vocabulary import AMBIGUOUS, COMMON_NOUNS, INTRODUCING, KEPT, PARTICLES, PEOPLES, TITLES

Keys = tuple[str, ...]
_INTRODUCED = AMBIGUOUS - TITLES
_INNER = PARTICLES - {"y", "a"}
_LEADING = PARTICLES - {"of", "the", "y", "do", "la", "le", "el", "al"}


@dataclass
class Word:
    """How often a word is written in lower case, capitalised in mid-sentence, and named by a recogniser."""

    lower: int = 0
    lower_in_story: int = 0
    middle: int = 0
    named: int = 0  # by an entity recogniser
    tagged: int = 0  # by a tagger alone
    after_the: int = 0
    persons: int = 0

    @property
    def sure(self) -> bool:
        """Is a name wherever it is capitalised."""
        seen = self.middle + self.named + self.tagged
        if self.lower_in_story or (self.lower and seen < 2):
            return self.named > 0 and self.middle > 2 * self.lower
        return seen > 0

    @property
    def careless(self) -> bool:
        """Is a person's name that critics alone write in lower case."""
        return not self.lower_in_story and min(self.persons, self.middle) > 1

    @property
    def in_places(self) -> bool:
        """Is a name where it is capitalised in mid-sentence."""
        return min(self.named, self.middle) > 0 or min(self.tagged, self.middle) > 1


@dataclass
class Mention:
    """Words that stand together for one entity, as often as ``kinds`` counts."""

    keys: Keys
    text: str
    named: bool = False
    kinds: Counter[str] = field(default_factory=Counter)
    clusters: set[tuple[int, int]] = field(default_factory=set)  # text, cluster


@dataclass
class Evidence:
    """The words and mentions of all texts; ``contexts`` are ambiguous words that were named, with the word after."""

    words: dict[str, Word] = field(default_factory=dict)
    mentions: dict[Keys, Mention] = field(default_factory=dict)
    contexts: set[tuple[str, str]] = field(default_factory=set)
    plurals: set[str] = field(default_factory=set)

    @cached_property
    def sure(self) -> frozenset[str]:
        """Words that are names wherever they are capitalised."""
        return frozenset(key for key, word in self.words.items() if word.sure and self._may_be_alone(key, word))

    @cached_property
    def in_places(self) -> frozenset[str]:
        """Words that are names in mid-sentence, and elsewhere in a context in which one was named."""
        return frozenset(
            key
            for key, word in self.words.items()
            if key not in self.sure and len(key) > 1 and not self._is_plural(key) and self._may_be_in_places(key, word)
        )

    @cached_property
    def careless(self) -> frozenset[str]:
        """Words that are names in lower case too, in a critique that never writes them otherwise."""
        return frozenset(
            key for key in self.sure - AMBIGUOUS if self.words[key].lower and self.words[key].careless and len(key) > 3
        )

    def _may_be_alone(self, key: str, word: Word) -> bool:
        if len(key) < 2 or key in KEPT or self._is_plural(key):
            return False
        if key in COMMON_NOUNS:  # "the Foundation"
            return word.middle > 1 and not word.lower
        return key not in AMBIGUOUS or word.middle > word.lower

    def _may_be_in_places(self, key: str, word: Word) -> bool:
        if key in AMBIGUOUS:
            return (word.persons if key in KEPT else word.named) > 0
        if key in PEOPLES:  # somebody called Dutch
            return 2 * word.persons > word.named
        return key not in KEPT and word.in_places and (key not in COMMON_NOUNS or word.persons > 0)

    def _is_plural(self, key: str) -> bool:
        """Of a name, as in "the Reillys", or a possessive without its apostrophe."""
        names = [self.words[stem] for stem in stems(key) if stem in self.words and self.words[stem].sure]
        return any(key in self.plurals or name.middle > self.words[key].middle for name in names)


def stems(key: str) -> list[str]:
    """What a word may be the plural of."""
    return [key[: -len(ending)] for ending in ("s", "es") if key.endswith(ending) and len(key) > len(ending) + 2]


def evidence_of(texts: Sequence[str], entities: Sequence[Sequence[Entity]]) -> Evidence:
    """Everything that speaks for names in the texts of one story."""
    evidence = Evidence()
    for number, (text, found) in enumerate(zip(texts, entities, strict=True)):
        tokens = tokens_of(text)
        owners = _owners(tokens, found)
        _count(evidence, tokens, owners, is_story=number == 0)
        for run, entity in _runs(text, tokens, owners):
            _add_mention(evidence, text, run, entity, number)
    return evidence


def _owners(tokens: Sequence[Token], entities: Sequence[Entity]) -> dict[int, Entity]:
    """The entity that covers a token, by the token's number; one of an entity recogniser before a tagger's."""
    starts = [token.start for token in tokens]
    owners: dict[int, Entity] = {}
    for entity in entities:
        covered = range(bisect_left(starts, entity.start), bisect_left(starts, entity.end))
        if len(covered) > 3 and all(tokens[i].form == "upper" for i in covered):
            continue  # shouting
        for i in covered:
            if tokens[i].form != "lower" and not (entity.weak and i in owners):
                owners[i] = entity
    for i, token in enumerate(tokens[1:], start=1):
        if token.key in _INTRODUCED and _is_introduced(tokens[i - 1], token):
            owners[i] = Entity(token.start, token.end, "person")
    return owners


def _is_introduced(before: Token, token: Token) -> bool:
    """As in "a man named Crow", which recognisers may take for the word."""
    return before.key in INTRODUCING and token.form == "initial" and token.start == before.end + 1


def _count(evidence: Evidence, tokens: Sequence[Token], owners: dict[int, Entity], is_story: bool) -> None:
    for i, token in enumerate(tokens):
        word = evidence.words.get(token.key)
        if word is None:
            word = evidence.words[token.key] = Word()
        if token.form == "lower":
            word.lower += 1
            word.lower_in_story += is_story
            continue
        entity = owners.get(i)
        if entity is not None and not entity.weak:
            word.named += 1
            word.persons += entity.kind == "person"
            if token.starts:
                evidence.contexts.add((token.key, tokens[i + 1].key if i + 1 < len(tokens) else ""))
        elif entity is not None and token.form == "initial":
            word.tagged += 1
        word.middle += not token.starts and token.form == "initial"
        if i > 0 and tokens[i - 1].key == "the":
            word.after_the += 1
            evidence.plurals.add(token.key)


def _runs(text: str, tokens: Sequence[Token], owners: dict[int, Entity]) -> Iterator[tuple[list[Token], Entity | None]]:
    """Tokens that stand together, with the entity that covers them."""
    i = 0
    while i < len(tokens):
        if tokens[i].form == "lower" and tokens[i].key not in _LEADING:
            i += 1
            continue
        end, entity = i + 1, owners.get(i)
        while end < len(tokens) and _continues(text, tokens, owners, end, entity):
            end += 1
        covering = next((owners[k] for k in range(i, end) if k in owners and not owners[k].weak), entity)
        yield list(tokens[i:end]), covering
        i = end


def _continues(text: str, tokens: Sequence[Token], owners: dict[int, Entity], i: int, entity: Entity | None) -> bool:
    token = tokens[i]
    if not joined(text, tokens[i - 1], token):
        return False
    if token.form == "lower":
        within = entity is not None and token.start < entity.end
        following = next((k for k in range(i, min(i + 4, len(tokens))) if tokens[k].key not in _INNER), i)
        return tokens[following].form != "lower" and (within or token.key not in {"of", "the"})
    other = owners.get(i)
    both_named = entity is not None and other is not None and not entity.weak and not other.weak
    return not both_named or entity == other or tokens[i - 1].form == "lower"


def joined(text: str, first: Token, second: Token) -> bool:
    """Are two tokens parts of one name: nothing but a space, a hyphen or an initial's point is between them."""
    gap = text[first.end : second.start]
    return gap in {" ", "-", "\u00a0", "‑", "\n"} or (
        gap in {". ", "."} and (len(first.key) == 1 or first.key in TITLES)
    )


def _add_mention(evidence: Evidence, text: str, run: list[Token], entity: Entity | None, number: int) -> None:
    named = entity is not None and not entity.weak
    run = _named_phrase(run) if named else _trimmed(run)
    if not run:
        return
    if all(token.form == "upper" for token in run) and (entity is None or entity.weak or len(run) > 3):
        return
    keys = tuple(token.key for token in run if len(token.key) > 1)
    mention = evidence.mentions.setdefault(keys, Mention(keys, text[run[0].start : run[-1].end]))
    if entity is not None and entity.cluster is not None:
        mention.clusters.add((number, entity.cluster))
    mention.named |= named
    mention.kinds[entity.kind if entity is not None and named else "other"] += 1


def _named_phrase(run: list[Token]) -> list[Token]:
    """Trimmed, unless nothing would be left but a common noun: "French Quarter"."""
    trimmed = _trimmed(run)
    if len(trimmed) > 1 or (trimmed and trimmed[0].key not in COMMON_NOUNS):
        return trimmed
    while run and (run[0].form == "lower" or run[0].key in TITLES or run[0].key in PARTICLES):
        run = run[1:]
    return run if len(run) > 1 and run[-1].form != "lower" and run[0].key in PEOPLES else trimmed


def _trimmed(run: list[Token]) -> list[Token]:
    """Without titles, articles, initials and kept words at its ends."""
    while run and _is_no_beginning(run[0]):
        run = run[1:]
    while run and _is_no_end(run[-1]):
        run = run[:-1]
    return run if any(token.form != "lower" and len(token.key) > 1 for token in run) else []


def _is_no_beginning(token: Token) -> bool:
    if token.form == "lower":
        return token.key not in _LEADING
    return len(token.key) == 1 or token.key in TITLES or (token.key in KEPT and token.key not in AMBIGUOUS)


def _is_no_end(token: Token) -> bool:
    if token.form == "lower" or len(token.key) == 1:
        return True
    return token.key in KEPT and token.key not in AMBIGUOUS
