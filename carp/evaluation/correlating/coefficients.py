"""Coefficients of correlation of weighted points, many resamples at once."""

from __future__ import annotations

import numpy as np

from carp.evaluation.evaluators import Floats
from carp.evaluation.ratings.coefficients import pearson

COEFFICIENTS = ("pearson", "spearman", "kendall")
DIGITS = 9  # 11/3 is 11/3, however summed
MAX_POINTS = 3000  # every point is compared with every other one
TINY = 1e-12  # a spread below is rounding


def correlations(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Pearson's r, Spearman's rho and Kendall's tau-b of n points.

    A point of weight 2 counts as two equal points, as in a resample that has drawn it twice.

    Args:
        x, y: [n].
        weights: [resamples, n], whole numbers.

    Returns:
        [3, resamples] in the order of :data:`COEFFICIENTS`; NaN where one side is constant.
    """
    left, right = (np.round(standardised(side), DIGITS) for side in (x, y))
    above, beyond = (np.sign(side[:, None] - side[None, :]) for side in (left, right))
    rows = np.ones(len(weights))[:, None]
    return np.stack(
        [
            _pearson(rows * left, rows * right, weights),
            _pearson(_ranks(above, weights), _ranks(beyond, weights), weights),
            _tau_b(above, beyond, weights),
        ]
    )


def standardised(values: Floats) -> Floats:
    """Mean 0, standard deviation 1; zeros where all values are equal."""
    centred = values - values.mean()
    spread = float(centred.std())
    return centred / spread if spread > TINY * max(1.0, float(np.abs(values).max())) else np.zeros_like(values)


def _ranks(above: Floats, weights: Floats) -> Floats:
    """Mean ranks in each resample [resamples, n], between -1 and 1: the weight below less the weight above."""
    return weights @ above.T / weights.sum(1, keepdims=True)


def _pearson(x: Floats, y: Floats, weights: Floats) -> Floats:
    columns = (np.ones_like(x), x, y, x**2, y**2, x * y)
    return pearson(np.stack([(weights * column).sum(1) for column in columns], axis=-1))


def _tau_b(above: Floats, beyond: Floats, weights: Floats) -> Floats:
    concordant, one, other = (
        ((weights @ signs) * weights).sum(1) for signs in (above * beyond, np.abs(above), np.abs(beyond))
    )
    untied = np.sqrt(one * other)
    return np.where(untied > 0, concordant / np.where(untied > 0, untied, 1), np.nan)
