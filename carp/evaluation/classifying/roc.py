"""The area under the ROC curve, of many resamples at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from carp.evaluation.classifying.labels import Integers
from carp.evaluation.evaluators import Floats

CELLS = 4_000_000  # weights that are in memory at once


def areas(scores: Floats, positive: NDArray[np.bool_], strata: Integers, weights: Floats) -> Floats:
    """The chance that a positive case scores higher than a negative one of its stratum; equal scores count half.

    Args:
        scores: [n].
        positive: [n], which cases are positive.
        strata: [n], not negative; only cases of one stratum are compared. All zeros: the area under the ROC curve.
        weights: [resamples, n], how often each case counts.

    Returns:
        [resamples]; NaN where no positive case has a negative one to be compared with.
    """
    ranks = np.unique(scores, return_inverse=True)[1]
    key, cell = np.unique(strata * (ranks.max() + 1) + ranks, return_inverse=True)
    order = np.argsort(cell, kind="stable")
    starts = np.searchsorted(cell[order], np.arange(len(key)))  # of the cases that share stratum and score
    stratum = key // (ranks.max() + 1)
    step = max(1, CELLS // len(scores))
    return np.concatenate(
        [
            _areas(weights[i : i + step][:, order], positive[order], starts, stratum)
            for i in range(0, len(weights), step)
        ]
    )


def _areas(weights: Floats, positive: NDArray[np.bool_], starts: Integers, stratum: Integers) -> Floats:
    up = np.add.reduceat(weights * positive, starts, axis=1)  # [resamples, cells]
    down = np.add.reduceat(weights * ~positive, starts, axis=1)
    first = np.searchsorted(stratum, stratum)  # the first cell of each cell's stratum
    below = np.cumsum(down, axis=1) - down
    wins = (up * (below - below[:, first] + down / 2)).sum(1)
    begin = np.unique(first)
    pairs = (np.add.reduceat(up, begin, axis=1) * np.add.reduceat(down, begin, axis=1)).sum(1)
    return np.where(pairs > 0, wins / np.where(pairs > 0, pairs, 1), np.nan)
