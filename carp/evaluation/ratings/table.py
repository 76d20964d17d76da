"""Ratings out of a file: one row per story and rater, one column per scale."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carp.data.records import Record, read_records
from carp.errors import InputError
from carp.evaluation.ratings.columns import MEAN, Columns, Wanted, choose_columns

MISSING = ("", "na", "n/a", "nan")  # in lower case
DETECTED = Wanted()
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Ratings:
    """n ratings; ``story``, ``rater``, ``system`` and ``group`` hold indices into the lists of names.

    Raters are in natural order (r2 before r10). NaN stands for a missing rating.
    """

    source: str
    sha256: str
    columns: Columns
    stories: list[str]
    raters: list[str]
    systems: list[str]  # empty without a column for them
    groups: list[str]
    story: Integers  # [n]
    rater: Integers  # [n]
    system: Integers  # [n]; zeros without a column
    group: Integers  # [n]
    values: dict[str, Floats]  # scale: [n]
    overall: Floats  # [n]

    @property
    def overall_name(self) -> str:
        """``overall``; the scale's own name where there is but one scale and no other overall score."""
        return self.columns.scales[0] if self.single else "overall"

    @property
    def single(self) -> bool:
        """Is the only scale the overall score, too?"""
        return len(self.columns.scales) == 1 and not self.columns.overall_is_column


def read_ratings(source: str | Path, wanted: Wanted = DETECTED, limits: tuple[float, float] | None = None) -> Ratings:
    """Read and check ratings.

    Args:
        source: CSV, JSON Lines or Parquet. An empty cell, NA or NaN is a missing rating.
        wanted: the columns, where their names do not tell.
        limits: the lowest and the highest rating that the scales allow; the overall score is not held to them.

    Raises:
        InputError: names the file, the row, the column and the mend.
    """
    if not Path(source).is_file():
        raise InputError(f"{source}: no such file")
    rows = list(read_records(source))
    if not rows:
        raise InputError(f"{source}: holds no ratings")
    columns = choose_columns(list(rows[0][1]), wanted, str(source))
    values = {name: np.array([_number(*row, name, limits) for row in rows]) for name in columns.scales}
    names = {part: [_name(*row, getattr(columns, part)) for row in rows] for part in ("story", "rater")}
    _check_unique(rows, list(zip(names["story"], names["rater"], strict=True)))
    for part in ("system", "group"):
        column = getattr(columns, part)
        names[part] = [_name(*row, column) for row in rows] if column else []
        _check_constant(rows, names["story"], names[part], part)
    found = {part: _indexed(column, len(rows), natural=part in ("rater", "group")) for part, column in names.items()}
    return Ratings(
        source=str(source),
        sha256=hashlib.sha256(Path(source).read_bytes()).hexdigest(),
        columns=columns,
        stories=found["story"][0],
        raters=found["rater"][0],
        systems=found["system"][0],
        groups=found["group"][0],
        story=found["story"][1],
        rater=found["rater"][1],
        system=found["system"][1],
        group=found["group"][1],
        values=values,
        overall=_overall(rows, columns, values),
    )


def _overall(rows: Sequence[tuple[str, Record]], columns: Columns, values: Mapping[str, Floats]) -> Floats:
    if columns.overall_is_column:
        return np.array([_number(*row, columns.overall, None) for row in rows])
    scales = np.stack(list(values.values()))  # a missing rating leaves no overall score
    return np.asarray(scales.mean(0) if columns.overall == MEAN else scales.sum(0))


def _number(place: str, record: Record, column: str, limits: tuple[float, float] | None) -> float:
    cell = record.get(column)
    text = "" if cell is None else str(cell).strip()
    if text.lower() in MISSING:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        mend = "write a number or leave the cell empty; if the column is no scale, name the scales with --scales"
        raise InputError(f"{place}, column '{column}': {text[:40]!r} is not a number; {mend}")
    if limits and not limits[0] <= value <= limits[1]:
        low, high = limits
        raise InputError(
            f"{place}, column '{column}': {value:g} lies outside --range {low:g} {high:g}; mend one of them"
        )
    return value


def _name(place: str, record: Record, column: str) -> str:
    cell = record.get(column)
    text = "" if cell is None else str(cell).strip()
    if not text:
        raise InputError(f"{place}, column '{column}': empty; fill it in or leave the row out")
    return text


def _check_unique(rows: Sequence[tuple[str, Record]], keys: Sequence[tuple[str, str]]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for (place, _), key in zip(rows, keys, strict=True):
        if key in seen:
            story, rater = key
            raise InputError(
                f"{place}: rater '{rater}' rates story '{story}' as in {_row(seen[key])}; keep one of them"
            )
        seen[key] = place


def _check_constant(rows: Sequence[tuple[str, Any]], stories: Sequence[str], names: Sequence[str], part: str) -> None:
    seen: dict[str, tuple[str, str]] = {}
    for (place, _), story, name in zip(rows, stories, names, strict=False):  # no names without a column
        first, before = seen.setdefault(story, (name, place))
        if first != name:
            raise InputError(
                f"{place}: story '{story}' has the {part} '{name}', but '{first}' in {_row(before)}; "
                f"mend one of them, or give --{part} none"
            )


def _row(place: str) -> str:
    return place.rsplit(", ", 1)[-1]


def _indexed(names: Sequence[str], n: int, natural: bool) -> tuple[list[str], Integers]:
    if not names:
        return [], np.zeros(n, np.int64)
    distinct = sorted(set(names), key=_natural_key) if natural else list(dict.fromkeys(names))
    index = {name: i for i, name in enumerate(distinct)}
    return distinct, np.array([index[name] for name in names])


def _natural_key(name: str) -> list[tuple[int, int, str]]:
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]
