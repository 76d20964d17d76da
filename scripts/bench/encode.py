"""Embedding stories with the weights of all-MiniLM-L6-v2: carp against sentence-transformers.

    python scripts/bench/encode.py --stories 2000 --rounds 5
    python scripts/bench/encode.py --stories 2000 --rounds 5 --data stories.jsonl

Both cut texts at 256 tokens and give unit vectors; each lives in a process of its own and they are timed in turn. What
is timed is one call from strings to embeddings, tokenising included: carp's ``encode_passages``, in float32 and with
8-bit layers, and ``SentenceTransformer.encode`` with its fastest batch size. The embeddings must agree (the 8-bit ones
at a mean cosine of 0.99), or nothing is timed. Ctrl-C ends the rounds; the table is then of those that are whole.

Without --data, a text is a run of words from carp's own sample passages, log-normally long (median 150 words).
"""

from __future__ import annotations

import argparse
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from workers import in_turn, machine_line, markdown_table, ratio, running

from carp.cli.main import quieten_libraries
from carp.constants import MINILM, QUOTE_TOKEN
from carp.data.pairs import SAMPLE, read_pairs
from carp.data.records import read_records
from carp.model.carp_model import TOKENS_PER_CHUNK, CarpModel
from carp.model.encoders import quiet_transformers, resolve_encoder
from carp.model.int8 import convert_to_int8

TOKENS = 256
TUNING_STORIES = 256
LEAST_COSINE = {"carp": 0.9999, "carp int8": 0.99}  # on average, to sentence-transformers
PEER = "sentence-transformers"


class Encoder(ABC):
    """What embeds texts; lives in a worker."""

    def __init__(self) -> None:
        quieten_libraries()
        self.texts: list[str] = []
        with quiet_transformers():
            self.build()

    @abstractmethod
    def build(self) -> None:
        """Load the model."""

    @abstractmethod
    def encode(self, texts: list[str]) -> np.ndarray:
        """[n, dim] embeddings of unit length."""

    @abstractmethod
    def tune(self, texts: list[str], batch_sizes: Sequence[int]) -> str:
        """Choose the batch size; what a batch is, for the table."""

    def take(self, texts: list[str]) -> None:
        """Make these the texts of the following calls."""
        self.texts = texts

    def embed(self) -> np.ndarray:
        """[n, dim] embeddings: the warm-up."""
        return self.encode(self.texts)

    def seconds(self) -> float:
        """Seconds from strings to embeddings."""
        began = time.perf_counter()
        self.encode(self.texts)
        return time.perf_counter() - began


class Carp(Encoder):
    """carp, without a projection: the bare sentence encoder."""

    def build(self) -> None:
        self.model = CarpModel.from_encoders(MINILM, projection_dim=None, pooling="mean", max_passage_tokens=TOKENS)

    def encode(self, texts: list[str]) -> np.ndarray:
        return self.model.encode_passages(texts).numpy()

    def tune(self, texts: list[str], batch_sizes: Sequence[int]) -> str:
        self.encode(texts)
        return f"{TOKENS_PER_CHUNK['cpu']} tokens"


class CarpInt8(Carp):
    """The same with 8-bit linear layers."""

    def build(self) -> None:
        super().build()
        convert_to_int8(self.model)


class SentenceTransformers(Encoder):
    """sentence-transformers; it sorts by length itself."""

    def build(self) -> None:
        from sentence_transformers import SentenceTransformer

        self.model = SentenceTransformer(resolve_encoder(MINILM), device="cpu")
        self.model.max_seq_length = TOKENS
        self.batch_size = 32

    def encode(self, texts: list[str]) -> np.ndarray:
        found: Any = self.model.encode(
            texts, batch_size=self.batch_size, normalize_embeddings=True, show_progress_bar=False
        )
        return np.asarray(found)

    def tune(self, texts: list[str], batch_sizes: Sequence[int]) -> str:
        """The batch size with the fastest call (the better of two each); it is kept."""
        self.texts, best = texts, {}
        self.encode(texts)
        for self.batch_size in batch_sizes:
            best[self.batch_size] = min(self.seconds() for _ in range(2))
        self.batch_size = min(best, key=lambda size: best[size])
        return f"{self.batch_size} texts"


