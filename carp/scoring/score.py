"""Scores of stories against reviews."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm.auto import tqdm

from carp.errors import InputError
from carp.model.carp_model import CarpModel, checked_texts
from carp.model.texts import TokenizedTexts
from carp.reviews import REVIEWS
from carp.scoring.loading import load
from carp.scoring.paraphrase import Paraphrases, expand_reviews

OVERLAP = 0.25  # share of a window that the next one repeats
MIN_WINDOW = 16
MAX_CHARACTERS = 10_000_000  # a dozen long novels: more is a mistake
STORIES_PER_BLOCK = 1024


def score(
    story: str | Sequence[str],
    reviews: str | Sequence[str] | None = None,
    *,
    model: CarpModel | str | None = None,
    paraphrases: Paraphrases | None = None,
    window: int | Literal["context"] | None = "context",
    progress: bool | None = None,
) -> NDArray[np.float32]:
    """Score stories against reviews: how well does each review fit?

    Args:
        story: one story, or ``n`` of them.
        reviews: one or more critiques in any wording; by default the nine of the paper's appendix B.2.
        model: a model, or the folder or Hub id of one; see :func:`carp.load`.
        paraphrases: average each review over paraphrases of it; see
            :func:`~carp.scoring.paraphrase.expand_reviews`.
        window: tokens of the overlapping windows that a long story is read in; its score is their mean.
            ``"context"``: the model's context length. ``None``: only the first window, as in the paper.
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
    stories = checked_texts([story] if isinstance(story, str) else story, "story")
    reviews = checked_texts(
        [reviews] if isinstance(reviews, str) else REVIEWS if reviews is None else reviews, "review"
    )
    for number, text in enumerate(stories, start=1):
        if len(text) > MAX_CHARACTERS:
            raise InputError(f"story {number} has {len(text):,} characters: divide it, {MAX_CHARACTERS:,} is the most")
    loaded = model if isinstance(model, CarpModel) else _load_once(model or os.environ.get("CARP_MODEL"))
    show = len(stories) + len(reviews) > 100 if progress is None else progress
    # Means of cosines are cosines with means: of unit vectors, not made unit length again.
    review_vectors = embed_reviews(loaded, reviews, paraphrases, show)
    scores = embed_stories(loaded, stories, window, show) @ review_vectors.T
    found = scores.clamp(-1, 1).cpu().numpy()
    return found[0] if isinstance(story, str) else found


@lru_cache(maxsize=2)
def _load_once(name: str | None) -> CarpModel:
    return load(name)


def embed_reviews(
    model: CarpModel, reviews: Sequence[str], paraphrases: Paraphrases | None = None, progress: bool = False
) -> Tensor:
    """[n_reviews, dim]: the mean embedding of each review's phrases."""
    phrases = expand_reviews(reviews, paraphrases)
    owner = torch.tensor([i for i, group in enumerate(phrases) for _ in group])
    embeds = model.encode_critiques([phrase for group in phrases for phrase in group], progress=progress)
    return _mean_by_owner(embeds, owner, len(reviews))


def embed_stories(
    model: CarpModel,
    stories: Sequence[str],
    window: int | Literal["context"] | None = "context",
    progress: bool = False,
) -> Tensor:
    """[n_stories, dim]: the mean embedding of each story's windows (see :func:`score`)."""
    size = _window_size(model, window)
    blocks = []
    with tqdm(total=len(stories), desc="stories", unit="story", disable=not progress) as bar:
        for start in range(0, len(stories), STORIES_PER_BLOCK):
            block = stories[start : start + STORIES_PER_BLOCK]
            texts, owner = _windows(model, block, size, only_first=window is None)
            blocks.append(_mean_by_owner(model.embed_tokenized("passage", texts), owner, len(block)))
            bar.update(len(block))
    return torch.cat(blocks)


def _window_size(model: CarpModel, window: int | Literal["context"] | None) -> int:
    context = model.config.max_passage_tokens
    if window is None or window == "context":
        return context
    if not isinstance(window, int) or not MIN_WINDOW <= window <= context:
        raise InputError(f"window={window!r}: choose {MIN_WINDOW} to {context} tokens (the model's context)")
    return window


def _windows(model: CarpModel, stories: Sequence[str], size: int, only_first: bool) -> tuple[TokenizedTexts, Tensor]:
    """Windows of all stories, and the story of each."""
    options = {} if only_first else {"return_overflowing_tokens": True, "stride": int(OVERLAP * size)}
    tokens = model.tokenizer("passage")(list(stories), truncation=True, max_length=size, **options)
    owner = tokens.get("overflow_to_sample_mapping", range(len(stories)))
    return TokenizedTexts.from_lists(tokens["input_ids"]), torch.tensor(list(owner))


def _mean_by_owner(embeds: Tensor, owner: Tensor, owners: int) -> Tensor:
    owner = owner.to(embeds.device)
    sums = torch.zeros(owners, embeds.shape[1], dtype=embeds.dtype, device=embeds.device)
    return sums.index_add_(0, owner, embeds) / owner.bincount(minlength=owners)[:, None]
