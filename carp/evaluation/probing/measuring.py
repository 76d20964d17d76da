"""By how much does the fitting remark rise when a passage is damaged, and by how little when nothing is?

Scores of different remarks lie at different heights and spread differently, so every change is counted in standard
deviations of that remark's scores over the undamaged passages. Intervals: bootstrap over groups of passages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from carp.data.damage.kinds import KINDS, Kind
from carp.errors import InputError
from carp.evaluation.evaluators import Floats
from carp.evaluation.probing.changes import INVARIANCES, first_half
from carp.evaluation.probing.passages import Passages
from carp.evaluation.resampling import Estimate, Resampling, estimate
from carp.reviews import REVIEWS

Scorer = Callable[[Sequence[str], Sequence[str]], Floats]  # passages, reviews -> [passages, reviews]
TOO_FEW = "no passage can be damaged so"


@dataclass(frozen=True)
class Probed:
    """One kind of damage.

    Attributes:
        passages, groups: that could be damaged.
        rise: of the fitting remarks, less the mean rise of the other kinds' remarks.
        won: share of passages in which the fitting remarks rise above that mean.
        rises: kind -> mean rise of its remarks.
    """

    kind: Kind
    passages: int
    groups: int
    rise: Estimate
    won: Estimate
    rises: Mapping[str, float]


@dataclass(frozen=True)
class Moved:
    """How far the scores of the nine reviews move with a change that means nothing: mean absolute change."""

    change: str
    passages: int
    distance: Estimate


@dataclass(frozen=True)
class Shortened:
    """How a review's score changes where only the first half of a passage is left."""

    review: str
    change: Estimate


@dataclass(frozen=True)
class Probe:
    """Everything that a probe has found."""

    kinds: list[Probed]
    invariances: list[Moved]
    length: list[Shortened]


def probe(passages: Passages, score: Scorer, resampling: Resampling, seed: int = 0) -> Probe:
    """Probe a model.

    Args:
        passages: undamaged ones.
        score: gives the scores [n, m] of ``n`` passages for ``m`` reviews.
        resampling: of groups.
        seed: of the damage.

    Raises:
        InputError: if a review has the same score for every passage.
    """
    weights = resampling.weights(int(passages.group.max()) + 1)[:, passages.group]
    return Probe(
        _damages(passages, score, weights, seed),
        _invariances(passages, score, weights),
        _length(passages, score, weights),
    )


def _damages(passages: Passages, score: Scorer, weights: Floats, seed: int) -> list[Probed]:
    remarks = [remark for kind in KINDS for remark in kind.remarks("probe")]
    owner = np.repeat(np.eye(len(KINDS)), [len(kind.remarks("probe")) for kind in KINDS], axis=0)
    clean = score(passages.texts, remarks)
    scale = _spread(clean, remarks)
    found = []
    for column, kind in enumerate(KINDS):
        damaged = {i: text for i, p in enumerate(passages.texts) if (text := kind.damaged(p, "probe", seed))}
        rows = list(damaged)
        if not rows:
            found.append(Probed(kind, 0, 0, Estimate(None, undefined=TOO_FEW), Estimate(None, undefined=TOO_FEW), {}))
            continue
        rises = (score(list(damaged.values()), remarks) - clean[rows]) / scale @ (owner / owner.sum(0))  # [rows, kinds]
        rise = rises[:, column] - np.delete(rises, column, axis=1).mean(1)
        found.append(
            Probed(
                kind,
                len(rows),
                len(np.unique(passages.group[rows])),
                _mean(rise, weights[:, rows]),
                _mean((rise > 0).astype(np.float64), weights[:, rows]),
                {other.name: float(value) for other, value in zip(KINDS, rises.mean(0), strict=True)},
            )
        )
    return found


def _invariances(passages: Passages, score: Scorer, weights: Floats) -> list[Moved]:
    clean = score(passages.texts, REVIEWS)
    scale = _spread(clean, REVIEWS)
    found = []
    for name, change in INVARIANCES.items():
        changed = {i: text for i, passage in enumerate(passages.texts) if (text := change(passage)) != passage}
        rows = list(changed)
        moved = np.abs(score(list(changed.values()), REVIEWS) - clean[rows]) / scale if rows else np.zeros((0, 1))
        found.append(Moved(name, len(rows), _mean(moved.mean(1), weights[:, rows])))
    return found


def _length(passages: Passages, score: Scorer, weights: Floats) -> list[Shortened]:
    clean = score(passages.texts, REVIEWS)
    halves = score([first_half(text) for text in passages.texts], REVIEWS)
    changes = (halves - clean) / _spread(clean, REVIEWS)
    return [Shortened(review, _mean(changes[:, i], weights)) for i, review in enumerate(REVIEWS)]


def _spread(scores: Floats, reviews: Sequence[str]) -> Floats:
    """Standard deviations [m] over passages."""
    spread = scores.std(0)
    if (flat := np.flatnonzero(spread < 1e-9)).size:
        raise InputError(f"every passage has the same score for {reviews[flat[0]]!r}: give passages that differ")
    return spread


def _mean(values: Floats, weights: Floats) -> Estimate:
    """The weighted mean of values [n] under weights [1 + resamples, n], as an estimate."""
    if not len(values):
        return Estimate(None, undefined=TOO_FEW)
    totals = weights.sum(1)
    means = np.where(totals > 0, weights @ values / np.where(totals > 0, totals, 1), np.nan)
    return estimate(means, TOO_FEW)
