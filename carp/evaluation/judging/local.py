"""Judges run by transformers on this machine: decoder-only and encoder-decoder models.

Every answer is drawn with random numbers of its own, so it depends neither on the batch that it is in nor on what was
asked before: a run that is interrupted, or one in other batches, gives the same answers (but for rounding).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    LogitsProcessor,
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopPLogitsWarper,
)

from carp.errors import CarpError, InputError
from carp.evaluation.evaluators import sha256
from carp.evaluation.judging.asking import Question, Reply, Sampling, UnansweredError, now
from carp.evaluation.language.loading import bare_generation, explained_loading

MODEL_FILES = ("*.json", "*.jinja", "*.model", "*.safetensors", "*.gguf")  # what decides about answers


class LocalBackend:
    """A model on this machine, on its GPUs if it has any.

    Args:
        name: a folder, a GGUF file or a Hub id.
        revision: of the Hub repository.
        batch_size: answers drawn at a time.

    Raises:
        InputError: if there is no such model.
    """

    def __init__(self, name: str, revision: str = "", batch_size: int = 8) -> None:
        if batch_size < 1:
            raise InputError(f"--batch-size {batch_size}: give at least 1 answer at a time")
        self._batch_size = batch_size
        self._model, self._tokenizer = _load(name, revision)
        self._encoder_decoder = bool(self._model.config.is_encoder_decoder)
        self._chat = bool(self._tokenizer.chat_template)
        self._name, self._revision = name, _fingerprint(name) or str(getattr(self._model.config, "_commit_hash", ""))

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "backend": "transformers",
            "model": "" if Path(self._name).exists() else self._name,  # a folder is known by its content
            "revision": self._revision,
            "dtype": str(self._model.dtype).removeprefix("torch."),
        }

    @property
    def about(self) -> dict[str, Any]:
        form = "the model's chat template" if self._chat else "the bare query"
        return {**self.identity, "model": self._name, "asked with": form}

    def answer(
        self, questions: Sequence[Question], sampling: Sampling, done: Callable[[Question, Reply], None]
    ) -> None:
        """See :class:`~carp.evaluation.judging.asking.Backend`; what is too long is found before anything is asked."""
        tokens = {question: self._tokens(question.prompt) for question in questions}
        self._check_lengths(tokens, sampling)
        queue = iter(sorted(questions, key=lambda question: -len(tokens[question])))  # alike in length: little padding
        while batch := list(islice(queue, self._batch_size)):
            replies = self._answer_batch(batch, [tokens[question] for question in batch], sampling)
            for question, reply in zip(batch, replies, strict=True):
                done(question, reply)

    def _tokens(self, prompt: str) -> list[int]:
        if self._chat:
            message = [{"role": "user", "content": prompt}]
            prompt = self._tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
        ids: list[int] = self._tokenizer(prompt, add_special_tokens=not self._chat)["input_ids"]
        return ids

    def _check_lengths(self, tokens: dict[Question, list[int]], sampling: Sampling) -> None:
        positions = getattr(self._model.config.get_text_config(), "max_position_embeddings", None)
        if positions is None:  # relative positions
            return
        room = positions if self._encoder_decoder else positions - sampling.max_tokens
        what = f"more than the {positions} of the model" + ("" if self._encoder_decoder else ", answer included")
        mend = "shorten the story, lower --max-tokens or take another model"
        if long := [(asked, f"{len(ids)} tokens, {what}; {mend}") for asked, ids in tokens.items() if len(ids) > room]:
            raise UnansweredError(long, InputError)

    def _answer_batch(self, questions: Sequence[Question], tokens: list[list[int]], sampling: Sampling) -> list[Reply]:
        ids, mask = _padded(tokens, left=not self._encoder_decoder)
        place = self._model.device
        seeds = [question.seed for question in questions]
        try:
            with torch.inference_mode():
                output = self._model.generate(
                    input_ids=ids.to(place),
                    attention_mask=mask.to(place),
                    max_new_tokens=sampling.max_tokens,
                    logits_processor=draw_with_seeds(sampling, seeds),
                )
        except torch.OutOfMemoryError as error:
            raise CarpError(f"not enough memory for {len(tokens)} answers at a time; lower --batch-size") from error
        new = output[:, 1 if self._encoder_decoder else ids.shape[1] :].tolist()
        return [self._reply(row, len(asked), sampling) for row, asked in zip(new, tokens, strict=True)]

    def _reply(self, row: list[int], asked: int, sampling: Sampling) -> Reply:
        ends = [i for i, token in enumerate(row) if token in self._end_tokens()]
        taken = row[: ends[0] + 1] if ends else row
        text = self._tokenizer.decode(taken, skip_special_tokens=True)
        return Reply(text, "stop" if ends else "length", asked, len(taken), self._name, now())

    def _end_tokens(self) -> Sequence[int]:
        end = self._model.generation_config.eos_token_id
        return end if isinstance(end, list) else [end]


def draw_with_seeds(sampling: Sampling, seeds: Sequence[int]) -> LogitsProcessorList:
    """What makes greedy search draw from the model's distribution, each row with a seed of its own.

    The largest of logits plus independent Gumbel noise is a draw from their softmax (Gumbel, 1954). At temperature 0
    there is no noise.
    """
    if sampling.temperature == 0:
        return LogitsProcessorList()
    steps: list[LogitsProcessor] = [TemperatureLogitsWarper(float(sampling.temperature))]
    if sampling.top_p < 1:
        steps.append(TopPLogitsWarper(sampling.top_p))
    return LogitsProcessorList([*steps, _SeededNoise(seeds)])


class _SeededNoise(LogitsProcessor):
    """Adds Gumbel noise to logits [rows, vocabulary], each row's from its own generator."""

    def __init__(self, seeds: Sequence[int]) -> None:
        # On the CPU: the same numbers on every device.
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        drawn = torch.empty(scores.shape, dtype=torch.float64)
        for row, own in zip(drawn, self._generators, strict=True):
            row.exponential_(generator=own)
        return scores - drawn.log().to(scores)


