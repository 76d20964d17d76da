"""Scores of passages for the classes of a classifier.

A class's critiques work as an ensemble: the mean of their cosines, as the paper averages paraphrases (section 3). A sum
of exponentials would say the same: over cosines that lie within 0.3 of each other it is their mean and a constant.

Some passages lie near to every critique and some far from all, whatever they are like. So what counts is by how much a
class's critiques fit better than those of the other classes. Of two classes, that is fitting minus contrasting
critiques.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from carp.evaluation.classifying.definitions import Classifier
from carp.evaluation.evaluators import Floats
from carp.model.carp_model import CarpModel
from carp.scoring.embeddings import Embeddings
from carp.scoring.score import score


def classify(
    stories: Sequence[str] | Embeddings,
    classifiers: Sequence[Classifier],
    model: CarpModel | str | None = None,
    progress: bool = False,
) -> dict[str, Floats]:
    """Score passages for the classes of each classifier: CARP, appendix A.

    The scores put passages into an order, by one classifier and one model. They are no probabilities: where a passage
    belongs to a class and where it no longer does, only labels can tell.

    Args:
        stories: ``n`` texts, or embedded ones.
        classifiers: with names that are all different.
        model: see :func:`carp.score`.
        progress: show a progress bar.

    Returns:
        Name of the classifier -> [n, n_classes]: the mean cosine of each class's critiques, less that of the other
        classes' (each class weighs the same), in [-2, 2]; of a single class its mean cosine, in [-1, 1].

    Raises:
        InputError: if a text is empty or the model cannot be loaded.
    """
    critiques = list(dict.fromkeys(text for classifier in classifiers for text in classifier.critiques))
    cosines = score(stories, critiques, model=model, progress=progress).astype(np.float64)
    place = {text: column for column, text in enumerate(critiques)}
    return {
        classifier.name: contrasts(
            np.stack([cosines[:, [place[text] for text in texts]].mean(1) for texts in classifier.classes.values()], 1)
        )
        for classifier in classifiers
    }


def contrasts(means: Floats) -> Floats:
    """Each class's mean cosine less the mean of the other classes' [n, n_classes]; the order of classes stays."""
    classes = means.shape[1]
    if classes == 1:
        return means
    return means - (means.sum(1, keepdims=True) - means) / (classes - 1)


def best_class(classifier: Classifier, scores: Floats) -> str | None:
    """The class with the highest of a passage's scores [n_classes]; ``None`` where there is nothing to choose."""
    return list(classifier.classes)[int(scores.argmax())] if len(scores) > 1 else None
