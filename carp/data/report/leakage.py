"""Does word overlap alone give the right critique away?

Each passage of n pairs looks for its critique by the cosine of TF-IDF vectors, with no model. What it finds beyond
chance (names, quotations) is what a model could find without understanding anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carp.constants import QUOTE_TOKEN
from carp.data.pairs import Pair
from carp.data.report.statistics import Interval
from carp.errors import InputError

CHUNK = 256
RESAMPLES = 1000
SEED = 0
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rate:
    """A mean over the pairs, its 95 % bootstrap interval over groups, and what chance gives."""

    value: float
    interval: Interval
    chance: float


@dataclass(frozen=True)
class Leakage:
    """Retrieval of the right critique by word overlap among the critiques of ``n`` pairs."""

    part: str
    n: int
    groups: int
    mean_rivals: float
    top1: Rate
    top5: Rate
    mean_reciprocal_rank: Rate


def leakage(part: str, pairs: list[Pair]) -> Leakage | None:
    """Retrieve critiques by TF-IDF cosine; ``None`` where no critique has a rival.

    Critiques of the same passage or group are no rivals. Equally similar critiques share the rank: a pair counts
    with the chance of being found in a random order of them.

    Args:
        part: what the pairs are a part of.
        pairs: n of them; time and memory grow with n x n and n.
    """
    passages, groups = _identities(pairs)
    rows = list(_compare(pairs, passages, groups))
    greater, equal, rivals = (np.concatenate(column) for column in zip(*rows, strict=True))
    if not rivals.any():
        return None
    zero = np.zeros_like(rivals)
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, len(pairs) + 1))])

    def rate(score: Callable[[NDArray[np.int64], NDArray[np.int64]], Floats]) -> Rate:
        values = score(greater, equal)
        return Rate(float(values.mean()), _bootstrap(values, groups), float(score(zero, rivals).mean()))

    return Leakage(
        part=part,
        n=len(pairs),
        groups=len(np.unique(groups)),
        mean_rivals=float(rivals.mean()),
        top1=rate(lambda above, ties: np.clip((1 - above) / (ties + 1), 0, 1)),
        top5=rate(lambda above, ties: np.clip((5 - above) / (ties + 1), 0, 1)),
        mean_reciprocal_rank=rate(lambda above, ties: (harmonic[above + ties + 1] - harmonic[above]) / (ties + 1)),
    )


def _identities(pairs: list[Pair]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    passages = np.unique([pair.passage for pair in pairs], return_inverse=True)[1]
    names = [
        f"passage {p}" if pair.group is None else f"group {pair.group}" for p, pair in zip(passages, pairs, strict=True)
    ]
    return passages, np.unique(names, return_inverse=True)[1]


def _compare(pairs: list[Pair], passages: NDArray[np.int64], groups: NDArray[np.int64]) -> Iterator[tuple[Any, ...]]:
    left, right = _vectors([pair.passage for pair in pairs], [pair.critique for pair in pairs])
    for start in range(0, len(pairs), CHUNK):
        rows = slice(start, start + CHUNK)
        cosines = np.asarray((left[rows] @ right.T).todense()).round(9)  # equal texts, equal cosines
        own = cosines[np.arange(len(cosines)), np.arange(start, start + len(cosines))][:, None]
        rival = (passages[rows, None] != passages) & (groups[rows, None] != groups)
        yield tuple((condition & rival).sum(1) for condition in (cosines > own, cosines == own, True))


def _vectors(passages: list[str], critiques: list[str]) -> tuple[Any, Any]:
    vectorizer = tfidf_vectorizer()
    texts = [text.replace(QUOTE_TOKEN, " ") for text in passages + critiques]
    try:
        vectors = vectorizer.fit_transform(texts)
    except ValueError:  # no words at all
        from scipy.sparse import csr_matrix

        vectors = csr_matrix((len(texts), 1))
    return vectors[: len(passages)], vectors[len(passages) :]


def tfidf_vectorizer() -> Any:
    """Scikit-learn's TF-IDF with sublinear counts.

    Raises:
        InputError: names the extra to install.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError as error:
        raise InputError("the leakage check needs scikit-learn: pip install 'carp-critic[report]'") from error
    return TfidfVectorizer(sublinear_tf=True)


def _bootstrap(values: Floats, groups: NDArray[np.int64]) -> Interval:
    sums, counts = np.bincount(groups, values), np.bincount(groups)
    random = np.random.default_rng(SEED)
    means = []
    for _ in range(RESAMPLES):
        drawn = random.integers(len(sums), size=len(sums))
        means.append(sums[drawn].sum() / counts[drawn].sum())
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
