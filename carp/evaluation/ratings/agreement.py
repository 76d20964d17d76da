"""Agreement of raters: each coefficient with its number of cases and its intervals.

The bootstrap resamples stories, with all their ratings: the ratings of a story on ten scales, and by several raters,
depend on each other. Asymptotic intervals take pairs for independent; where scales are pooled or a story has more than
two raters, they are too narrow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from carp.evaluation.ratings.coefficients import COINCIDENCES, CONTINGENCY, KAPPA_POWERS, kappa_error
from carp.evaluation.ratings.intervals import (
    Interval,
    fisher_interval,
    icc_interval,
    normal_interval,
    percentile_interval,
    resampled_counts,
    scipy_stats,
)
from carp.evaluation.ratings.resampling import (
    MAX_VALUES,
    SHARED_STORIES,
    coefficients,
    count_tables,
    pairs_of_raters,
    variance,
)
from carp.evaluation.ratings.samples import Sample
from carp.evaluation.ratings.table import Floats

OF_UNITS = ("all_equal", *COINCIDENCES, "icc_1", "icc_1k")
OF_VALUES = (*CONTINGENCY, *COINCIDENCES, "kendall_by_raters")
P_VALUES = {"pearson": "pearsonr", "kendall": "kendalltau"}  # of scipy.stats


@dataclass(frozen=True)
class Estimate:
    """A coefficient; ``value`` is ``None`` where it is not defined, and ``undefined`` says why.

    ``n`` counts pairs of ratings, or units (a story, or a story on a scale), whichever the coefficient is made of;
    ``p`` is that of no correlation, for independent pairs.
    """

    value: float | None
    n: int
    stories: int
    bootstrap: Interval | None = None
    asymptotic: Interval | None = None
    p: float | None = None
    undefined: str = ""


def agreement(sample: Sample, resamples: int, seed: int) -> dict[str, Estimate]:
    """Every coefficient of one scale, of pooled scales or of the overall score.

    Args:
        sample: the ratings.
        resamples: how often the stories are resampled, for the bootstrap intervals.
        seed: of the resampling; samples of as many stories see the same draws.
    """
    values = coefficients(sample, np.ones((1, sample.stories)))
    several = sample.stories > 1
    spread = coefficients(sample, resampled_counts(sample.stories, resamples, seed)) if several else {}
    return {name: _estimate(name, sample, float(value[0]), spread.get(name)) for name, value in values.items()}


def _estimate(name: str, sample: Sample, value: float, spread: Floats | None) -> Estimate:
    n = sample.units if name in OF_UNITS else len(sample.pairs.first)
    if why := _undefined(name, sample, value):
        return Estimate(None, n, sample.stories, undefined=why)
    return Estimate(
        value=value,
        n=n,
        stories=sample.stories,
        bootstrap=None if spread is None else percentile_interval(spread),
        asymptotic=_asymptotic(name, sample, value),
        p=_p_value(name, sample),
    )


def _undefined(name: str, sample: Sample, value: float) -> str:
    if not sample.units:
        return "no story has two ratings"
    if name in ("exact", "all_equal"):
        return ""
    if sample.units == 1:
        return "one story only"
    if np.ptp(sample.values) == 0:
        return "all ratings are equal"
    if name in OF_VALUES and len(sample.pairs.values) > MAX_VALUES:
        return f"more than {MAX_VALUES} different ratings"
    if name.endswith("_by_raters") and not pairs_of_raters(sample.pairs):
        return f"no two raters share {SHARED_STORIES} stories"
    if np.isnan(value):
        return "all stories have the same mean" if name == "icc_1k" else "one side of the pairs is constant"
    return ""


def _asymptotic(name: str, sample: Sample, value: float) -> Interval | None:
    pairs = sample.pairs
    if name in KAPPA_POWERS:
        table = next(count_tables(pairs, np.ones((1, sample.stories)), coincidences=False))
        return normal_interval(value, kappa_error(table, pairs.values, KAPPA_POWERS[name]))
    if name == "pearson":
        return fisher_interval(value, len(pairs.first))
    if name in ("icc_1", "icc_1k"):
        return icc_interval(*variance(sample), sample.units, len(sample.values), of_means=name == "icc_1k")
    return None


def _p_value(name: str, sample: Sample) -> float | None:
    if name not in P_VALUES or len(sample.pairs.first) < 3:
        return None
    return float(getattr(scipy_stats(), P_VALUES[name])(sample.pairs.first, sample.pairs.second).pvalue)
