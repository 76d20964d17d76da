"""One pass over the pairs: lengths and hashes of all of them, the texts of few."""

from __future__ import annotations

import heapq
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from carp.data.pairs import Pair
from carp.data.report.sources import ALL, PARTS, read_parts

BATCH = 512
WORD = re.compile(r"\w+(?:['’]\w+)*")
Numbers = NDArray[np.int64]


class HashSample:
    """The ``size`` pairs of the smallest hashes: the same ones in whatever order the data stand."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._heap: list[tuple[int, int, Pair]] = []  # the largest hash on top
        self._offered = 0

    def offer(self, key: int, pair: Pair) -> None:
        self._offered += 1
        entry = (-key, -self._offered, pair)
        if len(self._heap) < self.size:
            heapq.heappush(self._heap, entry)
        elif entry > self._heap[0]:
            heapq.heapreplace(self._heap, entry)

    def pairs(self) -> list[Pair]:
        return [pair for *_, pair in sorted(self._heap, key=lambda entry: entry[:2], reverse=True)]


@dataclass
class Column:
    """What is kept of a column (passages or critiques): a number per pair, and the words."""

    words: array[int] = field(default_factory=lambda: array("q"))
    tokens: array[int] = field(default_factory=lambda: array("q"))
    hashes: array[int] = field(default_factory=lambda: array("Q"))
    vocabulary: Counter[str] = field(default_factory=Counter)
    seen: set[int] = field(default_factory=set)
    repeated: dict[int, str] = field(default_factory=dict)  # hash -> text, of texts that were seen twice

    def add(self, text: str, keep_repeated: bool) -> None:
        self.words.append(len(text.split()))
        key = text_hash(text)
        self.hashes.append(key)
        if key not in self.seen:
            self.seen.add(key)
            self.vocabulary.update(WORD.findall(text.lower()))
        elif keep_repeated:
            self.repeated.setdefault(key, " ".join(text.split()))


@dataclass
class Collected:
    """A data set without its texts; ``part`` holds indices into ``("train", "validation", "all")``."""

    passages: Column
    critiques: Column
    groups: array[int]  # hashes; 0: no group
    part: array[int]
    sample: HashSample
    samples_of_parts: dict[str, HashSample]

    def rivals(self) -> tuple[str, list[Pair]]:
        """The pairs of the leakage check, and the part they stem from: validation, where there is one."""
        for part in ("validation", ALL, "train"):
            if found := self.samples_of_parts[part].pairs():
                return part, found
        return ALL, []

    def of_part(self, name: str) -> NDArray[np.bool_]:
        return np.equal(as_numbers(self.part), (*PARTS, ALL).index(name))


def as_numbers(values: array[int]) -> Numbers:
    """An array without a copy; hashes keep their bits."""
    return np.frombuffer(values, np.int64)


def text_hash(text: str) -> int:
    """64 bits of a text; letter case and white space make no difference."""
    return hash_bits(" ".join(text.lower().split()))


def hash_bits(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def collect(
    source: str | Path,
    tokenizer: PreTrainedTokenizerBase,
    sample: int = 20_000,
    leakage_pairs: int = 1000,
    progress: bool = False,
) -> Collected:
    """Read all pairs of a data set once.

    Args:
        source: what :func:`carp.data.pairs.read_pairs` reads, or a prepared folder.
        tokenizer: counts the tokens, its special ones included, as training does.
        sample: how many critiques to keep for sentiment and toxicity.
        leakage_pairs: how many pairs of each part to keep for the leakage check.
        progress: show a bar on stderr.
    """
    samples = {part: HashSample(leakage_pairs) for part in (*PARTS, ALL)}
    found = Collected(Column(), Column(), array("Q"), array("q"), HashSample(sample), samples)
    with tqdm(desc=f"reading {Path(source).name}", unit=" pairs", disable=not progress, leave=False) as bar:
        for batch in _batches(read_parts(source)):
            for part, pair in batch:
                _add(found, part, pair)
            _count_tokens(found, [pair for _, pair in batch], tokenizer)
            bar.update(len(batch))
    return found


def _batches(pairs: Iterable[tuple[str, Pair]]) -> Iterator[list[tuple[str, Pair]]]:
    iterator = iter(pairs)
    while batch := list(islice(iterator, BATCH)):
        yield batch


def _add(found: Collected, part: str, pair: Pair) -> None:
    found.passages.add(pair.passage, keep_repeated=False)
    found.critiques.add(pair.critique, keep_repeated=True)
    found.groups.append(0 if pair.group is None else hash_bits(pair.group))
    found.part.append((*PARTS, ALL).index(part))
    key = hash_bits(f"{found.passages.hashes[-1]} {found.critiques.hashes[-1]}")
    found.sample.offer(key, pair)
    found.samples_of_parts[part].offer(key, pair)


def _count_tokens(found: Collected, pairs: list[Pair], tokenizer: PreTrainedTokenizerBase) -> None:
    unique = list(dict.fromkeys(text for pair in pairs for text in pair[:2]))
    ids = tokenizer(unique, truncation=False, return_attention_mask=False, verbose=False)["input_ids"]
    counts = {text: len(tokens) for text, tokens in zip(unique, ids, strict=True)}
    found.passages.tokens.extend(counts[pair.passage] for pair in pairs)
    found.critiques.tokens.extend(counts[pair.critique] for pair in pairs)
