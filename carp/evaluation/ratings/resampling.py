"""Every coefficient of a sample, in each resample of its stories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from carp.evaluation.ratings.coefficients import (
    COINCIDENCES,
    CONTINGENCY,
    Coefficient,
    icc,
    icc_of_means,
    one_way,
    pearson,
    tau_b,
)
from carp.evaluation.ratings.samples import Pairs, Sample
from carp.evaluation.ratings.table import Floats, Integers

MAX_VALUES = 512  # different ratings; tables of more take too much memory
CELLS = 2_000_000  # of the tables that are in memory at once
SHARED_STORIES = 5  # that two raters must share for a correlation of their own


def coefficients(sample: Sample, weights: Floats) -> dict[str, Floats]:
    """Every coefficient in each resample: name -> [resamples], NaN where it is not defined.

    Args:
        sample: the ratings.
        weights: [resamples, stories] how often each story counts.
    """
    pairs = sample.pairs
    tables = tabulated(pairs, weights, CONTINGENCY, coincidences=False)
    kendall = tables.pop("kendall")
    between, within, k = one_way(weights @ _unit_sums(sample))
    differing = np.bincount(pairs.unit, pairs.first != pairs.second, sample.units)
    return {
        "exact": _share(weights, pairs.story, pairs.first == pairs.second),
        "all_equal": _share(weights, sample.story_of_unit, differing == 0),
        **tables,
        **tabulated(pairs, weights, COINCIDENCES, coincidences=True),
        "icc_1": icc(between, within, k),
        "icc_1k": icc_of_means(between, within),
        "pearson": _pearson(pairs, weights),
        "pearson_by_raters": _by_raters(pairs, weights, _pearson),
        "kendall": kendall,
        "kendall_by_raters": _by_raters(pairs, weights, _kendall),
    }


def variance(sample: Sample) -> tuple[float, float, float]:
    """Mean squares between and within units, in units of the variance of all ratings, and ratings per unit."""
    between, within, k = one_way(_unit_sums(sample).sum(0))
    return float(between), float(within), float(k)


def _unit_sums(sample: Sample) -> Floats:
    values, m = _standardised(sample.values), sample.counts.astype(np.float64)
    totals: Floats = np.bincount(sample.unit, values, sample.units).astype(np.float64)
    squares: Floats = np.bincount(sample.unit, values**2, sample.units).astype(np.float64)
    columns = (np.ones_like(m), m, m**2, totals, totals**2 / m, squares)
    return _per_story(sample.story_of_unit, sample.stories, columns)


def _standardised(values: Floats) -> Floats:
    centred = values - values.mean() if len(values) else values
    return centred / spread if len(values) and (spread := float(centred.std())) > 0 else centred


def _per_story(story: Integers, stories: int, columns: Sequence[Floats]) -> Floats:
    return np.stack([np.bincount(story, column, stories) for column in columns], axis=1)


def tabulated(
    pairs: Pairs, weights: Floats, functions: Mapping[str, Coefficient], coincidences: bool
) -> dict[str, Floats]:
    """Coefficients of tables of counts, a bounded number of tables in memory at once: name -> [resamples]."""
    k = len(pairs.values)
    if not 0 < k <= MAX_VALUES:
        return {name: np.full(len(weights), np.nan) for name in functions}
    step = max(1, CELLS // k**2)
    found: dict[str, list[Floats]] = {name: [] for name in functions}
    for start in range(0, len(weights), step):
        tables = np.stack(list(count_tables(pairs, weights[start : start + step], coincidences)))
        for name, function in functions.items():
            found[name].append(function(tables, pairs.values))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def count_tables(pairs: Pairs, weights: Floats, coincidences: bool) -> Iterator[Floats]:
    """The table [k, k] of each resample: of counts, or of coincidences."""
    k = len(pairs.values)
    rows, columns = (np.searchsorted(pairs.values, side) for side in (pairs.first, pairs.second))
    cells = rows * k + columns
    for drawn in weights:
        counts = drawn[pairs.story] * pairs.share if coincidences else drawn[pairs.story]
        table: Floats = np.bincount(cells, counts, k * k).reshape(k, k).astype(np.float64)
        yield table + table.T if coincidences else table


def pairs_of_raters(pairs: Pairs) -> list[Pairs]:
    """The pairs of ratings of every two raters that share enough stories."""
    raters, which = np.unique(pairs.raters, axis=0, return_inverse=True)
    found = (pairs.subset(which.ravel() == i) for i in range(len(raters)))
    return [own for own in found if len(np.unique(own.story)) >= SHARED_STORIES]


def _by_raters(pairs: Pairs, weights: Floats, function: Callable[[Pairs, Floats], Floats]) -> Floats:
    rows = [function(own, weights) for own in pairs_of_raters(pairs)]
    values = np.stack(rows) if rows else np.full((1, len(weights)), np.nan)
    defined = (~np.isnan(values)).sum(0)
    return np.where(defined > 0, np.nansum(values, 0) / np.maximum(defined, 1), np.nan)


def _pearson(pairs: Pairs, weights: Floats) -> Floats:
    x, y = _standardised(pairs.first), _standardised(pairs.second)
    columns = (np.ones_like(x), x, y, x**2, y**2, x * y)
    return pearson(weights @ _per_story(pairs.story, weights.shape[1], columns))


def _kendall(pairs: Pairs, weights: Floats) -> Floats:
    return tabulated(pairs, weights, {"tau": tau_b}, coincidences=False)["tau"]


def _share(weights: Floats, story: Integers, cases: NDArray[np.bool_]) -> Floats:
    columns = (np.ones(len(story)), cases.astype(np.float64))
    total, found = np.moveaxis(weights @ _per_story(story, weights.shape[1], columns), -1, 0)
    return np.where(total > 0, found / np.where(total > 0, total, 1), np.nan)
