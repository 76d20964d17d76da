"""Parts: what one task has made, in one file."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from carp.data.preparation.steps import TaskResult
from carp.files import written_file

# Large strings, so that parts can be joined beyond 2 GB of text.
SCHEMA = pa.schema(
    [
        ("passage", pa.large_string()),
        ("critique", pa.large_string()),
        ("alignment", pa.large_string()),
        ("aspect", pa.large_string()),
        ("source", pa.large_string()),
        ("topic", pa.large_string()),
        ("unit", pa.int64()),
        ("order", pa.int64()),
        ("repeat", pa.int64()),
    ]
)


class Part(NamedTuple):
    """A part that was read back.

    Attributes:
        pairs: a memory-mapped table with the columns of ``SCHEMA``.
        about: ``rejected``, ``suspects`` (both lists of objects) and ``counts``.
    """

    pairs: pa.Table
    about: dict[str, Any]


def write_part(target: Path, result: TaskResult) -> None:
    """Write a task's result; it appears whole or not at all."""
    about = {
        "rejected": [rejected._asdict() for rejected in result.rejected],
        "suspects": [suspect._asdict() for suspect in result.suspects],
        "counts": dict(sorted(result.counts.items())),
    }
    schema = SCHEMA.with_metadata({"about": json.dumps(about)})
    columns = zip(*result.pairs, strict=True) if result.pairs else [[] for _ in SCHEMA]
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    with (
        written_file(target) as draft,
        pa.OSFile(str(draft), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        writer.write_batch(pa.record_batch(arrays, schema=schema))


def read_part(path: Path) -> Part:
    """Read what :func:`write_part` has written."""
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
    about = json.loads(table.schema.metadata[b"about"])
    about["counts"] = Counter(about["counts"])
    return Part(table.replace_schema_metadata(None), about)
