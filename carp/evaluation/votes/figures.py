"""Box plots of evaluators side by side (CARP, Figure 4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from carp.evaluation.evaluators import UNIFORM
from carp.evaluation.votes.evaluation import PEOPLE, Agreement, Evaluation
from carp.evaluation.votes.measures import MEASURES

COLOURS = {UNIFORM: "#BBBBBB", PEOPLE: "#228833"}  # told apart by all kinds of eyes
EVALUATOR = "#4477AA"
SHOWN = {
    "cosine": "cosine similarity to people\n(higher is better)",
    "kl": "KL(people ‖ evaluator), nats\n(lower is better)",
}
SHOWN_NAME = 26  # characters
MANY_STORIES = 60  # from here on single stories are not drawn


def plot_figure4(evaluation: Evaluation, target: Path) -> None:
    """Draw the cosines (top) and the divergences (bottom) of all stories, one box per evaluator, as a PNG file."""
    from matplotlib.figure import Figure

    results: list[Agreement] = [*evaluation.results]
    results += [evaluation.people] if evaluation.people.estimates["cosine"].n else []
    figure = Figure(figsize=(2.4 + 1.25 * len(results), 7.6), layout="constrained")
    axes = figure.subplots(2, 1, sharex=True)
    for axis, (measure, label) in zip(axes, SHOWN.items(), strict=True):
        _boxes(axis, results, list(MEASURES).index(measure))
        axis.set_ylabel(label)
        axis.grid(axis="y", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylim(0, 1.02)
    axes[1].set_ylim(bottom=0)
    n = len(evaluation.votes.stories)
    axes[0].set_title(f"{n} {'story' if n == 1 else 'stories'} per box, ◇ mean", fontsize="medium")
    axes[1].set_xticks(
        range(1, len(results) + 1),
        [plain_name(r.name) for r in results],
        rotation=25,
        ha="right",
        rotation_mode="anchor",
    )
    figure.savefig(target, dpi=150, format="png")


def _boxes(axis: Any, results: list[Agreement], measure: int) -> None:
    values = [result.values[measure][~np.isnan(result.values[measure])] for result in results]
    drawn = axis.boxplot(
        values,
        showfliers=len(results[0].values[measure]) > MANY_STORIES,  # else every story is drawn anyway
        showmeans=True,
        patch_artist=True,
        widths=0.55,
        medianprops={"color": "black", "linewidth": 1.6},
        meanprops={"marker": "D", "markerfacecolor": "white", "markeredgecolor": "black", "markersize": 5},
    )
    for place, (patch, result, found) in enumerate(zip(drawn["boxes"], results, values, strict=True), start=1):
        patch.set_facecolor((COLOURS.get(result.name, EVALUATOR), 0.55))
        if len(found) <= MANY_STORIES:
            across = place + np.linspace(-0.16, 0.16, len(found)) if len(found) > 1 else [place]
            axis.plot(across, found, ".", color="black", alpha=0.45, markersize=4)


def plain_name(name: str) -> str:
    """A name short enough for an axis, its end kept (that is where paths differ), and no formula."""
    short = name if len(name) <= SHOWN_NAME else f"{name.partition(':')[0]}:…{name[-SHOWN_NAME + 8 :]}"
    return short.replace("$", r"\$")
