"""Tables and numbers in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from carp.data.report.statistics import Lengths, Share

if TYPE_CHECKING:
    from carp.data.report.report import DataSet

ABSENT = "–"
Row = tuple[str, Callable[["DataSet"], str]]


def table(data_sets: Sequence[DataSet], rows: Sequence[Row]) -> str:
    """A Markdown table with one column per data set."""
    head = ["", *(escape(data.name) for data in data_sets)]
    lines = [head, ["---", *["---:"] * len(data_sets)]]
    lines += [[label, *(cell(data) for data in data_sets)] for label, cell in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def escape(text: str) -> str:
    """Text that Markdown and HTML take as it stands, on one line."""
    marks = "\\`*_[]<>|#~$!"
    return "".join(f"\\{mark}" if mark in marks else mark for mark in " ".join(text.split()).replace("&", "&amp;"))


def percent(found: Share) -> str:
    """``12.3 % [11.0, 13.7], n = 2,000``"""
    if found.share is None or found.interval is None:
        return ABSENT
    low, high = (100 * value for value in found.interval)
    return f"{100 * found.share:.1f} % [{low:.1f}, {high:.1f}], n = {found.n:,}"


def five_numbers(found: Lengths | None) -> str:
    """``median (quartiles), mean, longest``"""
    if found is None:
        return ABSENT
    return f"{found.median:g} ({found.q1:g}–{found.q3:g}), {found.mean:.1f}, {found.maximum:,}"


def mean(found: Lengths | None) -> str:
    """``45.2 [44.0, 46.4], n = 2,000``"""
    if found is None:
        return ABSENT
    return f"{found.mean:.1f} [{found.mean_interval[0]:.1f}, {found.mean_interval[1]:.1f}], n = {found.n:,}"


def bare_percent(found: Share) -> str:
    """``12.3 %``"""
    return ABSENT if found.share is None else f"{100 * found.share:.1f} %"
