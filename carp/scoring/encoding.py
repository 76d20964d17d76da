"""Vectors of stories, read in windows, and of reviews, averaged over paraphrases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TypeAlias

import torch
from torch import Tensor
from tqdm.auto import tqdm

from carp.errors import InputError
from carp.model.carp_model import CarpModel, Embedder, different_texts
from carp.model.texts import TokenizedTexts
from carp.scoring.paraphrase import Paraphrases, expand_reviews
from carp.scoring.workers import EmbeddingWorkers

Window: TypeAlias = int | Literal["context"] | None

OVERLAP = 0.25  # share of a window that the next one repeats
MIN_WINDOW = 16
STORIES_PER_BLOCK = 1024


@contextmanager
def embedder(model: CarpModel, devices: Sequence[str]) -> Iterator[Embedder]:
    """What embeds: the model itself, or copies of it where ``devices`` are named."""
    if not devices:
        yield model
        return
    with EmbeddingWorkers(model, devices) as workers:
        yield workers


def embed_reviews(
    model: CarpModel,
    reviews: Sequence[str],
    paraphrases: Paraphrases | None = None,
    progress: bool = False,
    using: Embedder | None = None,
) -> Tensor:
    """[n_reviews, dim]: the mean embedding of each review's phrases."""
    phrases = expand_reviews(reviews, paraphrases)
    owner = torch.tensor([i for i, group in enumerate(phrases) for _ in group])
    embeds = model.encode("critique", [p for group in phrases for p in group], progress=progress, using=using)
    return _mean_by_owner(embeds, owner, len(reviews))


def embed_stories(
    model: CarpModel,
    stories: Sequence[str],
    window: Window = "context",
    progress: bool = False,
    using: Embedder | None = None,
) -> Tensor:
    """[n_stories, dim]: the mean embedding of each story's windows; each different story is embedded once."""
    size = _window_size(model, window)
    different, rows = different_texts(stories)
    blocks = []
    with tqdm(total=len(different), desc="stories", unit="story", disable=not progress) as bar:
        for start in range(0, len(different), STORIES_PER_BLOCK):
            block = different[start : start + STORIES_PER_BLOCK]
            texts, owner = _windows(model, block, size, only_first=window is None)
            embeds = (using or model).embed_tokenized("passage", texts)
            blocks.append(_mean_by_owner(embeds, owner, len(block)))
            bar.update(len(block))
    return torch.cat(blocks)[rows.to(model.device)]


def _window_size(model: CarpModel, window: Window) -> int:
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
