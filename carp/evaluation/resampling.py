"""Estimates with bootstrap intervals: how they are resampled, and what they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from carp.errors import InputError
from carp.evaluation.evaluators import Floats
from carp.evaluation.ratings.intervals import Interval, percentile_interval, resampled_counts

MIN_RESAMPLES = 100


@dataclass(frozen=True)
class Resampling:
    """Of a bootstrap; the same seed gives the same resamples.

    Raises:
        InputError: names the option that is out of range.
    """

    resamples: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.resamples < MIN_RESAMPLES:
            raise InputError(f"--resamples {self.resamples}: give at least {MIN_RESAMPLES}")
        if self.seed < 0:
            raise InputError(f"--seed {self.seed}: give a number from 0")

    def weights(self, n: int) -> Floats:
        """How often each of ``n`` counts: [1 + resamples, n]; once in the first row, as drawn in the others.

        A single one leaves nothing to resample: [1, 1].
        """
        everyone = np.ones((1, n))
        return np.vstack([everyone, resampled_counts(n, self.resamples, self.seed)]) if n > 1 else everyone


DEFAULT = Resampling()


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval; ``undefined`` says why there is no value."""

    value: float | None
    interval: Interval | None = None
    undefined: str = ""


def estimate(found: Floats, why: str) -> Estimate:
    """The value and its replicates [1 + resamples] as an estimate; ``why`` is the reason where they are NaN."""
    if np.isnan(found[0]):
        return Estimate(None, undefined=why)
    return Estimate(float(found[0]), percentile_interval(found[1:]) if len(found) > 1 else None)


def beats(difference: Estimate | None) -> bool:
    """Does the interval of a difference lie above 0?"""
    return difference is not None and difference.interval is not None and difference.interval[0] > 0


def columns(name: str, found: Estimate | None) -> dict[str, float | None]:
    """An estimate as three columns of a table: value, lower and upper bound."""
    low, high = (found and found.interval) or (None, None)
    return {name: found.value if found else None, f"{name}_low": low, f"{name}_high": high}
