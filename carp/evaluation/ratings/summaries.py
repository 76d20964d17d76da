"""Means and standard deviations of the ratings of each system."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from carp.evaluation.ratings.intervals import HIGH, Interval, scipy_stats
from carp.evaluation.ratings.table import Floats, Integers, Ratings

ALL = "all stories"  # the name of the one system of a file without a column for systems


@dataclass(frozen=True)
class Summary:
    """Ratings of one system on one scale: n of them, of some stories; ``None`` where there are too few.

    ``std`` divides by n - 1, as the paper's does. ``interval`` is the 95 % interval of the mean: t, of as many cases as
    there are stories, for ratings of one story are not independent.
    """

    system: str
    scale: str
    n: int
    stories: int
    mean: float | None
    interval: Interval | None
    std: float | None
    minimum: float | None
    median: float | None
    maximum: float | None


def systems(ratings: Ratings) -> list[str]:
    """The systems, the best mean overall score first; equal ones, and those without a score, by name."""
    names = ratings.systems or [ALL]
    means = {name: _mean(ratings.overall[ratings.system == i]) for i, name in enumerate(names)}
    return sorted(names, key=lambda name: (-means[name], name))


def rows_of(ratings: Ratings, system: str) -> Integers:
    """The rows of a system."""
    return np.flatnonzero(ratings.system == (ratings.systems or [ALL]).index(system))


def scores(ratings: Ratings) -> dict[str, Floats]:
    """Every scale, then the overall score: name -> [n]."""
    return dict(ratings.values) if ratings.single else {**ratings.values, ratings.overall_name: ratings.overall}


def summaries(ratings: Ratings) -> dict[str, dict[str, Summary]]:
    """system -> scale (or overall score) -> summary, sorted as :func:`systems` sorts."""
    found: dict[str, dict[str, Summary]] = {}
    for system in systems(ratings):
        rows = rows_of(ratings, system)
        found[system] = {
            scale: summarise(system, scale, column[rows], ratings.story[rows])
            for scale, column in scores(ratings).items()
        }
    return found


def summarise(system: str, scale: str, values: Floats, story: Integers) -> Summary:
    """Summarise ratings [n] of stories [n]; missing ones are left out."""
    story, values = story[~np.isnan(values)], values[~np.isnan(values)]
    n, stories = len(values), len(np.unique(story))
    if n == 0:
        return Summary(system, scale, 0, 0, None, None, None, None, None, None)
    return Summary(
        system=system,
        scale=scale,
        n=n,
        stories=stories,
        mean=float(values.mean()),
        interval=_interval(values, story) if stories > 1 else None,
        std=float(values.std(ddof=1)) if n > 1 else None,
        minimum=float(values.min()),
        median=float(np.median(values)),
        maximum=float(values.max()),
    )


def _interval(values: Floats, story: Integers) -> Interval:
    mean = float(values.mean())
    _, which = np.unique(story, return_inverse=True)
    # With as many ratings of every story, this is the t interval of the stories' means.
    deviations = np.bincount(which, values - mean) / len(values)
    stories = len(deviations)
    error = math.sqrt(float((deviations**2).sum()) * stories / (stories - 1))
    reach = float(scipy_stats().t.ppf(HIGH / 100, stories - 1)) * error
    return mean - reach, mean + reach


def _mean(values: Floats) -> float:
    rated = values[~np.isnan(values)]
    return float(rated.mean()) if len(rated) else -math.inf
