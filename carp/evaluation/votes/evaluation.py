"""Evaluators against people's votes: everything that the report shows, as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

import numpy as np

from carp.errors import InputError
from carp.evaluation.evaluators import UNIFORM, Floats
from carp.evaluation.votes.bootstrap import Estimate, Replicates, estimate, pairs_of, resample
from carp.evaluation.votes.ceiling import ceiling_means, split_halves
from carp.evaluation.votes.comparison import Comparison, compare
from carp.evaluation.votes.data import Votes
from carp.evaluation.votes.distributions import Distribution, Human, from_scores, from_votes
from carp.evaluation.votes.measures import MEASURES, best_reviews, measure_all

PEOPLE = "people (split halves)"


@dataclass(frozen=True)
class Options:
    """How evaluators are compared with people.

    Raises:
        InputError: names the option that is out of range.
    """

    human: Human = "softmax"  # the paper's; or shares
    temperature: float = 1.0  # divides evaluators' scores; the paper has none
    resamples: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.human not in get_args(Human):
            raise InputError(f"--human {self.human}: choose {' or '.join(get_args(Human))}")
        if not 0 < self.temperature < np.inf:
            raise InputError(f"--temperature {self.temperature}: give a number above 0")
        if self.resamples < 100:
            raise InputError(f"--resamples {self.resamples}: give at least 100, or the intervals mean nothing")
        if self.seed < 0:
            raise InputError(f"--seed {self.seed}: give 0 or more")


@dataclass(frozen=True)
class Agreement:
    """How near somebody is to people's votes."""

    name: str
    values: Floats  # [n_measures, n_stories], NaN where undefined
    estimates: Mapping[str, Estimate]  # measure -> mean over stories


@dataclass(frozen=True)
class Result(Agreement):
    """How near an evaluator is to people's votes, and what it says itself."""

    scores: Floats  # [n_stories, n_reviews]
    probabilities: Floats  # [n_stories, n_reviews]

    @property
    def tied(self) -> int:
        """Stories on which several reviews share the best score."""
        return int((best_reviews(self.scores).sum(-1) > 1).sum())

    @property
    def sharpness(self) -> float:
        """The probability of the likeliest review, mean over stories."""
        return float(self.probabilities.max(-1).mean())


@dataclass(frozen=True)
class Evaluation:
    """Evaluators against people."""

    votes: Votes
    human: Distribution  # [n_stories, n_reviews]
    results: tuple[Result, ...]  # in the order given, the uniform baseline last
    people: Agreement  # one half with the other
    comparisons: tuple[Comparison, ...]
    options: Options


def evaluate(votes: Votes, scores: Mapping[str, Floats], options: Options = Options()) -> Evaluation:
    """Compare evaluators with people.

    Args:
        votes: of people.
        scores: evaluator -> [n_stories, n_reviews]; the uniform baseline is added where it is missing.
        options: how.
    """
    named = dict(scores)
    named.setdefault(UNIFORM, np.zeros((len(votes.stories), len(votes.reviews))))
    human = from_votes(votes.counts(), options.human)
    evaluators = from_scores(np.stack(list(named.values())), options.temperature)
    values = measure_all(human, evaluators)  # [n_measures, n_evaluators, n_stories]
    replicates = resample(votes, evaluators, options.human, options.resamples, options.seed)
    if len(votes.stories) == len(votes.participants) == 1:  # every resample is the same: no interval, not a narrow one
        replicates = Replicates(replicates.means[:0], replicates.differences[:0])
    results = tuple(
        Result(
            name, values[:, i], _estimates(values[:, i], replicates.means[..., i]), given, evaluators.probabilities[i]
        )
        for i, (name, given) in enumerate(named.items())
    )
    return Evaluation(votes, human, results, _people(votes, options), tuple(_compare_all(results, replicates)), options)


def _estimates(values: Floats, replicates: Floats) -> dict[str, Estimate]:
    measures = enumerate(MEASURES.items())
    return {name: estimate(values[m], replicates[:, m], measure.bounds) for m, (name, measure) in measures}


def _people(votes: Votes, options: Options) -> Agreement:
    splits = split_halves(votes, options.human, options.seed)
    known = ~np.isnan(splits)
    total = known.sum(0)
    values = np.divide(np.where(known, splits, 0).sum(0), total, out=np.full(total.shape, np.nan), where=total > 0)
    means = ceiling_means(splits, options.resamples, options.seed)
    return Agreement(PEOPLE, values, _estimates(values, means))


def _compare_all(results: tuple[Result, ...], replicates: Replicates) -> list[Comparison]:
    return [
        compare(
            name,
            (results[a].name, results[b].name),
            results[a].values[m],
            results[b].values[m],
            replicates.differences[:, m, pair],
        )
        for m, name in enumerate(MEASURES)
        for pair, (a, b) in enumerate(pairs_of(len(results)))
    ]
