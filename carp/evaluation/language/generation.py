"""Critiques that a language model writes, with their perplexity (CARP, appendix C)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from tqdm.auto import tqdm
from transformers import LogitsProcessorList, TopKLogitsWarper

from carp.errors import CarpError, InputError
from carp.evaluation.judging.asking import Sampling
from carp.evaluation.judging.local import draw_with_seeds
from carp.evaluation.language.fitting import fit_prompts
from carp.evaluation.language.loading import LanguageModel
from carp.evaluation.language.prompts import FORMS
from carp.evaluation.language.scoring import Request, negative_log_likelihoods
from carp.model.carp_model import checked_texts

TOP_K, TOP_P = 50, 0.9  # appendix C
NEXT_PASSAGE = "\nPassage:"  # where a model that was not finetuned goes on with another story
TOKENS_AT_ONCE = 8192  # rows times length


class Critique(NamedTuple):
    """A critique that a model has written.

    Attributes:
        text: without white space around it.
        perplexity_per_byte: exp of the negative log-likelihood per UTF-8 byte: of this text, after its story, by the
            model's own distribution without top-k and top-p. ``None`` for an empty text, or one of odd letters that
            reads as more than twice as many tokens as were asked for.
        perplexity_per_token: the same per token.
        finished: whether it ended by itself, or was cut at the limit.
    """

    text: str
    perplexity_per_byte: float | None
    perplexity_per_token: float | None
    finished: bool


def generate_critiques(
    language: LanguageModel,
    stories: Sequence[str],
    number: int = 3,
    seed: int = 0,
    max_tokens: int = 128,
    examples: bool = False,
    progress: bool = False,
) -> list[list[Critique]]:
    """Draw critiques of stories with top-k 50 and top-p 0.9, as appendix C does.

    Every critique has random numbers of its own, from the seed, its story and its number: it depends neither on the
    other stories nor on the batch that it is in (but for rounding).

    Args:
        language: a model that was finetuned on pairs, or any other with ``examples``.
        stories: ``n`` of them.
        number: critiques of each.
        seed: another seed, other critiques.
        max_tokens: of a critique.
        examples: show the model the two examples of appendix B.1 first.
        progress: show a progress bar.

    Returns:
        ``n`` lists of ``number`` critiques.

    Raises:
        InputError: if a text is empty, or an option out of range.
    """
    for option, value in (("--number", number), ("--max-tokens", max_tokens)):
        if value < 1:
            raise InputError(f"{option} {value}: give at least 1")
    stories = checked_texts(stories, "story")
    form = FORMS["prompt" if examples else "finetuned"]
    room = 2 * max_tokens  # read again, a text can have more tokens than it was drawn with
    prompts = [p.ids for p in fit_prompts(language, form, stories, (), room, language.name)]
    texts = _draw_all(language, stories, prompts, number, seed, max_tokens, progress)
    rated = _rate(language, prompts, [[text for text, _ in drawn] for drawn in texts], room)
    return [
        [Critique(text, *perplexities, finished) for (text, finished), perplexities in zip(drawn, figures, strict=True)]
        for drawn, figures in zip(texts, rated, strict=True)
    ]


def _draw_all(
    language: LanguageModel,
    stories: Sequence[str],
    prompts: Sequence[list[int]],
    number: int,
    seed: int,
    max_tokens: int,
    progress: bool,
) -> list[list[tuple[str, bool]]]:
    longest = max(map(len, prompts)) + max_tokens
    rows = [
        (prompt, _seed(seed, story, i)) for story, prompt in zip(stories, prompts, strict=True) for i in range(number)
    ]
    drawn: list[tuple[str, bool]] = []
    queue = iter(rows)
    with tqdm(total=len(rows), unit="critique", desc="writing", disable=not progress) as bar:
        while batch := list(islice(queue, max(1, TOKENS_AT_ONCE // longest))):
            drawn += _draw(language, [ids for ids, _ in batch], [own for _, own in batch], max_tokens)
            bar.update(len(batch))
    return [drawn[start : start + number] for start in range(0, len(drawn), number)]


def _seed(seed: int, story: str, number: int) -> int:
    digest = hashlib.blake2b(f"{seed} {number} {story}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _draw(
    language: LanguageModel, prompts: Sequence[list[int]], seeds: Sequence[int], max_tokens: int
) -> list[tuple[str, bool]]:
    longest = max(map(len, prompts))
    ids, mask = torch.zeros(2, len(prompts), longest, dtype=torch.long)
    for i, prompt in enumerate(prompts):
        ids[i, longest - len(prompt) :], mask[i, longest - len(prompt) :] = torch.tensor(prompt), 1
    warpers = [TopKLogitsWarper(TOP_K), *draw_with_seeds(Sampling(1.0, TOP_P, max_tokens), seeds)]
    try:
        with torch.inference_mode():
            output = language.model.generate(
                input_ids=ids.to(language.model.device),
                attention_mask=mask.to(language.model.device),
                max_new_tokens=max_tokens,
                logits_processor=LogitsProcessorList(warpers),
                stop_strings=[NEXT_PASSAGE],
                tokenizer=language.tokenizer,
            )
    except torch.OutOfMemoryError as error:
        raise CarpError("not enough memory to write critiques; take a smaller model or shorter stories") from error
    return [_critique(language, row) for row in output[:, longest:].tolist()]


def _critique(language: LanguageModel, row: list[int]) -> tuple[str, bool]:
    ends: Any = language.model.generation_config.eos_token_id
    end = next((i for i, token in enumerate(row) if token in (ends if isinstance(ends, list) else [ends])), len(row))
    written = language.tokenizer.decode(row[:end], skip_special_tokens=True, clean_up_tokenization_spaces=False)
    text, stop, _ = written.partition(NEXT_PASSAGE)
    return text.strip(), bool(stop) or end < len(row)


def _rate(
    language: LanguageModel, prompts: Sequence[list[int]], texts: Sequence[list[str]], most: int
) -> list[list[tuple[float | None, float | None]]]:
    """Perplexities per byte and per token of each text after its prompt."""
    tokens = [language.continuations([f" {text}" for text in drawn]) for drawn in texts]
    requests = [Request(prompt, [ids[:most] for ids in own]) for prompt, own in zip(prompts, tokens, strict=True)]
    found = negative_log_likelihoods(language.model, requests)
    return [
        [
            _perplexities(text, len(ids), nats) if text and len(ids) <= most else (None, None)
            for text, ids, nats in zip(drawn, own, values, strict=True)
        ]
        for drawn, own, values in zip(texts, tokens, found, strict=True)
    ]


def _perplexities(text: str, tokens: int, nats: float) -> tuple[float, float]:
    return float(np.exp(nats / len(text.encode()))), float(np.exp(nats / tokens))
