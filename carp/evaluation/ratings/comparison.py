"""Systems against a reference system: Welch's t-tests, with and without Holm's correction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from carp.errors import InputError
from carp.evaluation.ratings.intervals import CONFIDENCE, Interval, scipy_stats
from carp.evaluation.ratings.summaries import rows_of, systems
from carp.evaluation.ratings.table import Floats, Integers, Ratings

PEOPLE = ("human", "humans", "people")  # systems that are the reference where no option names one
OVERALL, POOLED, STORIES, RATERS = "overall", "scales pooled", "story means", "same raters"
WHAT = {
    OVERALL: "overall scores, each rating a case",
    POOLED: "ratings on all scales, each rating on a scale a case",
    STORIES: "the mean overall score of each story, each story a case",
    RATERS: "the mean overall score by each rater, for the raters of both, each rater a case; a paired t-test",
}


@dataclass(frozen=True)
class Comparison:
    """A system against the reference: the difference of means, its 95 % interval and a two-sided test.

    ``p_holm`` is corrected for the tests of all systems on the same scores. ``undefined`` says why there is no test.
    """

    system: str
    reference: str
    scores: str  # a key of WHAT, or a scale
    n: int
    n_reference: int
    difference: float | None = None
    interval: Interval | None = None
    t: float | None = None
    degrees: float | None = None
    p: float | None = None
    p_holm: float | None = None
    undefined: str = ""


def choose_reference(ratings: Ratings, name: str) -> str | None:
    """The system to compare with: the named one, or people where they are among the systems.

    Raises:
        InputError: there is no such system.
    """
    if name in ratings.systems:
        return name
    if name:
        known = f"systems: {', '.join(ratings.systems)}" if ratings.systems else "name their column with --system"
        raise InputError(f"--reference {name}: {ratings.source} has no such system ({known})")
    return next((system for system in ratings.systems if system.lower() in PEOPLE), None)


def compare(ratings: Ratings, reference: str) -> dict[str, list[Comparison]]:
    """Test every system against the reference: on the scores of :data:`WHAT`, then on each scale.

    Source: "A Confederacy of Models", section 4.2 (:data:`OVERALL`, :data:`POOLED`), sections 4.3 to 4.5 (scales).
    """
    tests: dict[str, list[Comparison]] = {}
    for scores in (*WHAT, *ratings.values):
        if ratings.single and scores in (POOLED, *ratings.values):
            continue
        others = [system for system in systems(ratings) if system != reference]
        tests[scores] = corrected([_compare(ratings, scores, system, reference) for system in others])
    return tests


def _compare(ratings: Ratings, scores: str, system: str, reference: str) -> Comparison:
    if scores == RATERS:
        left, right = (_means(ratings.overall, ratings.rater, rows_of(ratings, one)) for one in (system, reference))
        both = [rater for rater in left if rater in right]
        return paired(system, reference, [left[rater] for rater in both], [right[rater] for rater in both])
    return welch(system, reference, scores, *(_cases(ratings, scores, one) for one in (system, reference)))


def _cases(ratings: Ratings, scores: str, system: str) -> Floats:
    rows = rows_of(ratings, system)
    if scores == STORIES:
        return np.array(list(_means(ratings.overall, ratings.story, rows).values()))
    columns = {OVERALL: [ratings.overall], POOLED: list(ratings.values.values())}
    values = np.concatenate([column[rows] for column in columns.get(scores) or [ratings.values[scores]]])
    return values[~np.isnan(values)]


def _means(values: Floats, of: Integers, rows: Integers) -> dict[int, float]:
    rated = rows[~np.isnan(values[rows])]
    return {int(key): float(values[rated[of[rated] == key]].mean()) for key in np.unique(of[rated])}


def welch(system: str, reference: str, scores: str, left: Floats, right: Floats) -> Comparison:
    """Welch's t-test (unequal variances, two-sided) of ``left``, the system, against ``right``, the reference."""
    found = Comparison(system, reference, scores, len(left), len(right))
    if min(len(left), len(right)) < 2:
        return replace(found, undefined="fewer than two scores on one side")
    if np.ptp(left) == 0 and np.ptp(right) == 0:
        return replace(found, undefined="all scores of each side are equal")
    return _tested(found, float(left.mean() - right.mean()), scipy_stats().ttest_ind(left, right, equal_var=False))


def paired(system: str, reference: str, left: Sequence[float], right: Sequence[float]) -> Comparison:
    """The paired t-test of the scores of the same raters."""
    found = Comparison(system, reference, RATERS, len(left), len(right))
    differences = np.subtract(left, right)
    if len(left) < 2:
        return replace(found, undefined="fewer than two raters rated both")
    if np.ptp(differences) <= 1e-9 * np.abs(differences).max():
        return replace(found, undefined="the difference is the same for all raters")
    return _tested(found, float(differences.mean()), scipy_stats().ttest_rel(left, right))


def _tested(found: Comparison, difference: float, test: object) -> Comparison:
    low, high = test.confidence_interval(CONFIDENCE)  # type: ignore[attr-defined]  # scipy has no types
    t, degrees, p = (float(getattr(test, name)) for name in ("statistic", "df", "pvalue"))
    return replace(found, difference=difference, interval=(float(low), float(high)), t=t, degrees=degrees, p=p)


def corrected(tests: Sequence[Comparison]) -> list[Comparison]:
    """The tests with Holm's correction for all those that are defined."""
    adjusted = iter(holm([test.p for test in tests if test.p is not None]))
    return [test if test.p is None else replace(test, p_holm=next(adjusted)) for test in tests]


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values (Holm, 1979): the i-th smallest of m times m - i + 1, never falling, at most 1."""
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(len(p_values))
    factors = np.arange(len(p_values), 0, -1)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(np.asarray(p_values)[order] * factors))
    return [float(p) for p in adjusted]
