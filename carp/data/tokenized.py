"""Pairs tokenised once, kept in a memory-mapped Arrow file, split by group and served in batches."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm.auto import tqdm
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from carp.data.pairs import Pair, pairs_path, read_pairs
from carp.errors import InputError
from carp.files import written_folder
from carp.model.texts import TokenizedTexts

MIN_CHARACTERS = 8  # shorter texts say nothing (CARP, section 2.2.3)
PAIRS_PER_BLOCK = 2000
BLOCK = 32  # pairs of one topic that stand together in a batch
FORMAT = 2
SCHEMA = pa.schema(
    [
        ("passage", pa.list_(pa.int32())),
        ("critique", pa.list_(pa.int32())),
        ("group", pa.int64()),  # -1: of no group
        ("unit", pa.int64()),  # what must stay on one side of a split: the group, else the passage
        ("topic", pa.int64()),  # -1: of no topic
    ]
)


class Batch(NamedTuple):
    """``n`` tokenised pairs and their groups [n] (-1: of no group)."""

    passages: TokenizedTexts
    critiques: TokenizedTexts
    groups: Tensor


class TokenizedPairs:
    """Tokenised pairs in a memory-mapped file.

    Attributes:
        info: counts made while tokenising: pairs, too short ones, shares cut at the context length.
    """

    def __init__(self, folder: Path) -> None:
        self.info: dict[str, float] = json.loads((folder / "info.json").read_text())
        with pa.memory_map(str(folder / "pairs.arrow")) as source:
            self._table = pa.ipc.open_file(source).read_all()

    def __len__(self) -> int:
        return self._table.num_rows

    @cached_property
    def units(self) -> NDArray[np.int64]:
        """[n] what must not be divided between training and validation."""
        return self._table["unit"].to_numpy()

    @cached_property
    def topics(self) -> NDArray[np.int64]:
        """[n] what pairs are about; those of one topic come in the same batches (-1: of no topic)."""
        return self._table["topic"].to_numpy()

    def batch(self, rows: NDArray[np.int64]) -> Batch:
        """The pairs of the given rows, in that order."""
        taken = self._table.take(pa.array(rows))
        return Batch(_texts(taken["passage"]), _texts(taken["critique"]), torch.tensor(taken["group"].to_numpy()))


def _texts(column: pa.ChunkedArray) -> TokenizedTexts:
    array = column.combine_chunks()
    tokens = torch.from_numpy(array.flatten().to_numpy().astype(np.int64))
    return TokenizedTexts(tokens, torch.from_numpy(array.value_lengths().to_numpy().astype(np.int64)))


def tokenize_pairs(
    source: str,
    passage_tokenizer: PreTrainedTokenizerBase,
    critique_tokenizer: PreTrainedTokenizerBase,
    max_passage_tokens: int,
    max_critique_tokens: int,
    cache: Path,
    progress: bool = False,
) -> TokenizedPairs:
    """Tokenise a data set, or open what an earlier call with the same input has written.

    Args:
        source: see :func:`~carp.data.pairs.read_pairs`.
        max_passage_tokens, max_critique_tokens: longer texts are cut there, special tokens included.
        cache: folder that keeps the result.
        progress: show a progress bar.

    Raises:
        InputError: names the file, the row and the mend; nothing half-written stays.
    """
    limits = {"passage": max_passage_tokens, "critique": max_critique_tokens}
    tokenizers = {"passage": passage_tokenizer, "critique": critique_tokenizer}
    key = _cache_key(source, tokenizers, limits)
    folder = cache / "tokenized" / key
    if not folder.exists():
        cut = {side: _cutter(tokenizer, limits[side]) for side, tokenizer in tokenizers.items()}
        with written_folder(folder) as draft:
            _tokenize_into(draft, source, cut, progress)
    return TokenizedPairs(folder)


def source_identity(source: str) -> str:
    """What tells whether a data set is still the same: name, size and time of change of its files."""
    path = Path(pairs_path(source))
    parts = sorted(path.rglob("*")) if path.is_dir() else [path]
    stats = [(str(p.absolute()), p.stat().st_size, p.stat().st_mtime_ns) for p in parts if p.is_file()]
    return json.dumps(stats or [source])


def _cache_key(source: str, tokenizers: dict[str, PreTrainedTokenizerBase], limits: dict[str, int]) -> str:
    vocabularies = [t.backend_tokenizer.to_str() if t.is_fast else repr(t) for t in tokenizers.values()]
    identity = json.dumps([FORMAT, MIN_CHARACTERS, source_identity(source), vocabularies, limits])
    return hashlib.sha256(identity.encode()).hexdigest()[:24]


Cutter = Callable[[list[str]], tuple[list[list[int]], int]]


def _cutter(tokenizer: PreTrainedTokenizerBase, limit: int) -> Cutter:
    """Token ids of texts, cut at ``limit``, and how many were cut."""
    special = tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"]
    trailing = special[::-1].index(0)

    def cut(texts: list[str]) -> tuple[list[list[int]], int]:
        # A story with many comments comes many times in a row. One token more than fits tells a cut text
        # from one that just fits.
        unique = list(dict.fromkeys(texts))
        ids = dict(zip(unique, tokenizer(unique, truncation=True, max_length=limit + 1)["input_ids"], strict=True))
        rows = [ids[text] for text in texts]
        fitting = [row if len(row) <= limit else row[: limit - trailing] + row[len(row) - trailing :] for row in rows]
        return fitting, sum(len(row) > limit for row in rows)

    return cut


def _tokenize_into(folder: Path, source: str, cut: dict[str, Cutter], progress: bool) -> None:
    counts = {"pairs": 0, "too_short": 0, "passages_cut": 0, "critiques_cut": 0}
    with (
        pa.OSFile(str(folder / "pairs.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, SCHEMA) as writer,
        tqdm(unit="pair", desc="tokenising", disable=not progress) as bar,
    ):
        for block in _blocks(read_pairs(source), PAIRS_PER_BLOCK):
            kept = [p for p in block if min(len(p.passage.strip()), len(p.critique.strip())) >= MIN_CHARACTERS]
            counts["too_short"] += len(block) - len(kept)
            if kept:
                writer.write_batch(_block_of_tokens(kept, cut, counts))
            bar.update(len(block))
    if not counts["pairs"]:
        raise InputError(f"{source}: no pair with at least {MIN_CHARACTERS} characters on both sides")
    (folder / "info.json").write_text(json.dumps(counts))


def _block_of_tokens(pairs: list[Pair], cut: dict[str, Cutter], counts: dict[str, int]) -> pa.RecordBatch:
    passages, passages_cut = cut["passage"]([p.passage for p in pairs])
    critiques, critiques_cut = cut["critique"]([p.critique for p in pairs])
    counts["pairs"] += len(pairs)
    counts["passages_cut"] += passages_cut
    counts["critiques_cut"] += critiques_cut
    groups = [-1 if p.group is None else _hash("group", p.group) for p in pairs]
    units = [_hash("passage", p.passage) if g < 0 else g for p, g in zip(pairs, groups, strict=True)]
    topics = [-1 if p.topic is None else _hash("topic", p.topic) for p in pairs]
    return pa.record_batch([passages, critiques, groups, units, topics], schema=SCHEMA)


def _hash(kind: str, text: str) -> int:
    digest = hashlib.blake2b(f"{kind}:{text}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _blocks(pairs: Iterator[Pair], size: int) -> Iterator[list[Pair]]:
    while block := list(islice(pairs, size)):
        yield block


def split_rows(units: NDArray[np.int64], validation_pairs: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Divide rows into training and validation by whole units (groups, else passages).

    Which unit goes where follows from its hash alone, not from the order of the data. The last unit taken
    may hold more pairs than are wanted: its surplus is left out of both sides.

    Args:
        units: [n] non-negative hashes.
        validation_pairs: pairs wanted for validation.

    Returns:
        Rows for training and ``validation_pairs`` rows for validation.

    Raises:
        InputError: if nothing would be left for training.
    """
    order = units.argsort(kind="stable")
    if validation_pairs >= len(units):
        raise InputError(
            f"{len(units)} pairs are too few for data.validation_pairs={validation_pairs}: choose a smaller number"
        )
    taken = np.unique(units[order[:validation_pairs]])
    training = np.flatnonzero(~np.isin(units, taken))
    if not len(training):
        raise InputError("the validation pairs leave no group for training: set data.validation_pairs lower")
    return training, np.sort(order[:validation_pairs])


