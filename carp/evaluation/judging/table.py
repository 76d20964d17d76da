"""Table 1 of Chiang and Lee out of ratings, its t-tests, and the correlations of their tables 2 and 6.

What the paper does not say follows from its numbers. Standard deviations are of single ratings: those of T0 (1.5 and
more, at an alpha near 0) are too large for means of three. The t-test takes each rating for a case: with the means of
stories as cases, T0's preference on likability would not be significant. Ratings of one story depend on each other, so
the test on the stories' means stands beside it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from carp.evaluation.ratings.agreement import Estimate, agreement
from carp.evaluation.ratings.coefficients import tau_b
from carp.evaluation.ratings.comparison import PEOPLE, Comparison, corrected, welch
from carp.evaluation.ratings.intervals import percentile_interval, resampled_counts, scipy_stats
from carp.evaluation.ratings.resampling import tabulated
from carp.evaluation.ratings.samples import Pairs, sample
from carp.evaluation.ratings.summaries import Summary, summarise
from carp.evaluation.ratings.table import Floats, Integers, Ratings

ALL = "all stories"
RATINGS, MEANS = "ratings", "story means"  # cases of a t-test
RESAMPLES = 2000
SIGNIFICANT = 0.05
STRENGTHS = ((0.1, "very weak"), (0.2, "weak"), (0.3, "moderate"))  # Botsch, by the paper's footnote 4; else strong


@dataclass(frozen=True)
class Row:
    """Ratings of a group of stories on one scale; ``raters`` is the judge's answers, or people."""

    raters: str
    group: str
    scale: str
    summary: Summary
    all_equal: Estimate
    alpha_ordinal: Estimate
    alpha_interval: Estimate
    kendall: Estimate  # the mean of the tau-b of all pairs of raters: table 6


@dataclass(frozen=True)
class Correlation:
    """Kendall's tau-b of the judge's and the people's mean ratings of stories (table 2)."""

    group: str
    scale: str
    tau: Estimate
    strength: str


def make_rows(raters: str, ratings: Ratings, groups: dict[str, Integers], seed: int) -> list[Row]:
    """Means, spread and agreement of each group on each scale, with bootstrap intervals over stories.

    Args:
        raters: whose ratings they are.
        ratings: the ratings.
        groups: name -> rows of the ratings.
        seed: of the bootstrap.
    """
    found = []
    for group, rows in groups.items():
        for scale, values in ratings.values.items():
            estimates = agreement(sample(ratings, [values], rows), RESAMPLES, seed)
            found.append(
                Row(
                    raters=raters,
                    group=group,
                    scale=scale,
                    summary=summarise(group, scale, values[rows], ratings.story[rows]),
                    all_equal=estimates["all_equal"],
                    alpha_ordinal=estimates["alpha_ordinal"],
                    alpha_interval=estimates["alpha_interval"],
                    kendall=estimates["kendall_by_raters"],
                )
            )
    return found


def rows_by_group(ratings: Ratings, group_of: dict[str, str | None]) -> dict[str, Integers]:
    """Rows of each group of stories, then of all: name -> rows; stories that are in no group are left out.

    Args:
        ratings: of stories.
        group_of: story -> group; ``None`` where there are no groups.
    """
    names = np.array([group_of.get(ratings.stories[story], "") or "" for story in ratings.story])
    known = np.isin(ratings.story, [i for i, name in enumerate(ratings.stories) if name in group_of])
    groups = list(dict.fromkeys(group for group in group_of.values() if group))
    found = {group: np.flatnonzero(names == group) for group in groups}
    return {**found, ALL: np.flatnonzero(known)} if len(groups) != 1 else found


