"""What agreement is computed from: ratings of units (a story on a scale), and the pairs of ratings of each unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from carp.evaluation.ratings.table import Floats, Integers, Ratings

POOLED = "pooled"  # all scales together: a unit is a story on a scale


@dataclass(frozen=True)
class Pairs:
    """P pairs of ratings of one unit; the first of a pair is by the rater who comes first in natural order."""

    first: Floats  # [P]
    second: Floats  # [P]
    unit: Integers  # [P]
    story: Integers  # [P]
    raters: Integers  # [P, 2]
    share: Floats  # [P]; 1 / (ratings of the unit - 1): then a unit of m ratings weighs m / 2

    @cached_property
    def values(self) -> Floats:
        """The k different ratings, ascending."""
        return np.unique(np.concatenate([self.first, self.second]))

    def subset(self, mask: NDArray[np.bool_]) -> Pairs:
        """Some of the pairs."""
        numbers = (self.unit[mask], self.story[mask], self.raters[mask])
        return Pairs(self.first[mask], self.second[mask], *numbers, self.share[mask])


@dataclass(frozen=True)
class Sample:
    """n ratings, none missing, of units that have two of them or more.

    A bootstrap resamples stories: the first ``stories`` indices of ``story``.
    """

    values: Floats  # [n]
    unit: Integers  # [n]; 0 .. units - 1
    rater: Integers  # [n]
    story_of_unit: Integers  # [units]
    stories: int

    @property
    def units(self) -> int:
        """How many units there are."""
        return len(self.story_of_unit)

    @cached_property
    def counts(self) -> Integers:
        """Ratings of each unit: [units], all at least 2."""
        return np.bincount(self.unit, minlength=self.units)

    @cached_property
    def pairs(self) -> Pairs:
        """All pairs of two ratings of one unit."""
        order = np.lexsort((self.rater, self.unit))
        starts = np.cumsum(self.counts) - self.counts
        left, right = [], []
        for size in np.unique(self.counts):
            first, second = np.triu_indices(size, 1)
            of_size = starts[self.counts == size, None]
            left.append((of_size + first).ravel())
            right.append((of_size + second).ravel())
        none = np.zeros(0, np.int64)
        i, j = (order[np.concatenate([none, *side])] for side in (left, right))
        units = self.unit[i]
        return Pairs(
            first=self.values[i],
            second=self.values[j],
            unit=units,
            story=self.story_of_unit[units],
            raters=np.stack([self.rater[i], self.rater[j]], axis=1),
            share=1 / (self.counts[units] - 1),
        )


def sample(ratings: Ratings, columns: Sequence[Floats], rows: Sequence[int] | Integers | None = None) -> Sample:
    """The ratings of some columns that can agree with another one.

    Args:
        ratings: all ratings.
        columns: the columns [n] to take, ``ratings.values`` or ``ratings.overall``.
        rows: the rows to take; all by default.
    """
    chosen = np.arange(len(ratings.story)) if rows is None else np.asarray(rows)
    values = np.concatenate([column[chosen] for column in columns])
    unit = np.concatenate([ratings.story[chosen] * len(columns) + i for i in range(len(columns))])
    rater = np.tile(ratings.rater[chosen], len(columns))
    rated = ~np.isnan(values)
    values, unit, rater = values[rated], unit[rated], rater[rated]
    several = (np.bincount(unit) >= 2)[unit] if len(unit) else rated[:0]
    units, unit = np.unique(unit[several], return_inverse=True)
    stories, story_of_unit = np.unique(units // len(columns), return_inverse=True)
    return Sample(values[several], unit, rater[several], story_of_unit, len(stories))


def measures(ratings: Ratings) -> dict[str, list[Floats]]:
    """What agreement is reported of: each scale, all of them pooled, and the overall score."""
    found = {name: [column] for name, column in ratings.values.items()}
    if len(found) > 1:
        found[POOLED] = list(ratings.values.values())
    if not ratings.single:
        found[ratings.overall_name] = [ratings.overall]
    return found


def main_measures(ratings: Ratings) -> list[str]:
    """The measures that stand for all scales: all of them pooled, if there are several, and the overall score."""
    return [name for name in (POOLED, ratings.overall_name) if name in measures(ratings)]
