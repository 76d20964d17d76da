"""The pairs of a data set, part by part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from carp.data.pairs import Pair, pairs_path, read_pairs
from carp.errors import InputError

PARTS = ("train", "validation")
ALL = "all"


def read_parts(source: str | Path) -> Iterator[tuple[str, Pair]]:
    """Iterate over ``(part, pair)``; part is ``train`` or ``validation`` in a prepared folder, else ``all``.

    A prepared folder holds ``train/*.parquet`` and ``validation/*.parquet`` (one of the two is enough).

    Raises:
        InputError: names the file, the row, the field and the mend.
    """
    shards = part_shards(source)
    if not shards:
        yield from ((ALL, pair) for pair in read_pairs(source))
    for part, shard in shards:
        yield from ((part, pair) for pair in read_pairs(shard))


def part_shards(source: str | Path) -> list[tuple[str, Path]]:
    """The Parquet files of a prepared folder with their parts, in order; none for any other source."""
    folder = Path(source)
    return [(part, shard) for part in PARTS for shard in sorted((folder / part).glob("*.parquet"))]


def check_source(source: str | Path) -> None:
    """Read the first pair of a source, before any model is loaded.

    Raises:
        InputError: says what a folder of pairs looks like, what is wrong with the file, or that there are no pairs.
    """
    folder = Path(pairs_path(source))
    saved = any((folder / name).exists() for name in ("dataset_dict.json", "dataset_info.json", "state.json"))
    if folder.is_dir() and not saved and not part_shards(source):
        raise InputError(f"{source}: holds no train/*.parquet or validation/*.parquet, nor a saved datasets folder")
    if next(read_parts(source), None) is None:  # raw records, none of them with comments
        raise InputError(f"{source}: holds no pairs; its records have no comments")


def source_names(sources: list[str]) -> list[str]:
    """Short names for tables: the file names, or the whole sources where those are equal."""
    names = [Path(source).name.split(".")[0] or source for source in sources]
    return names if len(set(names)) == len(names) else sources
