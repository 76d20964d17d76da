"""Stories out of files: plain text, JSON Lines, standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from carp.data.records import read_records
from carp.errors import InputError

MAX_BYTES = 40_000_000


class Story(NamedTuple):
    """A story and what it is called."""

    story_id: str
    text: str


def read_stories(paths: Sequence[str]) -> list[Story]:
    """Read stories.

    Args:
        paths: text files (one story each), JSON Lines files with ``story_id`` and ``story``, or ``-`` for
            one story from standard input.

    Raises:
        InputError: names the file, the row and the mend.
    """
    return [story for path in paths for story in _read(path)]


def _read(path: str) -> Iterator[Story]:
    if path == "-":
        yield Story("-", decode_text(sys.stdin.buffer.read(MAX_BYTES + 1), "standard input"))
    elif path.removesuffix(".gz").endswith((".jsonl", ".csv", ".parquet")):
        yield from _from_records(path)
    else:
        yield Story(Path(path).stem, read_text(path))


def _from_records(path: str) -> Iterator[Story]:
    row = 0
    for row, (place, record) in enumerate(read_records(path), start=1):
        text = record.get("story")
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{place}: has no text in 'story'; give every record one")
        yield Story(str(record.get("story_id", row)), text)
    if not row:
        raise InputError(f"{path}: holds no records; give it a story")


def read_text(path: str, holds: str = "a story") -> str:
    """The text of a UTF-8 file; ``holds`` says in messages what is expected in it.

    Raises:
        InputError: if there is no such file, or it is empty, too large or no text.
    """
    file = Path(path)
    try:
        if not file.is_file():
            raise InputError(f"{path}: {'a folder; name its files' if file.is_dir() else 'no such file'}")
        with file.open("rb") as stream:
            return decode_text(stream.read(MAX_BYTES + 1), path, holds)
    except OSError as error:
        raise InputError(f"{path}: no such file, or not readable ({error.strerror})") from error


def read_lines(path: str, hold: str) -> list[str]:
    """The lines of a UTF-8 file that are not blank; ``hold`` says in messages what is expected in them."""
    return [line.strip() for line in read_text(path, hold).splitlines() if line.strip()]


def decode_text(data: bytes, name: str, holds: str = "a story") -> str:
    """UTF-8 bytes, with or without a byte order mark, as text."""
    if len(data) > MAX_BYTES:
        raise InputError(f"{name}: larger than {MAX_BYTES // 1_000_000} MB; divide it, e.g. into chapters")
    if b"\0" in data:
        raise InputError(f"{name}: holds NUL bytes, so it is no text file; save {holds} as UTF-8 text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 at byte {error.start}; save {holds} as UTF-8 text") from error
    if not text.strip():
        raise InputError(f"{name}: the file is empty; write {holds} into it")
    return text
