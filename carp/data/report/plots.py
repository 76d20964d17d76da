"""Histograms of lengths, and lengths by sentiment as box plots (the paper, Figure 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from carp.data.report.collecting import Collected, Column, Numbers, as_numbers
from carp.data.report.figures import CONTEXT
from carp.data.report.sentiment import Sentiment
from carp.data.report.statistics import Lengths

COLOURS = ("#4477AA", "#EE6677")  # of the first and the second data set; told apart by all kinds of eyes
BINS = 50
SHOWN_NAME = 22  # characters
SHOWN = 99  # percent of the values; the longest few would press the others into one bar


def plot_lengths(names: Sequence[str], data: Sequence[Collected], target: Path) -> None:
    """Draw the lengths of passages and critiques, in words and in tokens, as shares of the pairs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6.4), layout="constrained")
    axes = figure.subplots(2, 2)
    for row, unit in enumerate(("words", "tokens")):
        for axis, kind in zip(axes[row], ("passages", "critiques"), strict=True):
            columns: list[Column] = [getattr(found, kind) for found in data]
            _histogram(axis, names, [as_numbers(getattr(column, unit)) for column in columns])
            axis.set(xlabel=unit, title=f"{kind}, {unit}")
            if unit == "tokens":
                _mark_context(axis)
    axes[0, 0].set_ylabel("share of the pairs")
    axes[1, 0].set_ylabel("share of the pairs")
    if len(names) > 1:
        axes[0, 0].legend(frameon=False)
    figure.savefig(target, dpi=150, format="png")


def _histogram(axis: Any, names: Sequence[str], values: Sequence[Numbers]) -> None:
    longest = max(np.percentile(lengths, SHOWN) for lengths in values)
    width = int(longest // BINS) + 1  # whole numbers of words: no bar holds more of them than the next
    edges = np.arange(0, longest + width + 1, width)
    for name, lengths, colour in zip(names, values, COLOURS, strict=False):
        weights = np.full(len(lengths), 1 / len(lengths))
        axis.hist(lengths, edges, weights=weights, color=colour, alpha=0.45, label=_plain(name))
        axis.hist(lengths, edges, weights=weights, color=colour, histtype="step", linewidth=1.2)
    axis.set_xlim(0, edges[-1])
    axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    axis.grid(axis="y", alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)


def _plain(name: str) -> str:
    short = name if len(name) <= SHOWN_NAME else f"{name[: SHOWN_NAME - 1]}…"
    return short.replace("$", r"\$")  # no formula


def _mark_context(axis: Any) -> None:
    if axis.get_xlim()[1] > CONTEXT:
        axis.axvline(CONTEXT, color="black", linestyle="--", linewidth=1)
        height = axis.get_ylim()[1]
        axis.text(CONTEXT, height, f" {CONTEXT}: cut beyond", fontsize="small", va="top")


def plot_sentiment(names: Sequence[str], found: Sequence[Sentiment], target: Path) -> None:
    """Draw the lengths of positive and negative critiques as box plots without outliers."""
    from matplotlib.figure import Figure

    boxes = [
        (f"{_plain(name)}\n{sign}", lengths, colour, alpha)
        for name, sentiment, colour in zip(names, found, COLOURS, strict=False)
        for sign, lengths, alpha in (
            ("positive", sentiment.positive_words, 0.35),
            ("negative", sentiment.negative_words, 0.8),
        )
        if lengths is not None
    ]
    figure = Figure(figsize=(1.8 + 1.6 * len(boxes), 4.6), layout="constrained")
    axis = figure.subplots()
    drawn = axis.bxp(
        [_box(label, lengths) for label, lengths, *_ in boxes],
        showfliers=False,
        showmeans=True,
        patch_artist=True,
        widths=0.55,
        medianprops={"color": "black", "linewidth": 1.6},
        meanprops={"marker": "D", "markerfacecolor": "white", "markeredgecolor": "black", "markersize": 5},
    )
    for patch, (*_, colour, alpha) in zip(drawn["boxes"], boxes, strict=True):
        patch.set_facecolor((colour, alpha))
    axis.set_ylabel("words per critique")
    axis.set_ylim(bottom=0)
    axis.set_title("Length by sentiment, without outliers (◇ mean)", fontsize="medium")
    axis.grid(axis="y", alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(target, dpi=150, format="png")


def _box(label: str, lengths: Lengths) -> dict[str, Any]:
    values = asdict(lengths)
    return {
        "label": f"{label}\nn = {lengths.n:,}",
        "med": values["median"],
        "whislo": values["whisker_low"],
        "whishi": values["whisker_high"],
        **{key: values[key] for key in ("q1", "q3", "mean")},
    }
