"""From parts to shards: duplicates, the split, the order, the lists for people to look at."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from carp.data.preparation.duplicates import drop_near_duplicates
from carp.data.preparation.options import PreparationOptions
from carp.data.preparation.parts import Part, read_part
from carp.data.tokenized import split_rows
from carp.files import written_file

SPOT_CHECKS = 200  # rows; "Manual spot-checks of 200 replacements" (CARP, section 2.2.2)
COLUMNS = ("passage", "critique", "group", "alignment", "aspect", "source", "topic", "critique_words")

Rows = NDArray[np.int64]


def merge(work: Path, out: Path, options: PreparationOptions, salt: str, progress: bool = False) -> Counter[str]:
    """Write the shards and lists of all parts in ``work``; returns the counts by step.

    ``salt`` keeps the groups, which are hashes of stories, from being guessed.

    Raises:
        InputError: if there are too few pairs for ``options.validation_pairs``.
    """
    parts = [read_part(path) for path in sorted(work.glob("part-*.arrow"))]
    pairs = pa.concat_tables([part.pairs for part in parts])
    counts: Counter[str] = sum((part.about["counts"] for part in parts), Counter())
    units, order, repeats = (pairs[name].to_numpy() for name in ("unit", "order", "repeat"))
    kept = np.sort(np.unique(order, return_index=True)[1])  # the first of equal pairs
    counts["dropped: duplicate"] = len(order) - len(kept)
    if options.near_duplicates:
        different = drop_near_duplicates(pairs, kept, options.near_duplicates, progress)
        counts["dropped: near duplicate"] = len(kept) - len(different)
        kept = different
    training, validation = _split(units, repeats, kept, options.validation_pairs)
    counts["dropped: left over between training and validation"] = len(kept) - len(training) - len(validation)
    for name, rows in (("train", training), ("validation", validation)):
        counts[f"{name} pairs"] = len(rows)
        counts[f"{name} stories"] = len(np.unique(units[rows]))
        for found in pairs["source"].take(pa.array(rows)).value_counts().to_pylist():
            counts[f"{name} pairs of {found['values'] or 'no named source'}"] = found["counts"]
        _write_shards(pairs, rows[order[rows].argsort(kind="stable")], out / name, options.pairs_per_shard, salt)
    _write_lists(parts, out)
    return counts


def _split(units: Rows, repeats: Rows, kept: Rows, validation_pairs: int) -> tuple[Rows, Rows]:
    """Rows for training and validation: whole stories, and no passage on both sides."""
    if not validation_pairs:
        return kept, kept[:0]
    training, validation = (kept[rows] for rows in split_rows(units[kept], validation_pairs))
    return training[~np.isin(repeats[training], repeats[validation])], validation


def _write_shards(pairs: pa.Table, rows: Rows, folder: Path, pairs_per_shard: int, salt: str) -> None:
    folder.mkdir(exist_ok=True)
    for number, start in enumerate(range(0, len(rows), pairs_per_shard)):
        target = folder / f"{number:05d}.parquet"
        if not target.exists():
            taken = pairs.take(pa.array(rows[start : start + pairs_per_shard]))
            with written_file(target) as draft:
                pq.write_table(_published(taken, salt), draft, compression="zstd")


def _published(pairs: pa.Table, salt: str) -> pa.Table:
    """What is written: a salted hash of the story as ``group``, no hash of its own for pair or passage."""
    groups = [
        hashlib.blake2b(str(unit).encode(), digest_size=8, key=salt.encode()).hexdigest()
        for unit in pairs["unit"].to_pylist()
    ]
    words = [len(text.split()) for text in pairs["critique"].to_pylist()]
    return (
        pairs.append_column("group", pa.array(groups))
        .append_column("critique_words", pa.array(words, pa.int32()))
        .select(COLUMNS)
    )


def _write_lists(parts: Sequence[Part], out: Path) -> None:
    with written_file(out / "rejected.jsonl") as draft, draft.open("w", encoding="utf-8") as file:
        for part in parts:
            for rejected in part.about["rejected"]:
                file.write(json.dumps(rejected, ensure_ascii=False) + "\n")
    suspects = [suspect for part in parts for suspect in part.about["suspects"]]
    # Evenly spread over the stories; each word once, or one name would fill the list.
    different = list({suspect["word"]: suspect for suspect in suspects}.values())
    chosen = different[:: max(1, len(different) // SPOT_CHECKS)][:SPOT_CHECKS]
    with written_file(out / "spot_check.csv") as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["word", "context"])
        writer.writerows([suspect["word"], suspect["context"]] for suspect in chosen)
