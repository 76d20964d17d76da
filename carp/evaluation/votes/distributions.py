"""Scores and votes as distributions over the reviews of a story (CARP, section 4.2)."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal, NamedTuple

import numpy as np

from carp.errors import InputError
from carp.evaluation.evaluators import Floats

Human = Literal["softmax", "shares"]
HALF_A_VOTE = 0.5


class Distribution(NamedTuple):
    """Scores of reviews and the probabilities that they stand for, each [..., n_reviews]."""

    scores: Floats
    probabilities: Floats
    logs: Floats  # of the probabilities: finite where a softmax made them, however small they are


def check_scipy() -> None:
    """Raise an InputError that names the extra, where scipy is missing."""
    if find_spec("scipy") is None:
        raise InputError("comparing evaluators with people needs scipy: pip install 'carp-critic[eval]'")


def from_scores(scores: Floats, temperature: float = 1.0) -> Distribution:
    """The paper's normalisation: the minimum is subtracted, then the softmax.

    The subtraction changes nothing but the size of the exponents: a softmax does not see what is added to all scores.
    How far the scores lie apart decides everything. Counts of votes lie so far apart that nearly all probability falls
    on the review with most votes; cosines so near together that the distribution is nearly uniform.

    Args:
        scores: [..., n_reviews].
        temperature: divides them; the paper has none (1).
    """
    from scipy.special import log_softmax

    logs = log_softmax((scores - scores.min(axis=-1, keepdims=True)) / temperature, axis=-1)
    return Distribution(scores, np.exp(logs), logs)


def from_votes(counts: Floats, human: Human) -> Distribution:
    """People's distribution: that of the paper, or each review's share of the votes on its story.

    Args:
        counts: [..., n_reviews] votes. Without any vote the distribution is uniform.
        human: ``"softmax"`` of the counts, as in the paper, or ``"shares"``.
    """
    if human == "softmax":
        return from_scores(counts)
    total = counts.sum(axis=-1, keepdims=True)
    shares = np.where(total > 0, counts / np.maximum(total, 1), 1 / counts.shape[-1])
    with np.errstate(divide="ignore"):  # a review without votes has no share at all
        return Distribution(counts, shares, np.log(shares))


def predicted_from_votes(counts: Floats, human: Human) -> Distribution:
    """The distribution that some people's votes [..., n_reviews] predict of others' votes.

    Where shares are used, every review gets half a vote more: no prediction says never, or the divergence of a single
    unforeseen vote would be infinite.
    """
    return from_votes(counts + HALF_A_VOTE if human == "shares" else counts, human)
