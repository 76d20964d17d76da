"""Pairs are read from every format; what cannot be read is named with its file, row and mend."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from carp.data.pairs import Pair, read_pairs
from carp.errors import InputError
from carp.reviews import REVIEWS, bundled_paraphrases

Records = list[dict[str, Any]]

RECORDS: Records = [
    {"passage": 'Rain.\n\n"Go," she said, and went.', "critique": "[quote] Nice, short.", "group": "a"},
    {"passage": "Grüße aus Åbo 🌧, sagte er.", "critique": "Two\r\nlines.", "group": "b"},
    {"passage": "Nothing happened.", "critique": 'A "quoted" one, with commas,', "group": "a"},
]
PAIRS = [Pair(**record) for record in RECORDS]


def json_lines(records: Records) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def write_jsonl(path: Path, records: Records) -> None:
    path.write_text(json_lines(records), encoding="utf-8")


def write_jsonl_bom(path: Path, records: Records) -> None:
    path.write_text(json_lines(records), encoding="utf-8-sig")


def write_jsonl_blank_lines(path: Path, records: Records) -> None:
    path.write_text("\n" + json_lines(records).replace("\n", "\r\n  \r\n"), encoding="utf-8")


def write_jsonl_gz(path: Path, records: Records) -> None:
    path.write_bytes(gzip.compress(json_lines(records).encode()))


def write_csv(path: Path, records: Records, encoding: str = "utf-8") -> None:
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)


def write_csv_bom(path: Path, records: Records) -> None:
    write_csv(path, records, "utf-8-sig")


def write_csv_gz(path: Path, records: Records) -> None:
    write_csv(path, records)
    path.write_bytes(gzip.compress(path.read_bytes()))


def write_parquet(path: Path, records: Records) -> None:
    pq.write_table(pa.Table.from_pylist(records), path)


def write_dataset(path: Path, records: Records) -> None:
    datasets.Dataset.from_list(records).save_to_disk(str(path))


def write_dataset_dict(path: Path, records: Records) -> None:
    splits = {"train": datasets.Dataset.from_list(records), "test": datasets.Dataset.from_list(records[:1])}
    datasets.DatasetDict(splits).save_to_disk(str(path))


FORMATS = [
    pytest.param("pairs.jsonl", write_jsonl, id="jsonl"),
    pytest.param("pairs.json", write_jsonl, id="json-suffix"),
    pytest.param("pairs.JSONL", write_jsonl, id="upper-case-suffix"),
    pytest.param("pairs.jsonl", write_jsonl_bom, id="jsonl-bom"),
    pytest.param("pairs.jsonl", write_jsonl_blank_lines, id="jsonl-blank-lines"),
    pytest.param("pairs.jsonl.gz", write_jsonl_gz, id="jsonl-gz"),
    pytest.param("pairs.csv", write_csv, id="csv"),
    pytest.param("pairs.csv", write_csv_bom, id="csv-bom"),
    pytest.param("pairs.csv.gz", write_csv_gz, id="csv-gz"),
    pytest.param("pairs.parquet", write_parquet, id="parquet"),
    pytest.param("pairs", write_dataset, id="datasets-folder"),
    pytest.param("pairs", write_dataset_dict, id="datasets-folder-with-splits"),
]


@pytest.mark.parametrize(("name", "write"), FORMATS)
def test_every_format_gives_the_same_pairs(tmp_path: Path, name: str, write: Callable[[Path, Records], None]) -> None:
    write(tmp_path / name, RECORDS)
    assert list(read_pairs(tmp_path / name)) == PAIRS


@pytest.mark.parametrize(("name", "write"), FORMATS)
def test_column_names_of_the_papers_code_are_known(
    tmp_path: Path, name: str, write: Callable[[Path, Records], None]
) -> None:
    old = [{"story_target": r["passage"], "target_comment": r["critique"]} for r in RECORDS]
    write(tmp_path / name, old)
    assert list(read_pairs(tmp_path / name)) == [pair._replace(group=None) for pair in PAIRS]


def test_the_designs_column_names_win_over_those_of_the_papers_code(tmp_path: Path) -> None:
    record = {"story_target": "old", "passage": "new", "target_comment": "old", "critique": "new"}
    write_jsonl(tmp_path / "pairs.jsonl", [record])
    assert list(read_pairs(tmp_path / "pairs.jsonl")) == [Pair("new", "new", None)]


def raw_record(story_id: object, texts: list[str]) -> dict[str, Any]:
    return {
        "story_id": story_id,
        "story": f"Story {story_id}.",
        "comments": [{"text": text} for text in texts],
    }


@pytest.mark.parametrize(
    ("name", "write"),
    [
        pytest.param("raw.jsonl", write_jsonl, id="jsonl"),
        pytest.param("raw.jsonl.gz", write_jsonl_gz, id="jsonl-gz"),
        pytest.param("raw.parquet", write_parquet, id="parquet"),
        pytest.param("raw", write_dataset, id="datasets-folder"),
    ],
)
def test_a_raw_record_gives_one_pair_per_comment_grouped_by_story(
    tmp_path: Path, name: str, write: Callable[[Path, Records], None]
) -> None:
    write(tmp_path / name, [raw_record("x", ["One.", "Two."]), raw_record("y", ["Three."])])
    assert list(read_pairs(tmp_path / name)) == [
        Pair("Story x.", "One.", "x"),
        Pair("Story x.", "Two.", "x"),
        Pair("Story y.", "Three.", "y"),
    ]


@pytest.mark.parametrize("missing", [pytest.param(True, id="missing"), pytest.param(False, id="null")])
def test_raw_records_without_story_id_are_groups_of_their_own(tmp_path: Path, missing: bool) -> None:
    record = raw_record(None, ["One.", "Two."])
    if missing:
        del record["story_id"]
    write_jsonl(tmp_path / "raw.jsonl", [record, record])
    groups = [pair.group for pair in read_pairs(tmp_path / "raw.jsonl")]
    assert groups[0] == groups[1] != groups[2] == groups[3]
    assert None not in groups


@pytest.mark.parametrize(
    ("group", "expected"), [(7, "7"), ("7", "7"), (2.5, "2.5"), (0, "0"), (None, None), ("", None)]
)
def test_a_group_becomes_a_string_and_an_empty_one_is_none(tmp_path: Path, group: object, expected: str | None) -> None:
    write_jsonl(tmp_path / "pairs.jsonl", [{"passage": "p", "critique": "c", "group": group}])
    assert [pair.group for pair in read_pairs(tmp_path / "pairs.jsonl")] == [expected]


@pytest.mark.parametrize(("name", "write"), [("pairs.csv", write_csv), ("pairs.parquet", write_parquet)])
def test_numeric_groups_of_other_formats_become_strings(
    tmp_path: Path, name: str, write: Callable[[Path, Records], None]
) -> None:
    write(tmp_path / name, [{"passage": "p", "critique": "c", "group": number} for number in (3, 12)])
    assert [pair.group for pair in read_pairs(tmp_path / name)] == ["3", "12"]


def test_half_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_text('{"passage": "half \\ud83d one", "critique": "whole \\ud83d\\ude00"}\n')
    assert list(read_pairs(tmp_path / "pairs.jsonl")) == [Pair("half ? one", "whole 😀", None)]


def test_reading_is_lazy(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_text('{"passage": "p", "critique": "c"}\n{broken\n')
    reader = read_pairs(tmp_path / "pairs.jsonl")
    assert next(reader) == Pair("p", "c", None)
    with pytest.raises(InputError, match="row 2"):
        next(reader)


# -- errors ------------------------------------------------------------------------------------------------

GOOD = b'{"passage": "p", "critique": "c"}\n'
DAMAGED_GZIP = bytearray(gzip.compress(GOOD * 1000))
DAMAGED_GZIP[20] ^= 0xFF


# id, file name, content, words of the message
UNREADABLE = [
    (
        "no-passage",
        "p.jsonl",
        GOOD + b'{"text": "p", "critique": "c"}',
        "row 2|no column 'passage'|text, critique|rename",
    ),
    ("no-critique", "p.jsonl", GOOD + b'{"passage": "p"}', "row 2|no column 'critique'|rename"),
    ("no-column", "p.jsonl", GOOD + b"{}", "row 2|no column 'passage'|columns: none"),
    ("csv-no-critique", "p.csv", b"passage,note\np,c\n", "row 1|no column 'critique'|passage, note"),
    (
        "null-passage",
        "p.jsonl",
        GOOD * 2 + b'{"passage": null, "critique": "c"}',
        "row 3|'passage' is null|fill it in",
    ),
    ("null-critique", "p.jsonl", GOOD + b'{"passage": "p", "critique": null}', "row 2|'critique' is null"),
    (
        "number",
        "p.jsonl",
        GOOD + b'{"passage": 3, "critique": "c"}',
        "row 2|'passage' is of type int|write a string",
    ),
    ("list", "p.jsonl", GOOD + b'{"passage": ["p"], "critique": "c"}', "row 2|of type list"),
    ("not-utf-8", "p.jsonl", GOOD * 2 + b'{"passage": "\xff", "critique": "c"}', "row 3|not UTF-8|convert"),
    (
        "not-utf-8-far-behind",
        "p.jsonl",
        GOOD * 2000 + b'{"passage": "\xff", "critique": "c"}',
        "row 2001|not UTF-8",
    ),
    ("csv-not-utf-8", "p.csv", b"passage,critique\np,c\nGr\xfc\xdfe,c\n", "not UTF-8|convert"),
    ("utf-16", "p.jsonl", '{"passage": "p"}'.encode("utf-16"), "row 1|not UTF-8"),
    ("broken-json", "p.jsonl", GOOD + b'{"passage": "p", ', "row 2|not valid JSON|one object per line"),
    ("json-nested-too-deep", "p.jsonl", GOOD + b"[" * 100_000, "row 2|not valid JSON"),
    ("json-number-too-long", "p.jsonl", GOOD + b'{"n": ' + b"1" * 5000 + b"}", "row 2|not valid JSON"),
    ("json-list", "p.jsonl", GOOD + b'["p", "c"]', "row 2|expected an object, found list"),
    ("json-string", "p.jsonl", GOOD + b'"text"', "row 2|expected an object, found str"),
    ("truncated-gzip", "p.jsonl.gz", gzip.compress(GOOD * 1000)[:-12], "after row|damaged|copy it again"),
    ("flipped-bit-gzip", "p.jsonl.gz", bytes(DAMAGED_GZIP), "after row|damaged|copy it again"),
    ("no-gzip", "p.jsonl.gz", GOOD, "after row 0|damaged"),
    (
        "truncated-csv-gzip",
        "p.csv.gz",
        gzip.compress(b"passage,critique\n" + b"p,c\n" * 5000)[:-12],
        "after row|damaged",
    ),
    ("empty-jsonl", "p.jsonl", b"", "the file is empty"),
    ("empty-csv", "p.csv", b"", "the file is empty"),
    ("empty-parquet", "p.parquet", b"", "the file is empty"),
    ("blank-lines-only", "p.jsonl", b"\n  \n", "holds no records"),
    ("header-only", "p.csv", b"passage,critique\n", "holds no records"),
    ("empty-inside-gzip", "p.jsonl.gz", gzip.compress(b""), "holds no records"),
    ("csv-cell-too-many", "p.csv", b"passage,critique\np,c\nHello, you,c\n", "row 2|cells|quote"),
    ("csv-cell-missing", "p.csv", b"passage,critique\np,c\np,c\np\n", "row 3|cells"),
    ("csv-open-quote", "p.csv", b'passage,critique\n"p,c\n', "line 2|not valid CSV|mend the quotes"),
    ("csv-text-behind-quote", "p.csv", b'passage,critique\n"p"x,c\n', "line 2|not valid CSV|mend the quotes"),
    ("unknown-suffix", "p.txt", GOOD, "unknown format '.txt'|.jsonl|.parquet|.gz"),
    ("no-suffix", "pairs", GOOD, "unknown format ''"),
    ("no-parquet", "p.parquet", b"PAR1 and more", "not readable as Parquet"),
    (
        "comments-no-list",
        "p.jsonl",
        b'{"story": "s", "comments": "nice"}',
        "row 1|'comments' is no list|write a list",
    ),
    ("comments-null", "p.jsonl", b'{"story": "s", "comments": null}', "row 1|'comments' is no list"),
    (
        "comment-no-object",
        "p.jsonl",
        b'{"story": "s", "comments": [{"text": "a"}, "b"]}',
        "row 1, comment 2|no 'text'",
    ),
    (
        "comment-no-text",
        "p.jsonl",
        b'{"story": "s", "comments": [{"body": "a"}]}',
        "row 1, comment 1|no 'text'",
    ),
    (
        "comment-number",
        "p.jsonl",
        b'{"story": "s", "comments": [{"text": 5}]}',
        "row 1, comment 1|'text' is of type int",
    ),
    ("story-null", "p.jsonl", b'{"story": null, "comments": []}', "row 1|'story' is null"),
]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [pytest.param(*case[1:], id=case[0]) for case in UNREADABLE],
)
def test_an_error_names_file_row_and_mend(tmp_path: Path, name: str, content: bytes, words: list[str]) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        list(read_pairs(path))
    message = str(caught.value)
    assert [word for word in (str(path), *words.split("|")) if word not in message] == []
    assert "\n" not in message


@pytest.mark.parametrize(("name", "write"), [("p.parquet", write_parquet), ("p", write_dataset)])
def test_a_null_in_a_binary_format_is_named_with_its_row(
    tmp_path: Path, name: str, write: Callable[[Path, Records], None]
) -> None:
    write(tmp_path / name, [RECORDS[0], {**RECORDS[1], "critique": None}])
    with pytest.raises(InputError) as caught:
        list(read_pairs(tmp_path / name))
    assert str(caught.value).startswith(f"{tmp_path / name}, row 2: 'critique' is null")


@pytest.mark.parametrize("name", ["none.jsonl", "no/none.csv", "none", "a/b/none.parquet", "n" * 300 + ".csv"])
def test_a_missing_file_is_named(name: str) -> None:
    with pytest.raises(InputError, match="no such file") as caught:
        list(read_pairs(name))
    assert str(caught.value).startswith(f"{name}: ")


def test_a_hub_data_set_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(InputError, match="nobody/nothing: no such file, and not found as a Hub data set"):
        list(read_pairs("nobody/nothing"))


def test_a_folder_that_datasets_did_not_save_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a folder saved by datasets") as caught:
        list(read_pairs(tmp_path))
    assert str(tmp_path) in str(caught.value)


def test_a_saved_folder_without_the_split_train_names_its_splits(tmp_path: Path) -> None:
    datasets.DatasetDict({"test": datasets.Dataset.from_list(RECORDS)}).save_to_disk(str(tmp_path / "d"))
    with pytest.raises(InputError, match=r"has no split 'train' \(splits: test\)"):
        list(read_pairs(tmp_path / "d"))


# -- the bundled sample ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sample() -> list[Pair]:
    return list(read_pairs("sample"))


def test_the_sample_is_large_enough_for_a_first_training(sample: list[Pair]) -> None:
    assert len(sample) >= 300
    assert len(set(sample)) == len(sample)


def test_passages_of_the_sample_have_60_to_200_words(sample: list[Pair]) -> None:
    lengths = {len(pair.passage.split()) for pair in sample}
    assert min(lengths) >= 60
    assert max(lengths) <= 200


def test_every_passage_of_the_sample_has_two_to_six_critiques(sample: list[Pair]) -> None:
    counts = Counter(pair.passage for pair in sample)
    assert set(counts.values()) <= {2, 3, 4, 5, 6}


def test_every_passage_of_the_sample_belongs_to_one_group(sample: list[Pair]) -> None:
    assert all(pair.group for pair in sample)
    assert len({(pair.passage, pair.group) for pair in sample}) == len({pair.passage for pair in sample})


@pytest.mark.parametrize("review", REVIEWS)
def test_every_review_of_the_paper_occurs_in_the_sample(sample: list[Pair], review: str) -> None:
    assert review in {pair.critique for pair in sample}


@pytest.mark.parametrize("review", REVIEWS)
def test_every_review_has_four_paraphrases_of_its_own(review: str) -> None:
    phrases = bundled_paraphrases()[review]
    assert len(set(phrases)) == 4
    assert review not in phrases
    assert all(phrase == phrase.strip() != "" for phrase in phrases)


def test_paraphrases_are_bundled_for_the_nine_reviews_only_and_never_shared() -> None:
    bundled = bundled_paraphrases()
    assert tuple(bundled) == REVIEWS
    assert len(REVIEWS) == 9
    assert len({phrase for phrases in bundled.values() for phrase in phrases}) == 36


def test_at_least_six_stories_of_some_length_are_bundled() -> None:
    stories = [path.read_text(encoding="utf-8") for path in (files("carp") / "sample" / "stories").iterdir()]
    assert len(stories) >= 6
    assert all(len(story.split()) > 200 for story in stories)
