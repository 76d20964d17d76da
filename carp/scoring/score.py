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
from carp.scoring.calibration import expect_reference, percentiles
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
    calibrated: bool = False,
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
        calibrated: return percentiles: how many of the passages that the checkpoint carries fit the review less well.
        progress: show a progress bar; by default for more than 100 texts.

    Returns:
        Cosines in [-1, 1], float32: [n_reviews] for one story, [n, n_reviews] for a list. They do not
        depend on which texts are scored together: within 1e-5. With ``calibrated`` percentiles in [0, 100]; those of
        stories of many windows lie nearer to 50, as a mean over windows varies less than a passage.

    Raises:
        InputError: if a text is empty or too long, there is none, the model cannot be loaded, or it has no reference
            passages for ``calibrated``.

    Example:
        >>> carp.score("It was raining. John took an umbrella.", "This is boring.", model=model).shape
        (1,)
    """
    loaded = found_model(model)
    if calibrated:
        expect_reference(loaded)
    stories = [story] if isinstance(story, str) else story
    found = scores_and_percentiles(
        stories, reviews, model=loaded, paraphrases=paraphrases, window=window, devices=devices, progress=progress
    )[calibrated]
    return found[0] if isinstance(story, str) else found


def scores_and_percentiles(
    story: Sequence[str] | Embeddings,
    reviews: str | Sequence[str] | None,
    *,
    model: CarpModel,
    paraphrases: Paraphrases | None = None,
    window: Window = "context",
    devices: Sequence[str] = (),
    progress: bool | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Both ways to read scores, [n, n_reviews] each; see :func:`score`.

    There are no percentiles, [0, n_reviews], where the model has no reference passages.
    """
    stories = story if isinstance(story, Embeddings) else _checked_stories(story)
    reviews = checked_texts(
        [reviews] if isinstance(reviews, str) else REVIEWS if reviews is None else reviews, "review"
    )
    count = len(reviews) + (len(stories.ids) if isinstance(stories, Embeddings) else len(stories))
    show = count > MANY_TEXTS if progress is None else progress
    with embedder(model, devices) as using:
        # Means of cosines are cosines with means: of unit vectors, not made unit length again.
        review_vectors = embed_reviews(model, reviews, paraphrases, show, using)
        cosines = _story_vectors(model, stories, window, show, using) @ review_vectors.T
    ranks = cosines[:0]
    if model.reference is not None:
        ranks = percentiles(cosines, expect_reference(model).to(review_vectors.dtype) @ review_vectors.T)
    return cosines.clamp(-1, 1).cpu().numpy(), ranks.float().cpu().numpy()


def _checked_stories(story: Sequence[str]) -> list[str]:
    stories = checked_texts(story, "story")
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
