"""A table in Markdown, LaTeX and CSV, and how numbers are written in them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from carp.data.report.markdown import escape
from carp.evaluation.ratings.intervals import Interval

ABSENT = "–"
LATEX = {mark: f"\\{mark}" for mark in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    "<": "$<$",
    ">": "$>$",
    "κ": r"$\kappa$",
    "α": r"$\alpha$",
    "τ": r"$\tau$",
}


@dataclass(frozen=True)
class Cell:
    """A cell; ``bold`` marks the best of a column."""

    text: str
    bold: bool = False


@dataclass(frozen=True)
class Table:
    """A table to be read (``head``, ``rows``) with the same numbers, and more, to be computed with (``records``)."""

    name: str  # of its files
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    records: Sequence[Mapping[str, Any]] = field(default_factory=list)
    names: int = 1  # columns of names, on the left; all others hold numbers


def markdown(table: Table) -> str:
    """The table in Markdown: names to the left, numbers to the right."""
    head = [escape(name) for name in table.head]
    rule = ["---"] * table.names + ["---:"] * (len(table.head) - table.names)
    rows = [
        [f"**{text}**" if cell.bold else text for cell, text in zip(row, _escaped(row, table.names), strict=True)]
        for row in table.rows
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, rule, *rows]) + "\n"


def _escaped(row: Sequence[Cell], names: int) -> list[str]:
    return [escape(cell.text) if i < names else cell.text for i, cell in enumerate(row)]


def latex(table: Table) -> str:
    """The table in LaTeX, for the package booktabs."""
    rows = [[rf"\textbf{{{_tex(cell.text)}}}" if cell.bold else _tex(cell.text) for cell in row] for row in table.rows]
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_tex(table.caption)}}}",
            rf"\begin{{tabular}}{{{'l' * table.names}{'r' * (len(table.head) - table.names)}}}",
            r"\toprule",
            " & ".join(map(_tex, table.head)) + r" \\",
            r"\midrule",
            *("{}" + " & ".join(row) + r" \\" for row in rows),  # {}: a name may begin with [, which \\ would take
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def comma_separated(table: Table) -> str:
    """The records as CSV, numbers in full; an interval becomes two columns, ``None`` an empty cell."""
    rows = [_flat(record) for record in table.records]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in record.items():
        if key in ("interval", "bootstrap", "asymptotic"):
            flat[f"{key}_low"], flat[f"{key}_high"] = value or (None, None)
        else:
            flat[key] = value
    return flat


def _tex(text: str) -> str:
    return "".join(LATEX.get(mark, mark) for mark in text)


def number(value: float | None, decimals: int = 2) -> str:
    """``0.48``"""
    if value is None:
        return ABSENT
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def bounds(interval: Interval | None, decimals: int = 2) -> str:
    """``[0.43, 0.54]``"""
    return f"[{number(interval[0], decimals)}, {number(interval[1], decimals)}]" if interval else ABSENT


def with_interval(value: float | None, interval: Interval | None, decimals: int = 2) -> str:
    """``0.48 [0.43, 0.54]``"""
    return number(value, decimals) + (f" {bounds(interval, decimals)}" if interval else "")


def plus_minus(mean: float | None, std: float | None, decimals: int = 1) -> str:
    """``8.7 ± 0.8``"""
    return number(mean, decimals) + ("" if std is None else f" ± {number(std, decimals)}")


def p_value(p: float | None) -> str:
    """``0.00031``: two digits that count, not beneath 0.00001."""
    if p is None:
        return ABSENT
    if p < 1e-5:
        return "< 0.00001"
    return f"{p:.5f}" if p < 0.001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}"
