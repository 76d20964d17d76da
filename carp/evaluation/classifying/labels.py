"""Texts with labels out of a file: what classifiers are measured on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carp.data.records import Record, read_records
from carp.errors import InputError
from carp.evaluation.evaluators import Floats, sha256

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Labelled:
    """``n`` texts; those of one group (a story, a paragraph) are no independent cases."""

    source: str
    sha256: str
    texts: list[str]
    group: Integers  # [n], 0 .. groups - 1
    labels: dict[str, Floats]  # label -> [n]: 1, 0, or NaN for a text that the label says nothing of


def read_labels(path: str) -> Labelled:
    """Read texts with labels.

    Args:
        path: JSON Lines (or Parquet) with ``text``, ``labels`` (an object: label -> 1, 0 or null) and ``group``. Where
            no row has a group, equal texts are one.

    Raises:
        InputError: names the file, the row, the field and the mend.
    """
    rows = list(read_records(path))
    if not rows:
        raise InputError(f"{path}: holds no records; give it a text with labels")
    texts = [_text(place, record) for place, record in rows]
    groups = _groups(rows, texts)
    given = [_labels(place, record) for place, record in rows]
    names = dict.fromkeys(name for labels in given for name in labels)
    every = {name: np.array([labels.get(name, math.nan) for labels in given]) for name in names}
    columns = {name: column for name, column in every.items() if not np.isnan(column).all()}
    if not any({0.0, 1.0} <= set(column) for column in columns.values()):
        raise InputError(f"{path}: no label is 1 for one text and 0 for another; give both")
    place_of = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    return Labelled(path, sha256(path), texts, np.array([place_of[group] for group in groups]), columns)


def _text(place: str, record: Record) -> str:
    text = record.get("text")
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{place}: has no text in 'text'; write it there, or remove the row")
    return text


def _groups(rows: Sequence[tuple[str, Record]], texts: Sequence[str]) -> list[str]:
    given = [record.get("group") for _, record in rows]
    if all(group is None for group in given):
        return list(texts)
    for (place, _), group in zip(rows, given, strict=True):
        if not isinstance(group, (str, int)) or not str(group).strip():
            raise InputError(f"{place}: has no 'group', but other rows have one; give every text a group, or none")
    return [str(group) for group in given]


def _labels(place: str, record: Record) -> dict[str, float]:
    labels = record.get("labels")
    if not isinstance(labels, dict) or not labels:
        raise InputError(f"{place}: has no labels; write an object in 'labels', e.g. {{\"Cliche\": 1}}")
    return {str(name): _value(place, str(name), value) for name, value in labels.items()}


def _value(place: str, name: str, value: object) -> float:
    if value is None:
        return math.nan
    if not isinstance(value, (bool, int, float)) or value not in (0, 1):
        raise InputError(f"{place}: label {name!r} is {value!r}; write 1, 0, or null where it is not known")
    return float(value)
