"""Bar plots of scores."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from carp.files import written_file

MAX_STORIES = 8  # more bars side by side cannot be told apart


def plot_scores(
    scores: NDArray[np.float32], stories: Sequence[str], reviews: Sequence[str], target: Path, calibrated: bool = False
) -> None:
    """Draw one bar per review and story, the best-fitting review of the first story on top.

    Args:
        scores: [n_stories, n_reviews] cosines, or percentiles.
        stories: names of the stories, at most :data:`MAX_STORIES`.
        reviews: the reviews.
        target: PNG file to write.
        calibrated: whether the scores are percentiles.
    """
    from matplotlib.figure import Figure

    order = np.argsort(scores[0])
    height = 0.8 / len(stories)
    figure = Figure(figsize=(8, 1 + len(reviews) * (0.25 + 0.15 * len(stories))), layout="constrained")
    axis = figure.subplots()
    for i, (name, row) in enumerate(zip(stories, scores, strict=True)):
        offset = (len(stories) - 1) / 2 - i
        axis.barh(np.arange(len(reviews)) + offset * height, row[order], height, label=name)
    axis.set_yticks(range(len(reviews)), [textwrap.shorten(reviews[i], 60, placeholder=" ...") for i in order])
    axis.axvline(50 if calibrated else 0, color="black", linewidth=0.8)
    axis.set_xlabel("percentile among reference passages" if calibrated else "cosine similarity")
    if calibrated:
        axis.set_xlim(0, 100)
    axis.grid(axis="x", alpha=0.3)
    axis.legend()
    with written_file(target) as draft:
        figure.savefig(draft, dpi=150, format="png")
