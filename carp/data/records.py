"""Records (dicts) out of JSON Lines, CSV, Parquet, folders of Parquet, saved ``datasets`` folders and Hub data sets.

Every reader yields ``(place, record)``; ``place`` names the file and the row for error messages.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from carp.errors import InputError

Record = dict[str, Any]
Records = Iterator[tuple[str, Record]]


def read_records(source: str | Path) -> Records:
    """Iterate over the records of a file, a saved ``datasets`` folder or a Hub data set.

    Raises:
        InputError: names the file, the row and the mend.
    """
    path = Path(source)
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except OSError as error:  # e.g. a name too long to be one
        raise InputError(f"{source}: no such file ({error.strerror})") from error
    if is_folder:
        yield from _read_dataset_folder(path)
    elif is_file:
        yield from _reader_for(path)(path)
    elif path.suffix or str(source).count("/") != 1:
        raise InputError(f"{source}: no such file")
    else:
        yield from _read_hub(str(source))


def _reader_for(path: Path) -> Callable[[Path], Records]:
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix not in READERS:
        raise InputError(f"{path}: unknown format {suffix!r}; use one of {', '.join(READERS)} (also .gz)")
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty")
    return READERS[suffix]


def open_text(path: Path) -> IO[str]:
    """Open UTF-8 text, gzip-compressed where the name ends in .gz, with or without a byte order mark."""
    opener = gzip.open if path.suffix == ".gz" else open
    return opener(path, "rt", encoding="utf-8-sig", newline="")


def _checked_lines(path: Path) -> Iterator[str]:
    row = 0
    try:
        with open_text(path) as file:
            for line in file:
                row += 1
                yield line
    except UnicodeDecodeError as error:
        # Text is decoded in blocks, ahead of the lines.
        row = _first_undecodable_line(path)
        raise InputError(f"{path}, row {row}: not UTF-8 ({error.reason}); convert the file to UTF-8") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}, after row {row}: the gzip file is damaged ({error}); copy it again") from error


def _first_undecodable_line(path: Path) -> int:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as file:
        for row, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return row
    return 1


def _read_jsonl(path: Path) -> Records:
    for row, line in enumerate(_checked_lines(path), start=1):
        if not line.strip():
            continue
        place = f"{path}, row {row}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:  # also of a number too long, of brackets too deep
            raise InputError(f"{place}: not valid JSON ({error}); write one object per line") from error
        if not isinstance(record, dict):
            raise InputError(f"{place}: expected an object, found {type(record).__name__}")
        yield place, record


def _read_csv(path: Path) -> Records:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    reader = csv.DictReader(_checked_lines(path), strict=True)
    try:
        columns = reader.fieldnames or []
        if len(set(columns)) < len(columns):
            raise InputError(f"{path}: two columns of one name ({', '.join(columns)}); rename one")
        for row, record in enumerate(reader, start=1):
            place = f"{path}, row {row}"
            if None in record or None in record.values():
                raise InputError(f"{place}: not as many cells as the header has columns; quote cells with commas")
            yield place, record
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.reader.line_num}: not valid CSV ({error}); mend the quotes") from error


def _read_parquet(path: Path) -> Records:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        row = 0
        for batch in file.iter_batches(batch_size=1024):
            for record in batch.to_pylist():
                row += 1
                yield f"{path}, row {row}", record
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: not readable as Parquet ({str(error).splitlines()[0]})") from error


def _read_dataset_folder(path: Path) -> Records:
    if shards := sorted(path.glob("*.parquet")):
        for shard in shards:
            yield from _read_parquet(shard)
        return
    import datasets

    try:
        loaded = datasets.load_from_disk(str(path))
    except (FileNotFoundError, ValueError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: not a folder saved by datasets, nor one of Parquet files ({reason})") from error
    yield from _enumerate(_train_split(loaded, str(path)), str(path))


def _read_hub(name: str) -> Records:
    import datasets

    try:
        loaded = datasets.load_dataset(name)
    except (OSError, ValueError, datasets.exceptions.DatasetNotFoundError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{name}: no such file, and not found as a Hub data set ({reason})") from error
    yield from _enumerate(_train_split(loaded, name), name)


def _train_split(loaded: Any, name: str) -> Any:
    if not isinstance(loaded, dict):
        return loaded
    if "train" not in loaded:
        raise InputError(f"{name}: has no split 'train' (splits: {', '.join(loaded)})")
    return loaded["train"]


def _enumerate(dataset: Any, name: str) -> Records:
    for row, record in enumerate(dataset, start=1):
        yield f"{name}, row {row}", record


READERS: dict[str, Callable[[Path], Records]] = {
    ".jsonl": _read_jsonl,
    ".json": _read_jsonl,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}


def label(record: Record, field: str) -> str | None:
    """What a field says, whatever its type; ``None`` where it is empty or missing."""
    value = record.get(field)
    return None if value in (None, "") else str(value)
