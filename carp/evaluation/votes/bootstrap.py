"""Means over stories, and how much they would move with other stories and other people.

A resample draws participants with replacement, each with all their ballots, and independently of them stories with
replacement, as both are samples and every participant read several stories: the bootstrap of crossed samples of Owen
(2007), The pigeonhole bootstrap. All evaluators see the same resamples, so that their differences are paired.

Resampled votes are noisier than the votes, and noise makes every evaluator look worse: the replicates lie to one side
of the value that they are replicates of. What they say of its spread is right, what they say of its place is not. So
the interval is that of their percentiles, moved by as much as their mean is off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from carp.evaluation.evaluators import Floats
from carp.evaluation.votes.data import Votes
from carp.evaluation.votes.distributions import Distribution, Human, from_votes
from carp.evaluation.votes.measures import MEASURES, measure_all

BLOCK = 2_000_000  # numbers per array of a block of resamples
PERCENT = (2.5, 97.5)
ANYWHERE = (-np.inf, np.inf)
PEOPLE, STORIES, SPLITS = range(3)  # each its own stream of random numbers: none depends on the size of a block


@dataclass(frozen=True)
class Estimate:
    """A mean over the ``n`` stories for which it is defined, and its 95 % interval."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    undefined: int


@dataclass(frozen=True)
class Replicates:
    """Means of every resample: [resamples, n_measures, n_evaluators], and those of the differences of pairs."""

    means: Floats
    differences: Floats


def random_stream(seed: int, stream: int) -> np.random.Generator:
    """Random numbers for one purpose."""
    return np.random.default_rng([seed, stream])


def pairs_of(n: int) -> list[tuple[int, int]]:
    """Every pair of ``n`` evaluators, the earlier one first."""
    return list(combinations(range(n), 2))


def estimate(values: Floats, replicates: Floats, bounds: tuple[float, float] = ANYWHERE) -> Estimate:
    """Summarise a measure.

    Args:
        values: [n_stories], NaN where undefined.
        replicates: [resamples] means; empty where there is nothing to resample.
        bounds: what the measure cannot exceed.
    """
    defined = values[~np.isnan(values)]
    known = replicates[~np.isnan(replicates)]
    if not len(defined):
        return Estimate(None, None, None, 0, len(values))
    value = float(defined.mean())
    low = high = None
    if len(known):
        low, high = (float(b) for b in np.clip(np.percentile(known, PERCENT) - known.mean() + value, *bounds))
    return Estimate(value, low, high, len(defined), len(values) - len(defined))


def resample(votes: Votes, evaluators: Distribution, human: Human, resamples: int, seed: int) -> Replicates:
    """Means of all measures under resampled participants and stories.

    Args:
        votes: of people.
        evaluators: distributions, each [n_evaluators, n_stories, n_reviews].
        human: see :func:`~carp.evaluation.votes.distributions.from_votes`.
        resamples: how many.
        seed: the same seed gives the same resamples, whatever the evaluators.
    """
    pairs = pairs_of(len(evaluators.scores))
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    means = np.empty((resamples, len(MEASURES), len(evaluators.scores)))
    differences = np.empty((resamples, len(MEASURES), len(pairs)))
    width = max(evaluators.scores.size, len(pairs) * len(votes.stories), len(votes.story), len(votes.participants))
    for rows, people, stories in _draws(votes, resamples, seed, max(1, BLOCK // width)):
        counts = votes.counts(people[:, votes.participant])
        found = measure_all(
            from_votes(counts[:, None], human), evaluators
        )  # [n_measures, rows, n_evaluators, n_stories]
        # A story whose participants were not drawn has no human distribution in this resample.
        found = np.where((counts.sum(axis=-1) > 0)[:, None], found, np.nan)
        means[rows] = weighted_means(found, stories).swapaxes(0, 1)
        differences[rows] = weighted_means(found[:, :, left] - found[:, :, right], stories).swapaxes(0, 1)
    return Replicates(means, differences)


def _draws(votes: Votes, resamples: int, seed: int, block: int) -> Iterator[tuple[slice, Floats, NDArray[np.int64]]]:
    """How often each participant and each story is drawn, block by block of resamples."""
    people, stories = random_stream(seed, PEOPLE), random_stream(seed, STORIES)
    for start in range(0, resamples, block):
        rows = slice(start, min(start + block, resamples))
        yield (
            rows,
            draw_counts(people, len(votes.participants), rows.stop - start).astype(np.float64),
            draw_counts(stories, len(votes.stories), rows.stop - start),
        )


def draw_counts(random: np.random.Generator, n: int, size: int) -> NDArray[np.int64]:
    """How often each of ``n`` is drawn in ``n`` draws with replacement, ``size`` times: [size, n]."""
    return random.multinomial(n, np.full(n, 1 / n), size=size)


def weighted_means(values: Floats, weights: NDArray[np.int64]) -> Floats:
    """Means over stories: values [..., rows, n, n_stories], weights [rows, n_stories]; NaN where none is defined."""
    defined = ~np.isnan(values)
    total = (weights[:, None] * defined).sum(-1)
    weighted = (weights[:, None] * np.where(defined, values, 0.0)).sum(-1)
    return np.divide(weighted, total, out=np.full(total.shape, np.nan), where=total > 0)
