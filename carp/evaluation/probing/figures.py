"""Pictures of a probe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from carp.evaluation.probing.measuring import Probed

TRAINED, HELD_OUT = "#4477AA", "#EE7733"


def draw_rises(kinds: Sequence[Probed], target: Path) -> None:
    """Draw the rise of the fitting remarks, with intervals, as a PNG file: a row for each kind of damage."""
    from matplotlib.figure import Figure

    shown = [(found, found.rise.value) for found in kinds if found.rise.value is not None]
    figure = Figure(figsize=(7.5, 0.6 + 0.36 * len(shown)), layout="constrained")
    axis = figure.subplots()
    axis.axvline(0, color="black", linewidth=0.8)
    for place, (found, value) in enumerate(shown):
        colour = HELD_OUT if found.kind.held_out else TRAINED
        axis.plot([value], [place], "o", color=colour)
        if found.rise.interval:
            axis.plot(found.rise.interval, [place, place], color=colour, linewidth=2)
    axis.set_yticks(range(len(shown)), [found.kind.title for found, _ in shown])
    axis.invert_yaxis()
    axis.grid(axis="x", alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_xlabel(
        "rise of the fitting remarks above the others, in standard deviations\n"
        "(95 % intervals; orange: never trained on)"
    )
    figure.savefig(target, dpi=150, format="png")


def draw_matrix(kinds: Sequence[Probed], target: Path) -> None:
    """Draw which remarks rise with which damage as a PNG file: the diagonal should stand out."""
    from matplotlib.figure import Figure

    shown = [found for found in kinds if found.rises]
    names = [found.kind.name for found in shown]
    rises = np.array([[found.rises[name] for name in names] for found in shown])
    bound = float(np.abs(rises).max())
    figure = Figure(figsize=(2.5 + 0.5 * len(names), 1.8 + 0.45 * len(names)), layout="constrained")
    axis = figure.subplots()
    image = axis.imshow(rises, cmap="RdBu_r", vmin=-bound, vmax=bound)
    axis.set_xticks(range(len(names)), names, rotation=60, ha="right")
    axis.set_yticks(range(len(names)), [found.kind.title for found in shown])
    axis.set_xlabel("remarks about ...")
    axis.set_ylabel("damage")
    figure.colorbar(image, ax=axis, label="mean rise, standard deviations", shrink=0.8)
    figure.savefig(target, dpi=150, format="png")
