"""Damage to passages: what each kind does, and that it does nothing else."""

from __future__ import annotations

import re

import pytest

from carp.data.damage.kinds import KINDS, Kind
from carp.data.damage.lists import phrases, remarks
from carp.data.damage.passage import as_long_as, inserted, narrator, sentences_of
from carp.data.pairs import read_pairs

PASSAGE = (
    "Mara walked down the narrow, rusty stairs. She held a small silver lamp, like a thief in a play. The old door was "
    "open. “Who is there?” she asked slowly. Tomas said nothing. Behind Tomas, the dark water moved. “I know that "
    "you took it,” Mara whispered. He turned away. An icy wind came up from the river, and Mara heard it in the "
    "wires. Tomas laughed at her. It was a quiet, bitter laugh. She waited for him to say her name."
)
NAMED = {kind.name: kind for kind in KINDS}


def damaged(name: str, text: str = PASSAGE, seed: int = 0) -> str:
    found = NAMED[name].damaged(text, "train", seed)
    assert found is not None
    return found


def words(text: str) -> list[str]:
    return re.findall(r"[\w’']+", text)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_changes_the_passage_the_same_way_every_time(kind: Kind) -> None:
    found = [kind.damaged(PASSAGE, "probe", seed=3) for _ in range(2)]
    assert found[0] == found[1] != PASSAGE
    assert found[0]
    assert abs(len(found[0].split()) - len(PASSAGE.split())) <= 0.5 * len(PASSAGE.split())
    assert kind.damaged("Rain fell.", "probe") is None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_many_of_the_bundled_passages_can_be_damaged(kind: Kind) -> None:
    passages = {pair.passage for pair in read_pairs("sample")}
    found = [kind.damaged(passage, "probe") for passage in passages]
    assert sum(text is not None for text in found) > len(passages) / 8


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_is_kept_for_probing_is_never_trained_on(kind: Kind) -> None:
    for_training, for_probing = kind.remarks("train"), kind.remarks("probe")
    assert len(for_probing) >= 2
    assert bool(for_training) is not kind.held_out
    assert not set(for_training) & set(for_probing)


@pytest.mark.parametrize("name", ["feelings", "cliches", "flat_lines"])
def test_phrases_are_divided_too(name: str) -> None:
    assert not set(phrases(name, "train")) & set(phrases(name, "probe"))


def test_remarks_are_all_different() -> None:
    everything = [remark for kind in KINDS for part in ("train", "probe") for remark in remarks(kind.name, part)]
    assert len(everything) == len(set(everything))


def test_tenses_slip_in_some_sentences_only() -> None:
    found = damaged("tense")
    before, after = (
        set(re.findall(r"\b(?:walk|whisper|turn|laugh|wait)(?:ed|s)\b", text)) for text in (PASSAGE, found)
    )
    assert before != after
    assert any(word.endswith("ed") for word in after)
    present = (
        "She says nothing. He takes the lamp. It is dark and she knows it. Nobody comes. He waits and she sits there."
    )
    assert re.search(r"said|took|was|knew|came|waited|sat", damaged("tense", present))


def test_the_first_person_has_forms_of_its_own() -> None:
    text = "I was late. I was tired. I had no coat. We were cold. I went home and I said so. They were there."
    for seed in range(5):
        found = damaged("tense", text, seed)
        assert not re.search(r"\bI (?:is|are|has|goes|says)\b|\b(?:We|They) (?:am|is)\b", found)


def test_imagery_goes_and_articles_stay_right() -> None:
    found = damaged("imagery")
    for word in ("narrow", "rusty", "silver", "slowly", "like a thief", "icy", "bitter"):
        assert word not in found
    assert "down the stairs" in found
    assert "A wind came" in found
    assert "a lamp." in found


def test_feelings_are_told_of_whoever_the_passage_is_about() -> None:
    found = damaged("told")
    assert re.search(r"She was [\w ]+\.", found)
    assert narrator("I ran. I was late, and he was not. I knew.") == "I was"


def test_names_become_pronouns() -> None:
    found = damaged("references")
    assert "Mara" not in found
    assert "Tomas" not in found
    assert not re.search(r"\. (?:he|she|they|it)\b", found)
    generic = damaged("references", "John0 sat. We saw John0 and Sam1. Then Sam1's dog bit John0.")
    assert not re.search(r"\d", generic)


def test_what_is_spoken_becomes_flat_and_the_rest_stays() -> None:
    found = damaged("dialogue")
    assert re.sub("“.*?”", "", found) == re.sub("“.*?”", "", PASSAGE)
    assert "Who is there" not in found
    assert re.search("[,]” Mara whispered", found)


def test_repeated_sentences_are_those_of_the_passage() -> None:
    found = [sentence.strip() for sentence in sentences_of(damaged("repetition"))]
    own = {sentence.strip() for sentence in sentences_of(PASSAGE)}
    assert len(found) > len(set(found))
    assert set(found) <= own


def test_a_cut_passage_is_the_beginning_and_ends_in_mid_sentence() -> None:
    found = damaged("cut_off")
    assert PASSAGE.startswith(found)
    assert found[-1].isalpha()


def test_run_on_sentences_have_the_words_of_the_passage() -> None:
    found = damaged("run_on")
    assert found.count(".") < PASSAGE.count(".") - 2
    left = [word.lower() for word in words(found) if word != "and"]
    assert left == [word.lower() for word in words(PASSAGE) if word != "and"]


def test_spelling_changes_some_words_and_no_others() -> None:
    found = damaged("spelling")
    assert found != damaged("spelling", seed=2)
    changed = sum(one != other for one, other in zip(words(PASSAGE), words(found), strict=True))
    assert 3 <= changed <= len(words(PASSAGE)) / 3


def test_shuffling_keeps_every_sentence() -> None:
    found = damaged("shuffled")
    assert sorted(words(found)) == sorted(words(PASSAGE))


def test_sentences_are_put_in_between_and_the_length_stays() -> None:
    sentences = sentences_of("One one. Two two.\n\nThree three. Four four.")
    assert "".join(inserted(sentences, ["New."], [1])) == "One one. Two two. New.\n\nThree three. Four four."
    assert as_long_as("one two three four five", ["one two. ", "x y. ", "three four. "]) == "one two. x y."
