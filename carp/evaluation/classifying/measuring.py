"""How well do scores tell labels apart? The area under the ROC curve of each label and each score, with intervals.

The bootstrap resamples groups (stories, paragraphs) with all their texts; all scores see the same resamples, so that
their differences from the baseline are paired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carp.evaluation.classifying.baselines import length_strata, probe, word_counts
from carp.evaluation.classifying.definitions import Classifier
from carp.evaluation.classifying.labels import Integers, Labelled
from carp.evaluation.classifying.roc import areas
from carp.evaluation.evaluators import Floats
from carp.evaluation.resampling import DEFAULT, Estimate, Resampling, estimate

WORDS, PROBE = "number of words", "probe"


@dataclass(frozen=True)
class Scored:
    """What a model says of ``n`` texts."""

    vectors: NDArray[np.float32]  # [n, dim]
    classes: Mapping[str, Floats]  # classifier -> [n, n_classes]


@dataclass(frozen=True)
class Signal:
    """Scores [n] to be held against a label, NaN where there is none; only those of one part [n] can be compared."""

    name: str
    model: str
    values: Floats
    parts: Integers


@dataclass(frozen=True)
class Measured:
    """One score against one label.

    ``auc`` compares all texts, ``same_length`` only those of about the same number of words; ``above_words`` is by how
    much ``auc`` is higher than that of the number of words, on the same texts.
    """

    label: str
    signal: str
    model: str
    positives: int
    negatives: int
    groups: int
    auc: Estimate
    same_length: Estimate
    above_words: Estimate | None  # of the number of words itself: None


def measure(
    labelled: Labelled,
    models: Mapping[str, Scored],
    classifiers: Sequence[Classifier],
    resampling: Resampling = DEFAULT,
) -> list[Measured]:
    """Measure every score on every label.

    A classifier that has a class of a label's name is measured by the score of that class; else by each of its
    classes, of two by the first: the other's score is its negative.

    Args:
        labelled: texts with labels.
        models: name -> what it says of them.
        classifiers: those that the models' scores are of.
        resampling: of groups.
    """
    counts = word_counts(labelled.texts)
    found = []
    for label, column in labelled.labels.items():
        words = _words(counts, column)
        found.append(_measured(labelled, label, words, words, resampling))
        for name, scored in models.items():
            for signal in _signals(labelled, label, name, scored, classifiers, resampling.seed):
                found.append(_measured(labelled, label, signal, words, resampling))
    return found


def _words(counts: Floats, column: Floats) -> Signal:
    """More words or fewer, whichever tells the label apart better: rather too good a baseline than too bad a one."""
    known, nowhere = ~np.isnan(column), np.zeros(len(counts), np.int64)
    found = areas(counts[known], column[known] == 1, nowhere[known], np.ones((1, int(known.sum()))))
    return Signal(WORDS, "", -counts if found[0] < 0.5 else counts, nowhere)


def _signals(
    labelled: Labelled, label: str, name: str, scored: Scored, classifiers: Sequence[Classifier], seed: int
) -> Iterator[Signal]:
    column = labelled.labels[label]
    known = np.flatnonzero(~np.isnan(column))
    values, parts = np.full(len(column), np.nan), np.zeros(len(column), np.int64)
    values[known], parts[known] = probe(scored.vectors[known], column[known] == 1, labelled.group[known], seed)
    yield Signal(PROBE, name, values, parts)
    for classifier in classifiers:
        classes, scores = list(classifier.classes), scored.classes[classifier.name]
        for place in _columns(classes, label, labelled.labels):
            title = "own class" if label in classes else classes[place]
            yield Signal(f"{classifier.name}: {title}", name, scores[:, place], np.zeros_like(parts))


def _columns(classes: Sequence[str], label: str, labels: Mapping[str, Floats]) -> list[int]:
    if set(classes) & set(labels):
        return [classes.index(label)] if label in classes else []
    return [0] if len(classes) == 2 else list(range(len(classes)))


def _measured(labelled: Labelled, label: str, signal: Signal, words: Signal, resampling: Resampling) -> Measured:
    column = labelled.labels[label]
    known = ~np.isnan(column) & ~np.isnan(signal.values)
    positive, group = column[known] == 1, np.unique(labelled.group[known], return_inverse=True)[1]
    cases = int(positive.sum()), int((~positive).sum()), len(np.unique(group))
    if why := _undefined(column, known):
        nothing = Estimate(None, undefined=why)
        return Measured(label, signal.name, signal.model, *cases, nothing, nothing, nothing)
    weights = resampling.weights(cases[2])[:, group]
    parts, lengths = signal.parts[known], length_strata(np.abs(words.values[known]))
    of_length = parts * (lengths.max() + 1) + lengths
    found = areas(signal.values[known], positive, parts, weights)
    same = areas(signal.values[known], positive, of_length, weights)
    above = None if signal is words else found - areas(words.values[known], positive, parts, weights)
    return Measured(
        label,
        signal.name,
        signal.model,
        *cases,
        auc=estimate(found, "no two texts to compare"),
        same_length=estimate(same, "no two texts of one length to compare"),
        above_words=None if above is None else estimate(above, "no two texts to compare"),
    )


def _undefined(column: Floats, known: NDArray[np.bool_]) -> str:
    for value in (1, 0):
        if value not in column:
            return f"no text has {value}"
        if value not in column[known]:
            return "too few groups to learn from"
    return ""
