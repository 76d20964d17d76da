"""Sentiment of critiques: a classifier of the Hub, else VADER."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from carp.data.report.classifier import Classifier, find_classifier
from carp.data.report.statistics import Lengths, Share, lengths, share
from carp.errors import InputError

DEFAULT = "distilbert-base-uncased-finetuned-sst-2-english"
NAMES = (f"distilbert/{DEFAULT}", DEFAULT)  # its present name on the Hub, and the one old caches hold
VADER = "vader"
NEAR_ZERO = 0.05  # what VADER's authors call neutral


@dataclass(frozen=True)
class SentimentScorer:
    """``score`` maps texts to [n] in [-1, 1]; zero and above count as positive."""

    name: str
    note: str
    score: Callable[[list[str], bool], NDArray[np.float64]]


@dataclass(frozen=True)
class Sentiment:
    """Sentiment of a sample of critiques, and how long (in words) positive and negative ones are."""

    n: int
    positive: Share
    negative: Share
    near_zero: Share
    positive_words: Lengths | None
    negative_words: Lengths | None


def find_scorer(model: str = "") -> SentimentScorer:
    """The scorer that ``model`` names (a folder, a Hub id, or ``vader``); by default the best that can be had.

    Raises:
        InputError: if the named one, or none, can be had.
    """
    if model == VADER:
        return _vader_scorer("asked for")
    if model:
        return _classifier_scorer(find_classifier(NAMES if model == DEFAULT else (model,)))
    try:
        return _classifier_scorer(find_classifier(NAMES))
    except InputError as error:
        return _vader_scorer(str(error))


def measure(scorer: SentimentScorer, critiques: list[str], progress: bool) -> tuple[Sentiment, list[str]]:
    """Sentiment of the critiques, and the negative ones."""
    scores = scorer.score(critiques, progress)
    words = np.array([len(text.split()) for text in critiques], np.int64)
    positive, n = scores >= 0, len(critiques)
    found = Sentiment(
        n=n,
        positive=share(int(positive.sum()), n),
        negative=share(int((~positive).sum()), n),
        near_zero=share(int((np.abs(scores) < NEAR_ZERO).sum()), n),
        positive_words=lengths(words[positive]),
        negative_words=lengths(words[~positive]),
    )
    return found, [text for text, good in zip(critiques, positive, strict=True) if not good]


def _classifier_scorer(classifier: Classifier) -> SentimentScorer:
    positive, negative = (_label(classifier, start) for start in ("pos", "neg"))

    def score(texts: list[str], progress: bool) -> NDArray[np.float64]:
        found = classifier.scores(texts, "softmax", progress)
        return np.asarray(found[:, positive] - found[:, negative])

    note = "positive: at least as probable as negative; texts are cut at the model's context"
    return SentimentScorer(classifier.name, note, score)


def _label(classifier: Classifier, start: str) -> int:
    found = [i for i, label in enumerate(classifier.labels) if label.lower().startswith(start)]
    if len(found) != 1:
        names = ", ".join(classifier.labels)
        raise InputError(f"--sentiment-model {classifier.name}: needs one label {start}..., has {names}")
    return found[0]


def _vader_scorer(why: str) -> SentimentScorer:
    try:
        from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer
    except ImportError as error:
        hint = "pip install 'carp-critic[report]' carries VADER"
        raise InputError(f"no sentiment model: {why}; {hint}") from error
    analyzer: Any = SentimentIntensityAnalyzer()

    def score(texts: list[str], progress: bool) -> NDArray[np.float64]:
        bar = tqdm(texts, desc="VADER", unit=" critiques", disable=not progress, leave=False)
        return np.array([analyzer.polarity_scores(text)["compound"] for text in bar], np.float64)

    # Two classes, as in the paper: a text without any word of the lexicon (compound 0) has to go somewhere, and
    # "no complaint" is nearer to positive. The share near zero shows how much hangs on it.
    note = f"positive: compound >= 0; a lexicon of single words, no model of sentences ({why})"
    return SentimentScorer("VADER (vaderSentiment)", note, score)
