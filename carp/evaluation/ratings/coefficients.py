"""Coefficients of agreement as functions of weighted counts, many resamples at once.

A table [..., k, k] counts pairs of ratings: the first rater's values by the second's. A table of coincidences counts
each pair in both orders, and each unit (of m ratings) with the weight m. Leading axes are resamples. A coefficient that
is not defined, e.g. because all ratings are equal, is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Coefficient = Callable[[Floats, Floats], Floats]  # of tables [..., k, k] and values [k]


def kappa(tables: Floats, values: Floats, power: int) -> Floats:
    """Cohen's kappa (1960), weighted (1968): 1 - observed / expected disagreement.

    Args:
        tables: [..., k, k] counts of pairs.
        values: [k] the ratings that rows and columns stand for. Their distances count, not their ranks: a rating that
            nobody gave widens the gap between its neighbours.
        power: 0 unweighted, 1 linear, 2 quadratic weights.
    """
    distance = _distance(values, power)
    n = tables.sum((-2, -1))
    expected = np.einsum("...i,ij,...j->...", tables.sum(-1), distance, tables.sum(-2))
    return 1 - _ratio((tables * distance).sum((-2, -1)) * n, expected)


def kappa_error(table: Floats, values: Floats, power: int) -> float:
    """The asymptotic standard error of kappa (Fleiss, Cohen and Everitt, 1969, formulas 12 and 13).

    Args:
        table: [k, k] counts of pairs, taken for independent.
        values: [k] the ratings.
        power: 0 unweighted, 1 linear, 2 quadratic weights.
    """
    distance, n = _distance(values, power), table.sum()
    shares = table / n
    rows, columns = shares.sum(1), shares.sum(0)
    weights = 1 - distance / distance.max()
    observed, expected = (weights * shares).sum(), rows @ weights @ columns
    means = (weights @ columns)[:, None] + (rows @ weights)[None, :]
    squares = (shares * (weights * (1 - expected) - means * (1 - observed)) ** 2).sum()
    variance = (squares - (observed * expected - 2 * expected + observed) ** 2) / (n * (1 - expected) ** 4)
    return float(np.sqrt(max(variance, 0.0)))


def alpha(coincidences: Floats, values: Floats, level: str) -> Floats:
    """Krippendorff's alpha (2011, "Computing Krippendorff's alpha-reliability"): 1 - observed / expected disagreement.

    Args:
        coincidences: [..., k, k] symmetric counts.
        values: [k] the ratings, ascending.
        level: ``nominal``, ``ordinal`` or ``interval``.
    """
    totals = coincidences.sum(-1)
    n = totals.sum(-1)
    # The ordinal distance of two ratings is the number of ratings between them, their own counted by half.
    places = np.cumsum(totals, -1) - totals / 2 if level == "ordinal" else values
    distance = _distance(places, 0 if level == "nominal" else 2)
    expected = np.einsum("...i,...ij,...j->...", totals, distance, totals)
    return 1 - _ratio((coincidences * distance).sum((-2, -1)) * (n - 1), expected)


def tau_b(tables: Floats, values: Floats) -> Floats:
    """Kendall's tau-b: (concordant - discordant pairs) / sqrt(pairs untied on one side x on the other).

    Args:
        tables: [..., k, k] counts.
        values: not used: only their order counts, which is that of rows and columns.
    """
    below = _before(_before(tables, -2), -1)
    above = _before(tables, -2)
    above = above.sum(-1, keepdims=True) - np.cumsum(above, -1)
    untied = [(tables.sum((-2, -1)) ** 2 - (tables.sum(axis) ** 2).sum(-1)) / 2 for axis in (-1, -2)]
    return _ratio((tables * (below - above)).sum((-2, -1)), np.sqrt(untied[0] * untied[1]))


KAPPA_POWERS = {"kappa_unweighted": 0, "kappa_linear": 1, "kappa_quadratic": 2}
CONTINGENCY: dict[str, Coefficient] = {
    **{name: partial(kappa, power=power) for name, power in KAPPA_POWERS.items()},
    "kendall": tau_b,
}
COINCIDENCES: dict[str, Coefficient] = {
    "alpha_nominal": partial(alpha, level="nominal"),
    "alpha_ordinal": partial(alpha, level="ordinal"),
    "alpha_interval": partial(alpha, level="interval"),
}


def pearson(sums: Floats) -> Floats:
    """Pearson's correlation of pairs (x, y).

    Args:
        sums: [..., 6] of 1, x, y, x², y², x y over the pairs; x and y standardised over all pairs, before any
            resampling, so that small numbers keep their digits.
    """
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    spread = (n * xx - x**2) * (n * yy - y**2)
    # Beneath this, the spread is rounding: one side is constant in the resample.
    return _ratio(n * xy - x * y, np.sqrt(np.where(spread > 1e-12 * n**4, spread, 0.0)))


def one_way(sums: Floats) -> tuple[Floats, Floats, Floats]:
    """The one-way analysis of variance behind ICC(1) and ICC(1, k) (Shrout and Fleiss, 1979).

    Args:
        sums: [..., 6] over the units of 1, m, m², s, s² / m and q, where a unit has m ratings, their sum is s and the
            sum of their squares q; ratings standardised over all units, before any resampling.

    Returns:
        The mean squares between and within units [...], and the ratings per unit k [...]: their mean, less a correction
        for unequal numbers.
    """
    units, n, squared, total, by_unit, squares = np.moveaxis(sums, -1, 0)
    within = squares - by_unit
    between = by_unit - _ratio(total**2, n)
    per_unit = _ratio(n - _ratio(squared, n), units - 1)
    # Beneath this, a sum is rounding.
    within, between = (np.where(part < 1e-12 * n, 0.0, part) for part in (within, between))
    return _ratio(between, units - 1), _ratio(within, n - units), per_unit


def icc(between: Floats, within: Floats, k: Floats) -> Floats:
    """ICC(1): the share of variance that lies between units, of one rating."""
    return _ratio(between - within, between + (k - 1) * within)


def icc_of_means(between: Floats, within: Floats) -> Floats:
    """ICC(1, k): the same, of the mean of a unit's ratings."""
    return _ratio(between - within, between)


def _distance(values: Floats, power: int) -> Floats:
    difference = np.abs(values[..., :, None] - values[..., None, :])
    return np.asarray(difference**power if power else difference > 0, np.float64)


def _before(tables: Floats, axis: int) -> Floats:
    return np.cumsum(tables, axis) - tables


def _ratio(above: Floats, below: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below > 0, above / np.where(below > 0, below, 1.0), np.nan)
