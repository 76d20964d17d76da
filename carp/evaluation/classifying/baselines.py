"""What a classifier has to be better than: the number of words, and a classifier that has seen labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from carp.errors import InputError
from carp.evaluation.classifying.labels import Integers
from carp.evaluation.evaluators import Floats

RATIO = 1.1  # texts of one stratum of lengths differ by this factor at most
FOLDS = 5


def word_counts(texts: Sequence[str]) -> Floats:
    """Words between white space [n]."""
    return np.array([len(text.split()) for text in texts], np.float64)


def length_strata(words: Floats) -> Integers:
    """Texts of about the same number of words, one to each stratum [n]; up to 11 words each number is one."""
    return np.floor(np.log(words) / np.log(RATIO) + 1e-9).astype(np.int64)


def check_sklearn() -> None:
    """Raise an InputError that names the extra, where scikit-learn is missing."""
    try:
        import sklearn  # noqa: F401
    except ImportError as error:
        raise InputError("measuring classifiers needs scikit-learn: pip install 'carp-critic[eval]'") from error


def probe(
    vectors: NDArray[np.float32], positive: NDArray[np.bool_], group: Integers, seed: int
) -> tuple[Floats, Integers]:
    """A logistic regression on embeddings, each case scored by one that has not seen its group.

    Args:
        vectors: [n, dim].
        positive: [n].
        group: [n]; a group is never divided between learning and scoring.
        seed: of the division into at most :data:`FOLDS` parts.

    Returns:
        Scores [n], NaN where nothing could be learnt, and the part [n] of each case: scores of different parts come
        from different regressions and must not be compared.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedGroupKFold

    scores, parts = np.full(len(vectors), np.nan), np.zeros(len(vectors), np.int64)
    folds = min(FOLDS, *(len(np.unique(group[positive == side])) for side in (True, False)))
    if folds < 2:
        return scores, parts
    division = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    for part, (learnt, scored) in enumerate(division.split(vectors, positive, group)):
        parts[scored] = part
        if 0 < positive[learnt].sum() < len(learnt):
            regression = LogisticRegression(class_weight="balanced", max_iter=1000).fit(
                vectors[learnt], positive[learnt]
            )
            scores[scored] = regression.decision_function(vectors[scored])
    return scores, parts