def _padded(tokens: list[list[int]], left: bool) -> tuple[Tensor, Tensor]:
    """Token ids and attention mask, both [rows, longest]; what is masked may be any token."""
    longest = max(len(row) for row in tokens)
    ids, mask = torch.zeros(2, len(tokens), longest, dtype=torch.long)
    for i, row in enumerate(tokens):
        place = slice(longest - len(row), None) if left else slice(len(row))
        ids[i, place], mask[i, place] = torch.tensor(row), 1
    return ids, mask


def _load(name: str, revision: str) -> tuple[Any, Any]:
    path = Path(name)
    options: dict[str, Any] = {"revision": revision} if revision else {}
    weights: dict[str, Any] = {"use_safetensors": True}
    if not path.exists() and name.count("/") != 1:
        raise InputError(f"--model {name}: no such folder (a Hub id has the form organisation/name)")
    if path.is_file():
        name, options, weights = str(path.parent), {"gguf_file": path.name}, {}
    with explained_loading(name, "--model"):
        config = AutoConfig.from_pretrained(name, **options)
        kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        place: dict[str, Any] = {"device_map": "auto"} if torch.cuda.is_available() else {}
        model = kind.from_pretrained(name, dtype="auto", **options, **weights, **place).eval()
        tokenizer = AutoTokenizer.from_pretrained(name, **options)
    model.generation_config = bare_generation(model.generation_config, tokenizer)
    return model, tokenizer


def _fingerprint(name: str) -> str:
    path = Path(name)
    if path.is_file():
        return sha256(path)
    if not path.is_dir():
        return ""
    found = sorted(file for pattern in MODEL_FILES for file in path.glob(pattern))
    return hashlib.sha256("".join(f"{file.name} {sha256(file)}\n" for file in found).encode()).hexdigest()
