"""Intervals of 95 %: bootstrap over stories, and those of theory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carp.errors import InputError

Floats = NDArray[np.float64]
Interval = tuple[float, float]
CONFIDENCE = 0.95
Z = 1.959964  # of a 95 % interval
LOW, HIGH = 100 * (1 - CONFIDENCE) / 2, 100 * (1 + CONFIDENCE) / 2  # percentiles


def scipy_stats() -> Any:
    """The module ``scipy.stats``.

    Raises:
        InputError: names the extra to install.
    """
    try:
        from scipy import stats
    except ImportError as error:
        raise InputError("the statistics of ratings need scipy: pip install 'carp-critic[eval]'") from error
    return stats


def resampled_counts(stories: int, resamples: int, seed: int) -> Floats:
    """How often each story is drawn: [resamples, stories], each row as many draws as there are stories."""
    random = np.random.default_rng(seed)
    return random.multinomial(stories, np.full(stories, 1 / stories), resamples).astype(np.float64)


def percentile_interval(values: Floats) -> Interval | None:
    """The bootstrap interval of resampled values; NaN (not defined in a resample) is left out.

    ``None`` where a tenth of them or more are not defined: what is left would not be a fair sample.
    """
    defined = values[~np.isnan(values)]
    if len(defined) <= 0.9 * len(values):
        return None
    low, high = np.percentile(defined, [LOW, HIGH])
    return float(low), float(high)


def normal_interval(value: float, error: float) -> Interval:
    """``value`` plus and minus 1.96 standard errors."""
    return value - Z * error, value + Z * error


def fisher_interval(correlation: float, n: int) -> Interval | None:
    """The interval of Pearson's correlation of n pairs by Fisher's z; ``None`` for 3 pairs or fewer."""
    if n <= 3 or abs(correlation) >= 1:
        return None
    low, high = normal_interval(math.atanh(correlation), 1 / math.sqrt(n - 3))
    return math.tanh(low), math.tanh(high)


def icc_interval(between: float, within: float, k: float, units: int, ratings: int, of_means: bool) -> Interval | None:
    """The interval of ICC(1), or of ICC(1, k), by the distribution of F (Shrout and Fleiss, 1979).

    It is exact for as many ratings of each unit, an approximation for unequal numbers.
    """
    if between <= 0 or within <= 0:
        return None
    ratio, degrees = between / within, (units - 1, ratings - units)
    distribution = scipy_stats().f
    low = ratio / float(distribution.ppf(HIGH / 100, *degrees))
    high = ratio * float(distribution.ppf(HIGH / 100, *degrees[::-1]))
    if of_means:
        return 1 - 1 / low, 1 - 1 / high
    return (low - 1) / (low + k - 1), (high - 1) / (high + k - 1)
