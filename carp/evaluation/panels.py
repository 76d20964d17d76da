"""Many estimates in one picture: a panel for each score, a row for each thing that it is held against."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from carp.evaluation.ratings.intervals import Interval

Point = tuple[float, Interval | None]
COLUMNS = 6  # panels side by side
LONGEST = 34  # characters of a name
BEYOND, CHANCE = "#4477AA", "#999999"


def draw_panels(
    panels: Mapping[str, Mapping[str, Point]], rows: Sequence[str], reference: float, label: str, target: Path
) -> None:
    """Draw values with their intervals as a PNG file; grey where an interval holds the reference.

    Args:
        panels: title -> row -> value and interval; a row may be missing.
        rows: from top to bottom.
        reference: where a line stands: the value of chance.
        label: of the axis.
        target: the file.
    """
    from matplotlib.figure import Figure

    lines = -(-len(panels) // COLUMNS)
    columns = -(-len(panels) // lines)
    size = (3.0 + 2.1 * columns, lines * (1.3 + 0.3 * len(rows)))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axis, (title, points) in zip(axes, panels.items(), strict=False):
        _panel(axis, points, rows, reference)
        axis.set_title(_plain(textwrap.fill(title, 22)), fontsize="small")
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    axes[0].set_yticks(
        range(len(rows)), [_plain(row if len(row) <= LONGEST else f"{row[: LONGEST - 1]}…") for row in rows]
    )
    axes[0].invert_yaxis()
    figure.supxlabel(label, fontsize="small")
    figure.savefig(target, dpi=150, format="png")


def _panel(axis: Any, points: Mapping[str, Point], rows: Sequence[str], reference: float) -> None:
    axis.axvline(reference, color="black", linewidth=0.8)
    for place, row in enumerate(rows):
        if row not in points:
            continue
        value, interval = points[row]
        holds = interval is None or interval[0] <= reference <= interval[1]
        colour = CHANCE if holds else BEYOND
        axis.plot([value], [place], "o", color=colour, markersize=4.5)
        if interval:
            axis.plot(interval, [place, place], color=colour, linewidth=1.6)
    axis.grid(axis="x", alpha=0.3)
    axis.tick_params(labelbottom=True)
    axis.spines[["top", "right"]].set_visible(False)


def _plain(text: str) -> str:
    return text.replace("$", r"\$")  # no formula
