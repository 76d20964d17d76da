"""Evaluators two by two, on the same stories."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from carp.evaluation.evaluators import Floats
from carp.evaluation.votes.bootstrap import Estimate, estimate
from carp.evaluation.votes.measures import MEASURES

DECIMALS = 12  # differences below are rounding errors, and ties


@dataclass(frozen=True)
class Comparison:
    """How much ``first`` differs from ``second`` in one measure; the tests' p-values are two-sided.

    ``None`` where no story has both values. The tests take the stories for the sample, and know nothing of how few
    people may have voted; the interval of the difference knows both.
    """

    measure: str
    first: str
    second: str
    difference: Estimate  # first minus second
    first_better: int  # stories
    second_better: int
    equal: int
    wilcoxon_p: float | None
    sign_p: float | None


def compare(measure: str, names: tuple[str, str], first: Floats, second: Floats, replicates: Floats) -> Comparison:
    """Compare two evaluators.

    Args:
        measure: one of :data:`~carp.evaluation.votes.measures.MEASURES`.
        names: of the two.
        first, second: [n_stories] each, NaN where undefined.
        replicates: [resamples] mean differences; empty where there is nothing to resample.
    """
    difference = np.round(first - second, DECIMALS)
    defined = difference[~np.isnan(difference)]
    better = defined if MEASURES[measure].higher_is_better else -defined
    wins, losses = int((better > 0).sum()), int((better < 0).sum())
    return Comparison(
        measure,
        *names,
        estimate(difference, replicates),
        wins,
        losses,
        len(defined) - wins - losses,
        _wilcoxon(defined),
        _sign_test(wins, losses) if len(defined) else None,
    )


def _wilcoxon(differences: Floats) -> float | None:
    from scipy.stats import wilcoxon

    if not differences.any():  # nothing to rank: no difference at all, or no story
        return 1.0 if len(differences) else None
    return float(wilcoxon(differences).pvalue)


def _sign_test(wins: int, losses: int) -> float:
    from scipy.stats import binomtest

    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0
