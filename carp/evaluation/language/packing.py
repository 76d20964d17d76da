"""Pairs as the windows of tokens that a language model is finetuned on (CARP, section 4.1).

1. Each pair becomes a text, ``Passage: ... Critique: ...``, ended by the end-of-text token. Where it is longer than a
   window, the end of its passage is cut.
2. Texts in random order share windows as long as they fit in whole, so no critique is ever parted from its passage.
   What is left of a window is filled with end-of-text tokens, which are no targets.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm.auto import tqdm

from carp.config import DataSettings
from carp.data.pairs import Pair, read_pairs
from carp.data.tokenized import MIN_CHARACTERS, source_identity, split_rows
from carp.errors import InputError
from carp.evaluation.language.fitting import cut_story
from carp.evaluation.language.loading import LanguageModel
from carp.evaluation.language.prompts import FORMS, finetuning_text
from carp.evaluation.language.scoring import IGNORED, Request
from carp.files import written_folder

FORMAT = 1
PAIRS_PER_BLOCK = 1000
OPEN_WINDOWS = 64  # that a text may still join
Tokens = NDArray[np.int32]


@dataclass(frozen=True)
class Windows:
    """Training windows and validation pairs.

    Attributes:
        tokens: [n, context], memory-mapped.
        lengths: [n] tokens of each window that are text.
        validation: pairs kept apart.
        info: counts made while packing.
    """

    tokens: Tokens
    lengths: NDArray[np.int64]
    validation: list[Pair]
    info: dict[str, int]

    def batch(self, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Token ids and labels, both [len(rows), context]; -100 is no label."""
        ids = torch.from_numpy(self.tokens[rows].astype(np.int64))
        text = torch.arange(ids.shape[1]) < torch.from_numpy(self.lengths[rows])[:, None]
        return ids, ids.where(text, torch.tensor(IGNORED))

    def targets(self, rows: NDArray[np.int64]) -> int:
        """Tokens of these windows that are predicted: all but the first one of each."""
        return int((self.lengths[rows] - 1).sum())


def pack_pairs(
    data: DataSettings, language: LanguageModel, context: int, seed: int, cache: Path, progress: bool = False
) -> Windows:
    """Pack the training pairs, or open what an earlier call with the same input has written.

    Args:
        data: which pairs; ``validation_pairs`` of them are kept apart by whole groups, or read from ``validation``.
        language: whose tokenizer is used.
        context: tokens of a window.
        seed: of the order.
        cache: folder that keeps the result.
        progress: show a progress bar.

    Raises:
        InputError: names the file, the row and the mend; nothing half-written stays.
    """
    folder = cache / "windows" / _cache_key(data, language, context, seed)
    if not folder.exists():
        with written_folder(folder) as draft:
            _pack_into(draft, data, language, context, seed, progress)
    lines = (folder / "validation.jsonl").read_text(encoding="utf-8").splitlines()
    return Windows(
        np.load(folder / "windows.npy", mmap_mode="r"),
        np.load(folder / "lengths.npy"),
        [Pair(*json.loads(line)) for line in lines],
        json.loads((folder / "info.json").read_text()),
    )