def sample_stories(count: int) -> list[str]:
    """Runs of words from the sample's passages; log-normal numbers of words, median 150, sigma 0.7, 5 to 1000."""
    words = " ".join(dict.fromkeys(pair.passage for pair in read_pairs(SAMPLE))).split()
    random = np.random.default_rng(0)
    lengths = np.exp(random.normal(np.log(150), 0.7, count)).round().astype(int).clip(5, 1000)
    starts = random.integers(0, len(words) - 1000, count)
    return [" ".join(words[a : a + n]) for a, n in zip(starts, lengths, strict=True)]


def read_stories(path: Path, count: int) -> list[str]:
    """The first stories of a JSON Lines file (it may be gzipped) with the field ``story``.

    Left out are empty ones and those with ``[quote]``, which is one token to carp and several to its peer.
    """
    stories = (str(record["story"]) for _, record in read_records(path))
    return list(islice((story for story in stories if story.strip() and QUOTE_TOKEN not in story), count))


def mean_cosine(first: np.ndarray, second: np.ndarray) -> float:
    """The mean cosine of two embeddings of one text; NaN where one is NaN."""
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return float(((first * second).sum(axis=1) / norms).mean())


def measure(stories: list[str], rounds: int, batch_sizes: Sequence[int]) -> str:
    """The table. The speed-up is the median over rounds of the peer's seconds / those of the same round.

    Peak memory is that of these calls and one before them, the model and its libraries included.

    Raises:
        SystemExit: if embeddings have a lower mean cosine to the peer's than ``LEAST_COSINE``.
    """
    with running({"carp": (Carp,), "carp int8": (CarpInt8,), PEER: (SentenceTransformers,)}) as workers:
        chosen, embeddings = {}, {}
        for name, worker in workers.items():
            chosen[name] = worker.call("tune", stories[:TUNING_STORIES], batch_sizes)
            worker.reset_peak()
            worker.call("take", stories)
            embeddings[name] = worker.call("embed")
        cosines = {name: mean_cosine(found, embeddings[PEER]) for name, found in embeddings.items()}
        for name, least in LEAST_COSINE.items():
            if not cosines[name] > least:
                raise SystemExit(f"the embeddings disagree: {name} has a mean cosine of {cosines[name]:.6f}")
        seconds = in_turn(workers, "seconds", rounds)
        if not seconds.get(PEER):
            raise SystemExit(f"no whole round of {PEER}: there is nothing to compare")
        rounds = len(seconds[PEER])  # Ctrl-C may have ended them
        peaks = {name: workers[name].peak_megabytes() for name in seconds}
    rows = []
    for name, found in seconds.items():
        middle = median(found)
        row = [f"{middle:.2f}", f"{len(stories) / middle:.1f}", f"{ratio(seconds[PEER], found):.2f}"]
        rows.append([name, chosen[name], *row, f"{cosines[name]:.6f}", f"{peaks[name]:.0f}"])
    header = ["", "batch", "seconds", "texts/s", "speed-up", "mean cosine to the peer's", "peak MB"]
    return f"{len(stories)} stories, {rounds} rounds\n\n{markdown_table(header, rows)}"


def main() -> None:
    quieten_libraries()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stories", type=int, default=2000, help="number of texts")
    parser.add_argument("--rounds", type=int, default=5, help="timed calls of each, after the warm-up")
    parser.add_argument("--data", type=Path, help='JSON Lines file with a field "story"; by default texts are made')
    parser.add_argument(
        "--batch-sizes",
        type=int,
        nargs="+",
        default=[32, 64, 128],
        help=f"of which sentence-transformers takes its fastest, found on {TUNING_STORIES} stories",
    )
    options = parser.parse_args()
    stories = read_stories(options.data, options.stories) if options.data else sample_stories(options.stories)
    print(f"{machine_line('sentence-transformers')}\n", flush=True)
    print(measure(stories, options.rounds, options.batch_sizes))


if __name__ == "__main__":
    main()
