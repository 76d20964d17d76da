"""Which mentions are one entity, and the generic name of each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from carp.data.preparation.evidence import Evidence, Keys, Mention
from carp.data.preparation.vocabulary import PERSONS

LABELS = {"place": "Place", "group": "Group", "work": "Work", "other": "Thing"}


@dataclass
class Identity:
    """An entity: the words that stand for it, and what its mentions say of its kind."""

    words: frozenset[str]
    kinds: Counter[str] = field(default_factory=Counter)
    mentions: list[Mention] = field(default_factory=list)

    def kind(self, evidence: Evidence) -> str:
        """Its most frequent kind, a person in doubt; where none was recognised, what is not called "the ..." is one."""
        if 2 * self.kinds["person"] >= max(self.kinds[kind] for kind in LABELS if kind != "other") > 0:
            return "person"
        if any(kind != "other" for kind in self.kinds):
            return max((kind for kind in self.kinds if kind != "other"), key=self.kinds.__getitem__)
        words = [evidence.words[word] for word in self.words if word in evidence.words]
        return "other" if any(2 * word.after_the > word.middle for word in words) else "person"


def generic_names(evidence: Evidence) -> tuple[dict[Keys, str], dict[str, str]]:
    """The generic name of every sequence of words that is one; and of every mention, as it was first written."""
    identities = _identities(evidence)
    found: dict[Keys, str] = {}
    for identity, generic in _numbered(identities, evidence):
        for mention in identity.mentions:
            found[mention.keys] = generic
    owners = _owners_of_words(identities)
    for word in evidence.sure | evidence.in_places:
        if (word,) not in found and len(owners[word]) == 1:
            found[(word,)] = found[owners[word][0].mentions[0].keys]
    displays = {mention.text: found[mention.keys] for identity in identities for mention in identity.mentions}
    return found, displays


def _identities(evidence: Evidence) -> list[Identity]:
    """Mentions grouped: those with the most words found identities, which the others join."""
    identities: list[Identity] = []
    places = {keys: i for i, keys in enumerate(evidence.mentions)}
    units = [(unit, mention) for mention in evidence.mentions.values() if (unit := _unit(mention, evidence))]
    units += [(frozenset({key}), Mention((key,), key.capitalize())) for key in _shared_words(units, evidence)]
    by_word: dict[str, list[Identity]] = defaultdict(list)
    for unit, mention in sorted(units, key=lambda pair: -len(pair[0])):
        identity = _home(unit, by_word)
        if identity is None:
            identity = Identity(unit)
            identities.append(identity)
            for word in unit:
                by_word[word].append(identity)
        identity.mentions.append(mention)
        identity.kinds.update(mention.kinds)
    first = {id(one): min(places.get(mention.keys, len(places)) for mention in one.mentions) for one in identities}
    return _linked(sorted(identities, key=lambda one: first[id(one)]))


def _unit(mention: Mention, evidence: Evidence) -> frozenset[str]:
    """The words of a mention that tell it from others; a phrase of common words is one word. Empty: no name."""
    distinctive = frozenset(mention.keys) & (evidence.sure | evidence.in_places)
    if distinctive:
        return distinctive
    is_phrase = len(mention.keys) > 1 and mention.named
    return frozenset({" ".join(mention.keys)}) if is_phrase else frozenset()


def _shared_words(units: Iterable[tuple[frozenset[str], Mention]], evidence: Evidence) -> list[str]:
    """Words of several names that also stand alone, unknown for whom."""
    counts = Counter(word for unit in {unit for unit, _ in units} if len(unit) > 1 for word in unit)
    return [word for word, count in counts.items() if count > 1 and (word,) not in evidence.mentions]


def _home(unit: frozenset[str], by_word: Mapping[str, list[Identity]]) -> Identity | None:
    """The identity with these words, or the only one with these and more."""
    word = next(iter(unit))
    holders = [identity for identity in by_word.get(word, []) if unit <= identity.words]
    exact = [identity for identity in holders if identity.words == unit]
    if exact:
        return exact[0]
    return holders[0] if len(holders) == 1 else None


def _linked(identities: list[Identity]) -> list[Identity]:
    """Joined where coreference has put their mentions into one cluster."""
    homes: dict[tuple[int, int], Identity] = {}
    kept: list[Identity] = []
    for identity in identities:
        clusters = {cluster for mention in identity.mentions for cluster in mention.clusters}
        home = next((homes[cluster] for cluster in sorted(clusters) if cluster in homes), None)
        if home is None:
            home = identity
            kept.append(identity)
        else:
            home.mentions += identity.mentions
            home.kinds += identity.kinds
            home.words |= identity.words
        homes.update(dict.fromkeys(clusters, home))
    return kept


def _numbered(identities: Iterable[Identity], evidence: Evidence) -> Iterable[tuple[Identity, str]]:
    counts: Counter[str] = Counter()
    for identity in identities:
        kind = identity.kind(evidence)
        number = counts[kind]
        counts[kind] += 1
        yield identity, f"{PERSONS[number % len(PERSONS)] if kind == 'person' else LABELS[kind]}{number}"


def _owners_of_words(identities: Iterable[Identity]) -> dict[str, list[Identity]]:
    owners: dict[str, list[Identity]] = defaultdict(list)
    for identity in identities:
        for word in identity.words:
            owners[word].append(identity)
    return owners
