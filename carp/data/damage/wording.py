"""Damage to the words of a passage; each returns ``None`` where there is too little to damage."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from random import Random

from carp.data.damage.lists import Part, intensifiers, table, words
from carp.data.damage.passage import WORD, sentences_of, starts_sentence
from carp.data.preparation.tokens import tokens_of
from carp.data.preparation.vocabulary import GENERIC, KEPT

LEAST = 3  # changes
MISSPELT = 0.15  # of the words with four letters or more
_SIMILE = re.compile(r"(,? like an? [^,.;:!?\n\"”]+|,? as \w+ as [^,.;:!?\n\"”]+)", re.IGNORECASE)
_ADVERB = re.compile(r" ([a-z]{3,}ly)\b(?=[ .,;:!?])")
_BEFORE_WORD = re.compile(r"\b(?<!['’-])([a-z]+)\b(?!['’-]),? (?=[a-z])")
_ARTICLE = re.compile(r"\b([Aa])n? (?=(\w))")
_BASE_AFTER = {"i", "you", "we", "they"}


def tense(text: str, rng: Random, part: Part) -> str | None:
    """About half of the sentences slip into the present tense, or into the past where the passage is in the present."""
    past = {row[0]: row for row in table("verbs")}
    present = {row[2]: row for row in table("verbs")}
    known = [word.lower() for word in WORD.findall(text)]
    to_present = sum(word in past for word in known) >= sum(word in present for word in known)
    changed = 0

    def slipped(sentence: str) -> str:
        def swap(found: re.Match[str]) -> str:
            nonlocal changed
            word = found.group()
            row = (past if to_present else present).get(word.lower())
            if row is None:
                return word
            before = WORD.findall(sentence[: found.start()])[-1:]
            other = row[(1 if before and before[0].lower() in _BASE_AFTER else 2) if to_present else 0]
            if other == "am" and before[0] != "I":
                other = "are"
            changed += 1
            return other.capitalize() if word[0].isupper() else other

        return WORD.sub(swap, sentence)

    sentences = sentences_of(text)
    chosen = set(rng.sample(range(len(sentences)), (len(sentences) + 1) // 2))
    damaged = "".join(slipped(sentence) if i in chosen else sentence for i, sentence in enumerate(sentences))
    return damaged if changed >= LEAST else None


def spelling(text: str, rng: Random, part: Part) -> str | None:
    """Typos and words mistaken for others that sound alike."""
    alike: dict[str, str] = {row[0]: row[1] for row in table("homophones")}
    changed = 0

    def misspelt(found: re.Match[str]) -> str:
        nonlocal changed
        word = found.group()
        other = alike.get(word.lower())
        if other is None and (len(word) < 4 or rng.random() > MISSPELT):
            return word
        changed += 1
        return _typo(word, rng) if other is None else (other.capitalize() if word[0].isupper() else other)

    damaged = WORD.sub(misspelt, text)
    return damaged if changed >= LEAST else None


def _typo(word: str, rng: Random) -> str:
    """Two neighbours swapped, a letter lost, or one doubled; never the first."""
    i = rng.randrange(1, len(word) - 1)
    kind = rng.randrange(3)
    if kind == 0 and word[i] != word[i + 1]:
        return word[:i] + word[i + 1] + word[i] + word[i + 2 :]
    return word[:i] + (word[i + 1 :] if kind == 1 else word[i] + word[i:])


def imagery(text: str, rng: Random, part: Part) -> str | None:
    """Without adjectives of the senses, adverbs of manner and similes."""
    changed = 0

    def without(pattern: re.Pattern[str], text: str, is_drawn: Callable[[str], bool]) -> str:
        def removed(found: re.Match[str]) -> str:
            nonlocal changed
            drawn = is_drawn(found[1])
            changed += drawn
            return "" if drawn else found.group()

        return pattern.sub(removed, text)

    damaged = without(_SIMILE, text, lambda _: True)
    damaged = without(_ADVERB, damaged, lambda word: word not in words("not_adverbs"))
    damaged = without(_BEFORE_WORD, damaged, lambda word: word in words("imagery"))
    return _right_articles(damaged) if changed > LEAST else None


def _right_articles(text: str) -> str:
    return _ARTICLE.sub(lambda found: f"{found[1]}{'n' if found[2].lower() in 'aeiou' else ''} ", text)


def references(text: str, rng: Random, part: Part) -> str | None:
    """Names become pronouns, now this one, now that one."""
    names = {text[token.start : token.end] for token in tokens_of(text) if token.form == "initial" and not token.starts}
    repeated = Counter(WORD.findall(text))
    known = {name for name in names if repeated[name] > 1 and name.lower() not in KEPT}
    pattern = re.compile(rf"\b(?:{GENERIC.pattern}|{'|'.join(map(re.escape, sorted(known))) or '(?!)'})(['’]s)?\b")
    changed = 0

    def pronoun(found: re.Match[str]) -> str:
        nonlocal changed
        changed += 1
        simple, possessive = rng.choice([("he", "his"), ("she", "her"), ("they", "their"), ("it", "its")])
        word = possessive if found.group(1) else simple
        return word.capitalize() if starts_sentence(text, found.start()) else word

    damaged = pattern.sub(pronoun, text)
    return damaged if changed >= LEAST else None


def adverbs(text: str, rng: Random, part: Part) -> str | None:
    """Intensifiers in front of adjectives and adverbs."""
    changed = 0

    def stuffed(found: re.Match[str]) -> str:
        nonlocal changed
        if found.group().lower() not in words("imagery") or rng.random() > 0.8:
            return found.group()
        changed += 1
        return f"{rng.choice(intensifiers())} {found.group()}"

    damaged = _right_articles(re.sub(r"\b[a-z]+\b", stuffed, text))
    return damaged if changed >= LEAST else None
