"""Which steps are run, and how."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from carp.constants import MINILM
from carp.data.preparation.masking import THRESHOLD
from carp.data.preparation.story import BUDGET
from carp.errors import InputError


@dataclass(frozen=True)
class PreparationOptions:
    """Which steps are run, and how.

    Attributes:
        align: cut the passage that a comment is about; else every comment gets the beginning of its story.
        budget: tokens of a passage.
        tokenizer: of the encoder; folder or Hub id.
        mask: replace by ``[quote]`` what a critique quotes.
        threshold: words that make a quote.
        anonymize: replace names and other identifiers.
        recognizer: what finds names: ``spacy``, ``spacy:PIPELINE`` or ``hub:MODEL``.
        filter: drop pairs of no use.
        drop_off_topic: of those, also critiques that are about the task and not about the passage.
        near_duplicates: drop pairs whose passages and critiques share so much of their runs of words with those of
            another pair, e.g. 0.9; 0: keep them.
        validation_pairs: pairs that are kept apart.
        pairs_per_shard: rows of an output file.
    """

    align: bool = True
    budget: int = BUDGET
    tokenizer: str = MINILM
    mask: bool = True
    threshold: int = THRESHOLD
    anonymize: bool = True
    recognizer: str = "spacy"
    filter: bool = True
    drop_off_topic: bool = False
    near_duplicates: float = 0.0
    validation_pairs: int = 1000
    pairs_per_shard: int = 100_000

    def __post_init__(self) -> None:
        least = {"budget": 16, "threshold": 2, "validation_pairs": 0, "pairs_per_shard": 1}
        for name, limit in least.items():
            if getattr(self, name) < limit:
                raise InputError(f"{name}={getattr(self, name)}: give at least {limit}")
        if not 0 <= self.near_duplicates < 1:
            raise InputError(f"near_duplicates={self.near_duplicates}: give 0 (off) or a share below 1, e.g. 0.9")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
