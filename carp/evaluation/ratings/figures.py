"""Box plots with means, one box per system, as in figures 1 to 14 of "A Confederacy of Models"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from carp.evaluation.ratings.summaries import rows_of, scores, systems
from carp.evaluation.ratings.table import Floats, Ratings

SHOWN_NAME = 28  # characters
NOTE = "box: quartiles; whiskers: 1.5 IQR; ring: outlier; red dot: mean"


def figure_names(names: Sequence[str]) -> dict[str, str]:
    """A file name for each scale, all different: ``item_1`` -> ``item_1.png``."""
    found: dict[str, str] = {}
    for name in names:
        stem = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._") or "scale"
        taken = {file.lower() for file in found.values()}
        number = 2
        file = f"{stem}.png"
        while file.lower() in taken:
            file, number = f"{stem}_{number}.png", number + 1
        found[name] = file
    return found


def draw_figures(ratings: Ratings, folder: Path) -> dict[str, str]:
    """Draw the overall score and every scale, systems from the best mean overall score to the worst.

    The scales share their limits. Returns the name of the file of each.
    """
    columns = scores(ratings)
    files = figure_names(list(columns))
    shared = _limits(np.concatenate(list(ratings.values.values())))
    for name, column in columns.items():
        limits = shared if name in ratings.values else _limits(column)
        _draw(ratings, name, column, limits, folder / files[name])
    return files


def _limits(values: Floats) -> tuple[float, float]:
    if np.isnan(values).all():
        return 0.0, 1.0
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    margin = 0.04 * (high - low) or 0.5
    return low - margin, high + margin


def _draw(ratings: Ratings, name: str, column: Floats, limits: tuple[float, float], target: Path) -> None:
    from matplotlib.figure import Figure

    names = systems(ratings)
    boxes = [column[rows_of(ratings, system)] for system in names]
    boxes = [values[~np.isnan(values)] for values in boxes]
    figure = Figure(figsize=(max(4.0, 1.6 + 0.62 * len(names)), 4.8), layout="constrained")
    axis = figure.subplots()
    axis.boxplot(
        boxes,
        widths=0.6,
        whis=1.5,
        showmeans=True,
        patch_artist=True,
        boxprops={"facecolor": "#DCE6F0", "edgecolor": "#33475B"},
        whiskerprops={"color": "#33475B"},
        capprops={"color": "#33475B"},
        medianprops={"color": "black", "linewidth": 1.6},
        flierprops={"marker": "o", "markersize": 5, "markerfacecolor": "none", "markeredgecolor": "#33475B"},
        meanprops={"marker": "o", "markersize": 6, "markerfacecolor": "red", "markeredgecolor": "red"},
    )
    counts = {len(values) for values in boxes}
    labels = [_plain(name) for name in names]
    if len(counts) > 1:
        labels = [f"{label} ({len(values)})" for label, values in zip(labels, boxes, strict=True)]
    axis.set_xticks(range(1, len(names) + 1), labels, rotation=40, ha="right", rotation_mode="anchor")
    axis.set_xlim(0, len(names) + 1)
    axis.set_ylim(*limits)
    axis.set_ylabel("rating" if name in ratings.values else "overall score")
    axis.set_title(_plain(name), fontsize="medium")
    axis.grid(axis="y", alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    n = "(n): ratings" if len(counts) > 1 else f"ratings of each: {counts.pop()}"
    order = "by mean overall score; " if len(names) > 1 else ""
    figure.supxlabel(f"{order}{n}\n{NOTE}", fontsize="small")
    figure.savefig(target, dpi=150, format="png")


def _plain(name: str) -> str:
    short = name if len(name) <= SHOWN_NAME else f"{name[: SHOWN_NAME - 1]}…"
    return short.replace("$", r"\$")  # no formula
