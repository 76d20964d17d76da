"""Damage to the sentences of a passage; each returns ``None`` where there are too few of them."""

from __future__ import annotations

import re
from random import Random

from carp.data.damage.lists import Part, phrases
from carp.data.damage.passage import WORD, as_long_as, inserted, narrator, sentences_of, some_places
from carp.data.preparation.vocabulary import KEPT

LEAST = 5  # sentences
_SPOKEN = re.compile('["“]([^"“”\n]{2,})["”]')
_JOIN = re.compile(r"(?<=[a-z])\.( )(?=[A-Z])")


def repetition(text: str, rng: Random, part: Part) -> str | None:
    """Some sentences come again, a little later."""
    sentences = sentences_of(text)
    if len(sentences) < LEAST:
        return None
    places = some_places(rng, len(sentences), 0.35, least=2)
    again = [sentences[rng.randrange(max(0, place - 2), place + 1)].strip() for place in places]
    return as_long_as(text, inserted(sentences, again, places))


def cut_off(text: str, rng: Random, part: Part) -> str | None:
    """The end is missing, from the middle of a sentence on."""
    sentences = sentences_of(text)
    place = round(rng.uniform(0.5, 0.85) * len(sentences))
    if len(sentences) < LEAST or len(last := sentences[place].split()) < 4:
        return None
    kept = " ".join(last[: rng.randrange(2, len(last) - 1)])
    return "".join(sentences[:place]) + kept.rstrip('.,;:!?"”')


def told(text: str, rng: Random, part: Part) -> str | None:
    """Feelings are named."""
    who = narrator(text)
    return _with_sentences(text, rng, [f"{who} {feeling}." for feeling in phrases("feelings", part)], 0.3)


def cliche(text: str, rng: Random, part: Part) -> str | None:
    """Worn-out sentences."""
    return _with_sentences(text, rng, phrases("cliches", part), 0.25)


def _with_sentences(text: str, rng: Random, additions: list[str], share: float) -> str | None:
    sentences = sentences_of(text)
    if len(sentences) < LEAST:
        return None
    places = some_places(rng, len(sentences), share, least=2)[: len(additions)]
    return as_long_as(text, inserted(sentences, rng.sample(additions, len(places)), places))


def run_on(text: str, rng: Random, part: Part) -> str | None:
    """Full stops become commas and "and"."""
    changed = 0

    def joined(found: re.Match[str]) -> str:
        nonlocal changed
        if rng.random() > 0.9:
            return found.group()
        changed += 1
        return rng.choice([", ", ", ", " and "])

    def lower(found: re.Match[str]) -> str:
        return found[1] + (found[2].lower() if found[2].lower() in KEPT and found[2] != "I" else found[2])

    damaged = re.sub(r"((?<=[a-z]), |(?<=[a-z]) and )([A-Z]\w*)", lower, _JOIN.sub(joined, text))
    return damaged if changed >= LEAST - 2 else None


def dialogue(text: str, rng: Random, part: Part) -> str | None:
    """What is spoken says nothing."""
    lines = phrases("flat_lines", part)
    damaged, changed = _SPOKEN.subn(lambda found: found.group().replace(found[1], _line(found[1], rng, lines)), text)
    return damaged if changed > 1 else None


def _line(spoken: str, rng: Random, lines: list[str]) -> str:
    line = rng.choice(lines)
    return line if spoken.rstrip()[-1] in ".!?" else line[:-1] + ("," if spoken.rstrip().endswith(",") else "")


def shuffled(text: str, rng: Random, part: Part) -> str | None:
    """Sentences in another order."""
    sentences = [sentence.strip() for sentence in sentences_of(text)]
    if len(sentences) < LEAST:
        return None
    return " ".join(rng.sample(sentences, len(sentences)))


def monotone(text: str, rng: Random, part: Part) -> str | None:
    """Nearly every sentence begins with "Then"."""
    changed = 0

    def begun(sentence: str) -> str:
        nonlocal changed
        first = WORD.match(sentence)
        if first is None or rng.random() > 0.9:
            return sentence
        changed += 1
        word = first.group()
        return f"Then {word.lower() if word.lower() in KEPT and word != 'I' else word}{sentence[first.end() :]}"

    damaged = as_long_as(text, [begun(sentence) for sentence in sentences_of(text)])
    return damaged if changed >= LEAST - 2 else None


def shouting(text: str, rng: Random, part: Part) -> str | None:
    """Exclamation marks for full stops, and capitals."""
    damaged, changed = re.subn(r"(?<=[a-z])\.(?=\s|$|[\"”])", lambda _: "!" * rng.randrange(1, 4), text)
    loud = re.sub(
        r"\b[a-z]{4,}\b", lambda found: found.group().upper() if rng.random() < 0.1 else found.group(), damaged
    )
    return loud if changed >= LEAST - 2 else None
