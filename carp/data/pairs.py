"""Story-critique pairs out of records of every known shape."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from carp.data.records import Record, label, read_records
from carp.errors import InputError

SAMPLE = Path(str(files("carp") / "sample" / "pairs.jsonl"))
# The design's names first, then those of the paper's own code.
PASSAGE_COLUMNS = ("passage", "story_target")
CRITIQUE_COLUMNS = ("critique", "target_comment")


class Pair(NamedTuple):
    """A passage and a critique of it.

    Attributes:
        group: pairs of one are not each other's negatives.
        topic: pairs of one come in the same batches, as each other's hard negatives.
    """

    passage: str
    critique: str
    group: str | None = None
    topic: str | None = None


def pairs_path(source: str | Path) -> str | Path:
    """``sample`` stands for the bundled pairs."""
    return SAMPLE if str(source) == "sample" else source


def prepared_parts(source: str) -> tuple[str, str] | None:
    """The folders of training and of validation pairs, where ``carp prepare`` has written the data set."""
    parts = (Path(source) / "train", Path(source) / "validation")
    return (str(parts[0]), str(parts[1])) if all(part.is_dir() for part in parts) else None


def read_pairs(source: str | Path) -> Iterator[Pair]:
    """Iterate over the pairs of a data set.

    Pairs have the columns ``passage``, ``critique`` and optionally ``group`` and ``topic``. Raw records
    (``story_id``, ``story``, ``comments``) give one pair per comment, grouped by story.

    Raises:
        InputError: names the file, the row, the field and the mend.
    """
    found = False
    for place, record in read_records(pairs_path(source)):
        found = True
        if "story" in record and "comments" in record:
            yield from _raw_pairs(record, place)
        else:
            yield _pair(record, place)
    if not found:
        raise InputError(f"{source}: holds no records")


def _pair(record: Record, place: str) -> Pair:
    passage = _text(record, _column(record, PASSAGE_COLUMNS, place), place)
    critique = _text(record, _column(record, CRITIQUE_COLUMNS, place), place)
    return Pair(passage, critique, label(record, "group"), label(record, "topic"))


def _raw_pairs(record: Record, place: str) -> Iterator[Pair]:
    story = _text(record, "story", place)
    if not isinstance(record["comments"], list):
        raise InputError(f"{place}: 'comments' is no list; write a list of objects with a 'text'")
    group, topic = label(record, "story_id") or place, label(record, "topic")
    for number, comment in enumerate(record["comments"], start=1):
        where = f"{place}, comment {number}"
        if not isinstance(comment, dict) or "text" not in comment:
            raise InputError(f"{where}: has no 'text'")
        yield Pair(story, _text(comment, "text", where), group, topic)


def _column(record: Record, names: tuple[str, ...], place: str) -> str:
    for name in names:
        if name in record:
            return name
    columns = ", ".join(map(str, record)) or "none"
    raise InputError(f"{place}: no column {names[0]!r} (columns: {columns}); rename the column that holds it")


def _text(record: Record, column: str, place: str) -> str:
    value = record[column]
    if value is None:
        raise InputError(f"{place}: {column!r} is null; fill it in or remove the row")
    if not isinstance(value, str):
        raise InputError(f"{place}: {column!r} is of type {type(value).__name__}; write a string")
    # A lone surrogate (half an emoji cut by some exporter) cannot be encoded and says nothing.
    return value.encode("utf-8", "replace").decode("utf-8")