class BatchSampler:
    """Which rows make the batch of which step: a function of the seed and the step alone.

    So a run that continues needs no position in the data but its step. Each epoch has an order of its own; a rest that
    does not fill a batch is left out of its epoch.

    Args:
        rows: [n] that are sampled from.
        batch_size: pairs of a batch.
        seed: of the order.
        topics: [n] topics of the rows (-1: of none). Pairs of one topic come in blocks of up to ``BLOCK``, so that a
            batch holds hard negatives: what else was said of stories to the same prompt.
    """

    def __init__(
        self, rows: NDArray[np.int64], batch_size: int, seed: int, topics: NDArray[np.int64] | None = None
    ) -> None:
        self._rows, self._batch_size, self._seed = rows, batch_size, seed
        self._topics = np.full(len(rows), -1) if topics is None else topics
        self._epoch, self._order = -1, rows[:0]

    def batch(self, step: int) -> NDArray[np.int64]:
        """The rows of the batch of ``step`` (from 0)."""
        epoch, position = divmod(step, len(self._rows) // self._batch_size)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._shuffled(epoch)
        return self._rows[self._order[position * self._batch_size : (position + 1) * self._batch_size]]

    def _shuffled(self, epoch: int) -> NDArray[np.int64]:
        generator = np.random.default_rng([self._seed, epoch])
        order = generator.permutation(len(self._rows))
        topics = self._topics[order]
        if (topics < 0).all():
            return order
        by_topic = topics.argsort(kind="stable")
        place = np.arange(len(order)) - np.searchsorted(topics[by_topic], topics[by_topic])  # within the topic
        # A row begins a block of its own, or belongs to the one that the row before it belongs to.
        block = np.cumsum((place % BLOCK == 0) | (topics[by_topic] < 0)) - 1
        return order[by_topic][generator.permutation(block[-1] + 1)[block].argsort(kind="stable")]
