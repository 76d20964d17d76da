"""Scores of stories against reviews."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carp.errors import InputError
from carp.model.carp_model import CarpModel, Embedder, checked_texts
from carp.reviews import REVIEWS
from carp.scoring.embeddings import Embeddings
from carp.scoring.encoding import Window, embed_reviews, embed_stories, embedder
from carp.scoring.loading import found_model
from carp.scoring.paraphrase import Paraphrases

MAX_CHARACTERS = 10_000_000  # a dozen long novels: more is a mistake
MANY_TEXTS = 100  # from here on there is a progress bar


def score(
    story: str | Sequence[str] | Embeddings,
    reviews: str | Sequence[str] | None = None,
    *,
    model: CarpModel | str | None = None,
    paraphrases: Paraphrases | None = None,
    window: Window = "context",
    devices: Sequence[str] = (),
    progress: bool | None = None,
) -> NDArray[np.float32]:
    """Score stories against reviews: how well does each review fit?

    Every different text is embedded once, however often it comes.

    Args:
        story: one story, ``n`` of them, or ``n`` embedded ones (see :class:`~carp.scoring.embeddings.Embeddings`).
        reviews: one or more critiques in any wording; by default the nine of the paper's appendix B.2.
        model: a model, or the folder or Hub id of one; see :func:`carp.load`.
        paraphrases: average each review over paraphrases of it; see
            :func:`~carp.scoring.paraphrase.expand_reviews`.
        window: tokens of the overlapping windows that a long story is read in; its score is their mean.
            ``"context"``: the model's context length. ``None``: only the first window, as in the paper.
        devices: embed on several, each with a copy of the model, e.g. ``["cuda:0", "cuda:1"]``; see
            :class:`~carp.scoring.workers.EmbeddingWorkers`. By default on the model's own.
        progress: show a progress bar; by default for more than 100 texts.

    Returns:
        Cosines in [-1, 1], float32: [n_reviews] for one story, [n, n_reviews] for a list. They do not
        depend on which texts are scored together: within 1e-5.

    Raises:
        InputError: if a text is empty or too long, there is none, or the model cannot be loaded.

    Example:
        >>> carp.score("It was raining. John took an umbrella.", "This is boring.", model=model).shape
        (1,)
    """
    stories = story if isinstance(story, Embeddings) else _checked_stories(story)
    reviews = checked_texts(
        [reviews] if isinstance(reviews, str) else REVIEWS if reviews is None else reviews, "review"
    )
    loaded = found_model(model)
    count = len(reviews) + (len(stories.ids) if isinstance(stories, Embeddings) else len(stories))
    show = count > MANY_TEXTS if progress is None else progress
    with embedder(loaded, devices) as using:
        # Means of cosines are cosines with means: of unit vectors, not made unit length again.
        review_vectors = embed_reviews(loaded, reviews, paraphrases, show, using)
        scores = _story_vectors(loaded, stories, window, show, using) @ review_vectors.T
    found = scores.clamp(-1, 1).cpu().numpy()
    return found[0] if isinstance(story, str) else found


def _checked_stories(story: str | Sequence[str]) -> list[str]:
    stories = checked_texts([story] if isinstance(story, str) else story, "story")
    for number, text in enumerate(stories, start=1):
        if len(text) > MAX_CHARACTERS:
            raise InputError(f"story {number} has {len(text):,} characters: divide it, {MAX_CHARACTERS:,} is the most")
    return stories


def _story_vectors(
    model: CarpModel, stories: list[str] | Embeddings, window: Window, progress: bool, using: Embedder
) -> Tensor:
    if isinstance(stories, Embeddings):
        stories.expect_model(model, "passage")
        return torch.from_numpy(np.array(stories.vectors)).to(model.device)  # a copy: the array may be read-only
    return embed_stories(model, stories, window, progress, using)
