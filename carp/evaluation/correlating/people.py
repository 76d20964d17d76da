"""People's ratings of stories on one scale, as an evaluator's scores are held against them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carp.evaluation.evaluators import Floats
from carp.evaluation.ratings.table import Integers, Ratings

STORIES, LEVELLED, SYSTEMS = "stories", "stories, raters levelled", "systems"


@dataclass(frozen=True)
class Rated:
    """n ratings, none missing, of the stories 0 .. ``stories`` - 1."""

    values: Floats  # [n]
    story: Integers  # [n]
    stories: int

    def means(self) -> Floats:
        """The mean rating of each story [stories]; NaN where it has none."""
        return _divide(np.bincount(self.story, self.values, self.stories), self._counts())

    def one_and_the_others(self, random: np.random.Generator) -> tuple[Floats, Floats]:
        """The rating by one rater of each story, drawn at random, and the mean of the others' [stories].

        NaN where a story has fewer than two.
        """
        order = np.lexsort((random.random(len(self.story)), self.story))
        drawn = order[np.unique(self.story[order], return_index=True)[1]]
        one = np.full(self.stories, np.nan)
        one[self.story[drawn]] = self.values[drawn]
        others = _divide(np.bincount(self.story, self.values, self.stories) - np.nan_to_num(one), self._counts() - 1)
        return np.where(np.isnan(others), np.nan, one), others

    def _counts(self) -> Floats:
        return np.bincount(self.story, minlength=self.stories).astype(np.float64)


def rated(ratings: Ratings, column: Floats, levelled: bool) -> Rated:
    """The ratings [n] of a scale, missing ones left out.

    Args:
        ratings: of which the column is one.
        column: [n].
        levelled: take each rater's mean away (and add that of all), so that strictness makes no difference. It also
            takes away what differs between the stories that different raters read.
    """
    known = ~np.isnan(column)
    values, rater = column[known], ratings.rater[known]
    if levelled and len(values):
        values = (
            values - _divide(np.bincount(rater, values), np.bincount(rater).astype(np.float64))[rater] + values.mean()
        )
    return Rated(values, ratings.story[known], len(ratings.stories))


def levels(ratings: Ratings) -> list[str]:
    """What correlations are taken over; systems only where the ratings name them."""
    return [STORIES, LEVELLED, *([SYSTEMS] if ratings.systems else [])]


def points(ratings: Ratings, level: str, *columns: Floats) -> list[Floats]:
    """Numbers of stories [stories] as points [n] of a level: stories, or the means of systems' stories.

    Stories of which one of the numbers is not known are left out.
    """
    known = ~np.isnan(np.stack(columns)).any(0)
    if level != SYSTEMS:
        return [column[known] for column in columns]
    system = np.zeros(len(ratings.stories), np.int64)
    system[ratings.story] = ratings.system
    present, place = np.unique(system[known], return_inverse=True)
    counts = np.bincount(place, minlength=len(present)).astype(np.float64)
    return [_divide(np.bincount(place, column[known], len(present)), counts) for column in columns]


def _divide(sums: NDArray[Any], counts: NDArray[Any]) -> Floats:
    return np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