def _cache_key(data: DataSettings, language: LanguageModel, context: int, seed: int) -> str:
    tokenizer = language.tokenizer
    vocabulary = tokenizer.backend_tokenizer.to_str() if tokenizer.is_fast else repr(tokenizer)
    sources = [source_identity(source) for source in (data.train, data.validation) if source]
    parts = [FORMAT, MIN_CHARACTERS, sources, data.validation_pairs, vocabulary, language.end, context, seed]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def _pack_into(
    folder: Path, data: DataSettings, language: LanguageModel, context: int, seed: int, progress: bool
) -> None:
    training, validation = _divide(data)
    info = {"pairs": 0, "passages_cut": 0, "critiques_cut": 0}
    texts: list[Tokens] = []
    with tqdm(unit="pair", desc="tokenising", disable=not progress) as bar:
        while block := list(islice(training, PAIRS_PER_BLOCK)):
            texts += pair_tokens(language, block, context, info)
            bar.update(len(block))
    order = np.random.default_rng(seed).permutation(len(texts))
    windows = fill_windows([len(texts[i]) for i in order], context)
    info |= {"pairs": len(texts), "tokens": sum(map(len, texts)), "windows": len(windows)}
    shape = (len(windows), context)
    tokens: Any = np.lib.format.open_memmap(folder / "windows.npy", mode="w+", dtype=np.int32, shape=shape)
    lengths = np.zeros(len(windows), np.int64)
    for row, places in enumerate(windows):
        joined = np.concatenate([texts[order[place]] for place in places])
        tokens[row], lengths[row] = language.end, len(joined)
        tokens[row, : len(joined)] = joined
    tokens.flush()
    np.save(folder / "lengths.npy", lengths)
    lines = (json.dumps(pair) + "\n" for pair in validation)
    (folder / "validation.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "info.json").write_text(json.dumps(info))


def _divide(data: DataSettings) -> tuple[Iterator[Pair], list[Pair]]:
    """Training pairs, and those for validation."""

    def usable(source: str) -> Iterator[Pair]:
        return (p for p in read_pairs(source) if min(len(p.passage.strip()), len(p.critique.strip())) >= MIN_CHARACTERS)

    if data.validation:
        if not (kept := list(islice(usable(data.validation), data.validation_pairs))):
            raise InputError(f"{data.validation}: no pair with at least {MIN_CHARACTERS} characters on both sides")
        return usable(data.train), kept
    units = np.array([_unit(pair) for pair in usable(data.train)], np.int64)
    training, validation = (set(rows.tolist()) for rows in split_rows(units, data.validation_pairs))
    kept = [pair for row, pair in enumerate(usable(data.train)) if row in validation]
    return (pair for row, pair in enumerate(usable(data.train)) if row in training), kept


def _unit(pair: Pair) -> int:
    """A hash of what must stay on one side: the group, else the passage."""
    kind, text = ("passage", pair.passage) if pair.group is None else ("group", pair.group)
    return int.from_bytes(hashlib.blake2b(f"{kind}:{text}".encode(), digest_size=8).digest(), "little") >> 1


def pair_tokens(language: LanguageModel, pairs: Sequence[Pair], context: int, counts: dict[str, int]) -> list[Tokens]:
    """The tokens of each pair's text, at most ``context``; what is cut is added to ``counts``.

    A critique gets at most half of the window, so that there is something left of its passage.
    """
    requests = pair_requests(language, pairs, context, counts, finetuning_text, ending=1)
    return [np.array([*prefix, *critique, language.end], np.int32) for prefix, (critique,) in requests]


def pair_requests(
    language: LanguageModel,
    pairs: Sequence[Pair],
    context: int,
    counts: dict[str, int],
    text: Callable[[str], str],
    ending: int = 0,
) -> list[Request]:
    """The tokens of each passage as the finetuned form shows it, and of its critique in the form of ``text``."""
    critiques = language.continuations([text(pair.critique) for pair in pairs])
    prompts = language.prefixes([_prompt(pair.passage) for pair in pairs])
    found = []
    for pair, prompt, critique in zip(pairs, prompts, critiques, strict=True):
        kept = critique[: context // 2]
        room = context - len(kept) - ending
        counts["critiques_cut"] += len(kept) < len(critique)
        counts["passages_cut"] += len(prompt) > room
        found.append(
            Request(prompt if len(prompt) <= room else cut_story(language, _prompt, pair.passage, room), [kept])
        )
    return found


def _prompt(passage: str) -> str:
    return FORMS["finetuned"].prompt(passage, (), 0)


def fill_windows(lengths: Sequence[int], context: int) -> list[list[int]]:
    """Which texts share a window, none of them divided.

    Each text joins the fullest open window that has room for it; where 64 are open, the fullest one is closed.

    Args:
        lengths: of the texts, each at most ``context``.
        context: of a window.

    Returns:
        The places of the texts, window by window.
    """
    closed: list[list[int]] = []
    opened: list[tuple[int, list[int]]] = []  # room left, texts
    for place, length in enumerate(lengths):
        fitting = [i for i, (room, _) in enumerate(opened) if room >= length]
        if fitting:
            fullest = min(fitting, key=lambda i: opened[i][0])
            room, texts = opened[fullest]
            opened[fullest] = (room - length, [*texts, place])
            continue
        if len(opened) == OPEN_WINDOWS:
            closed.append(opened.pop(min(range(len(opened)), key=lambda i: opened[i][0]))[1])
        opened.append((context - length, [place]))
    return closed + [texts for _, texts in opened]


def checked_context(language: LanguageModel, wanted: int | None) -> int:
    """Tokens of a window: those that are wanted, or the model's context.

    Raises:
        InputError: if the model cannot read so many, or nothing says how many.
    """
    context = wanted or language.context
    if context is None:
        raise InputError(f"{language.name}: no limit of its own; say with --context how many tokens a window has")
    if language.context is not None and context > language.context:
        raise InputError(f"--context {context}: {language.name} reads {language.context} tokens; give no more")
    return context
