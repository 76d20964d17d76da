"""How near is an evaluator's distribution to people's? Each measure takes [..., n_reviews] and gives [...]."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from carp.evaluation.evaluators import Floats
from carp.evaluation.votes.distributions import Distribution


def cosine(human: Distribution, evaluator: Distribution) -> Floats:
    """Cosine similarity of the two distributions (CARP, Figure 4, top), in [0, 1]."""
    p, q = human.probabilities, evaluator.probabilities
    found: Floats = (p * q).sum(-1) / np.linalg.norm(p, axis=-1) / np.linalg.norm(q, axis=-1)
    return np.minimum(found, 1.0)


def kl(human: Distribution, evaluator: Distribution) -> Floats:
    """KL(human || evaluator) in nats (CARP, Figure 4, bottom); at least 0, without an upper bound."""
    from scipy.special import entr

    p = human.probabilities
    # From logarithms: a probability too small for a float still has one.
    found: Floats = -(entr(p) + p * evaluator.logs).sum(-1)
    return np.maximum(found, 0.0)


def jensen_shannon(human: Distribution, evaluator: Distribution) -> Floats:
    """Jensen-Shannon divergence in bits, in [0, 1]; symmetric, and bounded where KL is not."""
    from scipy.special import rel_entr

    p, q = human.probabilities, evaluator.probabilities
    middle = (p + q) / 2
    found: Floats = (rel_entr(p, middle) + rel_entr(q, middle)).sum(-1) / 2 / np.log(2)
    return np.clip(found, 0.0, 1.0)


def spearman(human: Distribution, evaluator: Distribution) -> Floats:
    """Spearman's rank correlation of votes and scores, ties with their mean rank; NaN where either is constant."""
    from scipy.stats import rankdata

    a, b = (rankdata(found.scores, axis=-1) for found in (human, evaluator))
    a, b = (ranks - ranks.mean(axis=-1, keepdims=True) for ranks in (a, b))
    size = np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    product: Floats = (a * b).sum(-1)
    return np.clip(np.divide(product, size, out=np.full(product.shape, np.nan), where=size > 0), -1.0, 1.0)


def top1(human: Distribution, evaluator: Distribution) -> Floats:
    """Is the evaluator's best review one with most votes? In [0, 1].

    Where several reviews share the evaluator's best score, the chance that one drawn among them has most votes; where
    several have most votes, each of them is right.
    """
    best, chosen = best_reviews(human.scores), best_reviews(evaluator.scores)
    found: Floats = (best & chosen).sum(-1) / chosen.sum(-1)
    return found


def best_reviews(scores: Floats) -> np.ndarray:
    """Which reviews have the highest score [..., n_reviews]? Several where they tie."""
    found: np.ndarray = scores == scores.max(axis=-1, keepdims=True)
    return found


class Measure(NamedTuple):
    """A measure, how tables call it, whether more of it is better, and its least and greatest value."""

    compute: Callable[[Distribution, Distribution], Floats]
    label: str
    higher_is_better: bool
    bounds: tuple[float, float]


MEASURES = {
    "cosine": Measure(cosine, "cosine", True, (0, 1)),
    "kl": Measure(kl, "KL(human ‖ evaluator), nats", False, (0, np.inf)),
    "spearman": Measure(spearman, "Spearman", True, (-1, 1)),
    "top1": Measure(top1, "top-1 agreement", True, (0, 1)),
    "jensen_shannon": Measure(jensen_shannon, "Jensen-Shannon, bits", False, (0, 1)),
}


def measure_all(human: Distribution, evaluator: Distribution) -> Floats:
    """Every measure of :data:`MEASURES` [n_measures, ...]."""
    return np.stack([measure.compute(human, evaluator) for measure in MEASURES.values()])