def compare_groups(ratings: Ratings, groups: dict[str, Integers]) -> dict[str, list[Comparison]]:
    """Welch's t-test between two groups: kind of case -> one test per scale; empty unless there are two groups.

    People are the reference where a group is called so, else the second group is.
    """
    names = [group for group in groups if group != ALL]
    if len(names) != 2:
        return {}
    reference = next((name for name in names if name.lower() in PEOPLE), names[1])
    other = next(name for name in names if name != reference)
    found = {}
    for kind in (RATINGS, MEANS):
        tests = []
        for scale, values in ratings.values.items():
            left, right = (
                _cases(values[groups[name]], ratings.story[groups[name]], kind) for name in (other, reference)
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # of one side whose ratings are all equal: no harm
                tests.append(welch(other, reference, scale, left, right))
        found[kind] = corrected(tests)
    return found


def _cases(values: Floats, story: Integers, kind: str) -> Floats:
    rated = ~np.isnan(values)
    return values[rated] if kind == RATINGS else np.array(list(_means(values, story).values()))


def _means(values: Floats, story: Integers) -> dict[int, float]:
    rated = ~np.isnan(values)
    values, story = values[rated], story[rated]
    return {int(one): float(values[story == one].mean()) for one in np.unique(story)}


def correlate(judge: Ratings, people: Ratings, groups: dict[str, Integers], seed: int) -> list[Correlation]:
    """Kendall's tau between the judge and people: of each story, the mean of the judge's and of the people's ratings.

    Args:
        judge: its ratings.
        people: theirs; stories that only one side has rated are left out.
        groups: name -> rows of the judge's ratings.
        seed: of the bootstrap over stories.
    """
    found = []
    for group, rows in groups.items():
        for scale, values in judge.values.items():
            if scale not in people.values:
                continue
            ours = _by_name(judge, values, rows)
            theirs = _by_name(people, people.values[scale], np.arange(len(people.story)))
            both = [name for name in ours if name in theirs]
            tau = kendall([ours[name] for name in both], [theirs[name] for name in both], seed)
            found.append(Correlation(group, scale, tau, strength(tau)))
    return found


def _by_name(ratings: Ratings, values: Floats, rows: Integers) -> dict[str, float]:
    return {ratings.stories[story]: mean for story, mean in _means(values[rows], ratings.story[rows]).items()}


def kendall(left: Sequence[float], right: Sequence[float], seed: int) -> Estimate:
    """Kendall's tau-b of two lists, with the p-value of scipy and a bootstrap interval over their places."""
    n = len(left)
    # Rounded: 11/3 is 11/3, however summed.
    first, second = (np.asarray(np.round(side, 9), np.float64) for side in (left, right))
    if n < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        why = "fewer than two stories" if n < 2 else "one side is constant"
        return Estimate(None, n, n, undefined=why)
    test = scipy_stats().kendalltau(first, second)
    places = np.arange(n)
    pairs = Pairs(first, second, places, places, np.zeros((n, 2), np.int64), np.ones(n))
    drawn = tabulated(pairs, resampled_counts(n, RESAMPLES, seed), {"tau": tau_b}, coincidences=False)["tau"]
    return Estimate(float(test.statistic), n, n, bootstrap=percentile_interval(drawn), p=float(test.pvalue))


def strength(tau: Estimate) -> str:
    """What the paper's footnote 4 calls a correlation; nothing for one that may be chance (p of 0.05 or more)."""
    if tau.value is None or tau.p is None or tau.p >= SIGNIFICANT:
        return ""
    return next((word for limit, word in STRENGTHS if abs(tau.value) < limit), "strong")


def undefined(rows: Sequence[Row], correlations: Sequence[Correlation]) -> list[str]:
    """Why figures are absent: ``judge, human, likability: all ratings are equal``."""
    of_rows = (
        (f"{row.raters}, {row.group}, {row.scale}", estimate.undefined)
        for row in rows
        for estimate in (row.all_equal, row.alpha_ordinal, row.kendall)
    )
    of_taus = ((f"judge and people, {one.group}, {one.scale}", one.tau.undefined) for one in correlations)
    return list(dict.fromkeys(f"{where}: {why}" for where, why in chain(of_rows, of_taus) if why))
