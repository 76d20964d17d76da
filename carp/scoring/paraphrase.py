"""Paraphrases of reviews: a review's score is the mean over them (CARP, section 3, last paragraph)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import torch
from tqdm.auto import tqdm
from transformers import AutoTokenizer, PegasusForConditionalGeneration

from carp.errors import InputError
from carp.reviews import bundled_paraphrases

PEGASUS = "tuner007/pegasus_paraphrase"
WAYS = 4  # "paraphrasing our classifier four ways"

Paraphrases: TypeAlias = (
    Mapping[str, Sequence[str]] | Callable[[Sequence[str]], Sequence[Sequence[str]]] | Literal["bundled", "pegasus"]
)


def expand_reviews(reviews: Sequence[str], paraphrases: Paraphrases | None) -> list[list[str]]:
    """The phrases over which each review's score is averaged.

    The paper averages over the four paraphrases and does not name the review itself as a fifth; so do we.
    Who wants it in gives it as a paraphrase of its own.

    Args:
        reviews: ``n`` reviews.
        paraphrases: ``None`` (each review alone), ``"bundled"`` (hand-written, of the nine reviews of the
            paper), ``"pegasus"``, a mapping from review to phrases, or a function that returns them.

    Returns:
        ``n`` lists of one or more phrases.

    Raises:
        InputError: if a review has no paraphrases.
    """
    if paraphrases is None:
        return [[review] for review in reviews]
    if paraphrases == "pegasus":
        paraphrases = PegasusParaphraser()
    elif paraphrases == "bundled":
        paraphrases = bundled_paraphrases()
    elif isinstance(paraphrases, str):
        raise InputError(f"paraphrases={paraphrases!r}: choose bundled, pegasus, or give your own")
    if isinstance(paraphrases, Mapping):
        given = [paraphrases.get(review, ()) for review in reviews]
    else:
        given = list(paraphrases(reviews))
    if len(given) != len(reviews):
        raise InputError(f"the paraphrases are {len(given)} lists for {len(reviews)} reviews: return one for each")
    for review, found in zip(reviews, given, strict=True):
        if isinstance(found, str):
            raise InputError(f"the paraphrases of {review!r} are a string: give a list of strings")
        if not found:
            raise InputError(f"there are no paraphrases of {review!r}: give some, or use pegasus")
    return [list(found) for found in given]


class PegasusParaphraser:
    """Paraphrases by Pegasus (Zhang et al., 2020), the best beams of a beam search; deterministic.

    Args:
        name: folder or Hub id of a Pegasus model.
        ways: paraphrases per review.
        batch_size: reviews per batch.

    Raises:
        InputError: if the model cannot be loaded.
    """

    def __init__(self, name: str = PEGASUS, ways: int = WAYS, batch_size: int = 16) -> None:
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(name)
            self._model: Any = PegasusForConditionalGeneration.from_pretrained(name, use_safetensors=True)
        except (OSError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"cannot load the paraphraser {name!r}: {reason}; 'bundled' works offline") from error
        self._model.eval()
        self._ways, self._batch_size = ways, batch_size

    @torch.inference_mode()
    def __call__(self, reviews: Sequence[str]) -> list[list[str]]:
        """``ways`` paraphrases of each review."""
        found: list[list[str]] = []
        starts = range(0, len(reviews), self._batch_size)
        for start in tqdm(starts, desc="paraphrasing", unit="batch", disable=len(starts) < 2):
            batch = list(reviews[start : start + self._batch_size])
            inputs = self._tokenizer(batch, truncation=True, padding=True, max_length=60, return_tensors="pt")
            beams = self._model.generate(
                **inputs,
                num_beams=self._ways,
                num_return_sequences=self._ways,
                max_length=60,
                do_sample=False,
            )
            texts = self._tokenizer.batch_decode(beams, skip_special_tokens=True)
            found += [texts[i : i + self._ways] for i in range(0, len(texts), self._ways)]
        return [[text for text in dict.fromkeys(map(str.strip, beams)) if text] for beams in found]
