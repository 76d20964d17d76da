"""Quote masking: what is a quote, what goes with it, and that nothing else is touched."""

from __future__ import annotations

import re

import pytest
from conftest import shared_data
from hypothesis import given, settings
from hypothesis import strategies as st

from carp.data.preparation.masking import THRESHOLD, mask_quotes
from carp.data.preparation.words import _ANY, _PLAIN, word_keys
from carp.data.records import read_records

PASSAGE = (
    "And there, on the mat, the old grey cat slept on. Don’t you ever say well-known things about 3,000.5 dogs, José "
    "said. He shouted “No way out of here!” and left. Она медленно закрыла старую дверь. 猫は静かに眠っていた。"
)


@pytest.mark.parametrize(
    ("critique", "expected"),
    [
        ("I love 'The old grey cat slept' here.", "I love [quote] here."),
        ("The old grey cat: cut it.", "[quote]: cut it."),
        ("Cut the old grey cat!", "Cut [quote]!"),
        ("the old grey cat", "[quote]"),
        ("the old grey", "the old grey"),
        ("THE OLD, GREY -- CAT is nice", "[quote] is nice"),
        ("The old grey cat. The old grey cat. The old grey cat.", "[quote]. [quote]. [quote]."),
        ("Why 'dont you ever say' so?", "Why [quote] so?"),
        ('Why "don\'t you ever say" so?', "Why [quote] so?"),
        ("say well known things: no", "[quote]: no"),
        ("about 3000.5 dogs, jose\u0301 said: nice", "[quote]: nice"),
        ("“No way out of here!” is good", "[quote] is good"),
        ('He says "no way out of here", which works', "He says [quote], which works"),
        ('"no way out of here"\n"the old grey cat"', "[quote]\n[quote]"),
        ('"The old grey cat slept" and "the old grey cat": 😀', "[quote] and [quote]: 😀"),
        ("*the old grey cat* 😀 the old grey dog", "[quote] 😀 the old grey dog"),
        ('"I said the old grey cat" is odd', '"I said [quote]" is odd'),
        ('like "the old grey" cat here', "like [quote] here"),
        ('like the old "grey cat," here', "like [quote] here"),
        ("«Она медленно закрыла старую» калитку", "[quote] калитку"),
        ("静かに眠る is odd", "[quote]る is odd"),
        ("[quote] the old grey [quote] cat slept", "[quote] the old grey [quote] cat slept"),
        ("catalogue the old grey catalogue", "catalogue the old grey catalogue"),
        ("", ""),
        ("😀", "😀"),
    ],
)
def test_what_is_masked(critique: str, expected: str) -> None:
    assert mask_quotes(critique, PASSAGE).text == expected


def test_the_longest_run_is_masked_first() -> None:
    masked = mask_quotes("a b c d e f g", "b c d e f | a b c d | d e f g")
    assert masked.text == "a [quote] g"
    assert masked.words == 5


def test_every_instance_of_a_masked_quote_is_masked_before_a_longer_rest_can_grow_into_it() -> None:
    assert mask_quotes("a b c d. x a b c d", "a b c d y").text == "[quote]. x [quote]"


def test_the_threshold_is_an_option() -> None:
    assert mask_quotes("so the old grey dog", PASSAGE, threshold=3).text == "so [quote] dog"
    assert mask_quotes("so the old grey cat", PASSAGE, threshold=5).text == "so the old grey cat"
    with pytest.raises(ValueError, match="at least 1"):
        mask_quotes("a", "a", threshold=0)


def test_texts_that_loop_take_no_longer_than_others() -> None:
    assert mask_quotes("ha " * 1000, "ha " * 20_000).text == "[quote] "


def runs(keys: list[str], size: int) -> set[tuple[str, ...]]:
    return {gram for gram in zip(*(keys[i:] for i in range(size)), strict=False) if "[quote]" not in gram}


def is_subsequence(rest: str, text: str) -> bool:
    characters = iter(text)
    return all(c in characters for c in rest)


def check(critique: str, passage: str) -> None:
    masked = mask_quotes(critique, passage).text
    assert runs(word_keys(masked), THRESHOLD).isdisjoint(runs(word_keys(passage), THRESHOLD))
    assert is_subsequence(masked.replace("[quote]", ""), critique.replace("[quote]", ""))
    assert mask_quotes(masked, passage).text == masked
    if not runs(word_keys(critique), THRESHOLD) & runs(word_keys(passage), THRESHOLD):
        assert masked == critique


# Few words, so that they repeat; all kinds of letters and of marks between them.
PIECES = ["a", "B", "c", "don't", "don’t", "3,000", "é", "e\u0301", "猫", "は", "дверь", "[quote]", "😀", "ß", "İ"]
MARKS = [" ", " ", " ", ", ", ". ", "-", "\n", ' "', '" ', "“", "” ", "...", "'", "_", ""]
TEXTS = st.lists(st.sampled_from(PIECES + MARKS * 2), max_size=60).map("".join)


@settings(max_examples=400)
@given(TEXTS, TEXTS)
def test_nothing_but_quotes_is_masked(critique: str, passage: str) -> None:
    check(critique, passage)


@settings(max_examples=200)
@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_can_be_masked(first: str, second: str) -> None:
    check(first + second, second + first)


@settings(max_examples=300)
@given(st.text(st.characters(max_codepoint=0x2FF), max_size=100))
def test_the_fast_pattern_finds_the_same_words(text: str) -> None:
    assert _PLAIN.findall(text) == _ANY.findall(text)


def test_all_real_pairs_lose_their_quotes_and_nothing_else() -> None:
    path = shared_data("critiques.jsonl.gz")
    masks = 0
    for i, (_, record) in enumerate(read_records(path)):
        if i % 10 == 0:
            passage = re.sub(r"\s+", " ", record["story"])
            for comment in record["comments"]:
                check(comment["text"], passage)
                masks += mask_quotes(comment["text"], passage).words > 0
    assert masks > 100
