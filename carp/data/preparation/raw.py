"""Raw stories with comments: reading them so that a bad record costs only itself."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from carp.data.preparation.story import Span
from carp.data.records import READERS, label, read_records
from carp.errors import InputError

LINES = (".jsonl", ".json")


class Comment(NamedTuple):
    """A comment on a story; ``offsets`` are the characters that it is about, ``aspect`` its type, where known."""

    text: str
    offsets: Span | None
    aspect: str | None


class RawStory(NamedTuple):
    """A story with its comments; where known, ``source`` says where it is from and ``topic`` what it is like."""

    text: str
    comments: list[Comment]
    source: str
    topic: str | None


class Rejected(NamedTuple):
    """A record, or a comment of one, that cannot be used."""

    file: str
    row: int
    reason: str


class RawRecord(NamedTuple):
    """A record that is not parsed yet: a line of JSON, or what another format holds."""

    file: str
    row: int
    content: bytes | dict[str, Any]


def check_files(paths: Sequence[Path]) -> None:
    """Make sure that all files can be read, before any work.

    Raises:
        InputError: names the file and the mend.
    """
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path}: no such file")
        if Path(path.name.removesuffix(".gz")).suffix.lower() not in READERS:
            raise InputError(f"{path}: unknown format; use one of {', '.join(READERS)} (also .gz)")
        if next(read_raw([path]), None) is None:
            raise InputError(f"{path}: holds no records")


def read_raw(paths: Sequence[Path]) -> Iterator[RawRecord]:
    """All records of the files, in their order.

    Raises:
        InputError: names a file that is damaged, and where.
    """
    for path in paths:
        if Path(path.name.removesuffix(".gz")).suffix.lower() in LINES:
            yield from _lines(path)
        else:
            for row, (_, record) in enumerate(read_records(path), start=1):
                yield RawRecord(str(path), row, record)


def _lines(path: Path) -> Iterator[RawRecord]:
    row = 0
    try:
        with _open_bytes(path) as file:
            for row, line in enumerate(file, start=1):
                if line.strip():
                    yield RawRecord(str(path), row, line)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}, after row {row}: the gzip file is damaged ({error}); copy it again") from error


def _open_bytes(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def digest_and_count(paths: Sequence[Path]) -> tuple[str, int]:
    """A hash of what the files hold, and the number of their records."""
    digest, count = hashlib.sha256(), 0
    for record in read_raw(paths):
        content = record.content if isinstance(record.content, bytes) else json.dumps(record.content).encode()
        digest.update(content)
        count += 1
    return digest.hexdigest(), count


def parse_story(record: RawRecord) -> tuple[RawStory | None, list[Rejected]]:
    """The story of a record, and what of the record cannot be used.

    Pairs are taken too: the passage is a story with one comment.
    """
    try:
        content = _parsed(record.content)
        story = _string(content, "story" if "story" in content else "passage")
        given = content.get("comments", [{"text": content.get("critique")}])
        if not isinstance(given, list):
            raise ValueError("'comments' is no list; write a list of objects with a 'text'")
    except ValueError as error:
        return None, [Rejected(record.file, record.row, str(error))]
    comments, rejected = [], []
    for number, comment in enumerate(given, start=1):
        try:
            comments.append(_comment(comment, len(story)))
        except ValueError as error:
            rejected.append(Rejected(record.file, record.row, f"comment {number}: {error}"))
    return RawStory(story, comments, str(content.get("source") or ""), label(content, "topic")), rejected


def _parsed(content: bytes | dict[str, Any]) -> dict[str, Any]:
    if isinstance(content, dict):
        return content
    try:
        found = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 ({error.reason})") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not valid JSON ({error})") from error
    if not isinstance(found, dict):
        raise ValueError(f"expected an object, found {type(found).__name__}")
    return found


def _comment(comment: Any, length: int) -> Comment:
    if not isinstance(comment, dict):
        raise ValueError(f"expected an object with a 'text', found {type(comment).__name__}")
    aspect = comment.get("aspect")
    return Comment(_string(comment, "text"), _offsets(comment, length), None if aspect is None else str(aspect))


def _offsets(comment: dict[str, Any], length: int) -> Span | None:
    start, end = comment.get("start"), comment.get("end")
    if start is None and end is None:
        return None
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= length:
        raise ValueError(f"'start' and 'end' are {start!r} and {end!r}; give offsets within the story ({length})")
    return Span(start, end)


def _string(record: dict[str, Any], field: str) -> str:
    value = record.get(field)
    if not isinstance(value, str):
        raise ValueError(f"{field!r} is of type {type(value).__name__}; write a string")
    if not value.strip():
        raise ValueError(f"{field!r} is empty")
    return value.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate cannot be encoded
