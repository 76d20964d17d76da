"""Toxicity of negative critiques (the paper, Table 1): detoxify's model, else alt-profanity-check.

The paper used the package detoxify, which fetches pickled checkpoints. Its authors publish the same model as
``unitary/toxic-bert`` in safetensors, so that model is loaded from there and nothing is unpickled.

alt-profanity-check is the one package of the index with a trained, graded score inside (others are lists of words,
which know no threshold). Importing it makes joblib unpickle two files of its own wheel. That is no wider a door than
importing its code from the same wheel, but it is why nothing else in carp loads it, why the report says so, and why
``--toxicity-model none`` turns it off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carp.data.report.classifier import Classifier, find_classifier
from carp.data.report.statistics import Share, share
from carp.errors import InputError

DEFAULT = "unitary/toxic-bert"
PROFANITY = "alt-profanity-check"
NONE = "none"
HALF = 0.5
Scores = dict[str, NDArray[np.float64]]
MEASURES = {"toxicity": ("toxic", "toxicity"), "insult": ("insult",)}  # measure: labels of detoxify's models


@dataclass(frozen=True)
class ToxicityScorer:
    """``score`` maps texts to ``{measure: [n] in [0, 1]}``; none where ``score`` is ``None``."""

    name: str
    note: str
    scale_of_detoxify: bool
    score: Callable[[list[str], bool], Scores] | None


@dataclass(frozen=True)
class Measure:
    """How many of the negative critiques score above the threshold, and above one half."""

    above_threshold: Share
    above_half: Share
    median: float | None
    p95: float | None


def find_scorer(model: str = "") -> ToxicityScorer:
    """The scorer that ``model`` names: a folder, a Hub id, ``alt-profanity-check`` or ``none``; or the best there is.

    Raises:
        InputError: if the named one cannot be had.
    """
    if model == NONE:
        return ToxicityScorer("none", "not asked for", False, None)
    if model == PROFANITY:
        return _profanity_scorer("asked for")
    if model:
        return _classifier_scorer(find_classifier((model,)))
    try:
        return _classifier_scorer(find_classifier((DEFAULT,)))
    except InputError as error:
        why = str(error)
    try:
        return _profanity_scorer(why)
    except InputError as error:
        return ToxicityScorer("none", str(error), False, None)


def measure(scorer: ToxicityScorer, negatives: list[str], threshold: float, progress: bool) -> dict[str, Measure]:
    """Score the negative critiques; nothing without a scorer."""
    if scorer.score is None:
        return {}
    scores = scorer.score(negatives, progress) if negatives else {}
    return {name: _measure(values, threshold) for name, values in scores.items()}


def _measure(values: NDArray[np.float64], threshold: float) -> Measure:
    return Measure(
        above_threshold=share(int((values > threshold).sum()), len(values)),
        above_half=share(int((values > HALF).sum()), len(values)),
        median=float(np.median(values)),
        p95=float(np.percentile(values, 95)),
    )


def _classifier_scorer(classifier: Classifier) -> ToxicityScorer:
    columns = {
        name: i for name, known in MEASURES.items() for i, label in enumerate(classifier.labels) if label in known
    }
    if "toxicity" not in columns:
        names = ", ".join(classifier.labels)
        raise InputError(f"--toxicity-model {classifier.name}: needs a label toxic or toxicity, has {names}")

    def score(texts: list[str], progress: bool) -> Scores:
        found = classifier.scores(texts, "sigmoid", progress)
        return {name: found[:, i] for name, i in columns.items()}

    if classifier.name.startswith(DEFAULT):
        return ToxicityScorer(classifier.name, 'the model "original" of detoxify, as in the paper', True, score)
    return ToxicityScorer(classifier.name, "not the model of the paper", False, score)


def _profanity_scorer(why: str) -> ToxicityScorer:
    try:
        from profanity_check import predict_prob
    except ImportError as error:
        hint = "pip install 'carp-critic[toxicity]' carries alt-profanity-check"
        raise InputError(f"no toxicity model: {why}; {hint}") from error

    def score(texts: list[str], progress: bool) -> Scores:
        return {"offensive": np.asarray(predict_prob(texts), np.float64)}

    note = f"a linear model of offensive words, no measure of insult; it unpickles its own package data ({why})"
    return ToxicityScorer(PROFANITY, note, False, score)
