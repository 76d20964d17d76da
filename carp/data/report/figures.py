"""Counts of what was collected: sizes, lengths, vocabulary, duplicates, frequent critiques."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carp.data.report.collecting import Collected, Column, Numbers, as_numbers
from carp.data.report.sources import ALL, PARTS
from carp.data.report.statistics import Lengths, Share, lengths, share

CONTEXT = 512  # tokens; the paper, section 2.2.3
FREQUENT = 10
COMMON_WORDS = 1000


@dataclass(frozen=True)
class Texts:
    """Lengths of the passages or the critiques, one per pair, and their vocabulary (each distinct text once)."""

    distinct: Share
    words: Lengths | None
    tokens: Lengths | None
    cut_at_512: Share
    empty: Share
    running_words: int
    vocabulary: int
    words_seen_once: Share
    covered_by_1000_commonest_words: Share


@dataclass(frozen=True)
class Duplicates:
    """Pairs, critiques and passages that occur more than once; letter case and white space make no difference."""

    repeated_pairs: Share
    critiques_seen_before: Share
    critiques_of_several_passages: Share


@dataclass(frozen=True)
class Overlap:
    """Validation pairs whose passage, critique or group occurs in the training part, too."""

    passage: Share
    critique: Share
    group: Share


@dataclass(frozen=True)
class Sizes:
    """How many pairs; ``digest`` identifies them, in whatever order they stand."""

    pairs: int
    parts: dict[str, int]
    groups: int
    pairs_without_group: int
    digest: str


def sizes(found: Collected) -> Sizes:
    """Count pairs, parts and groups."""
    groups = as_numbers(found.groups)
    both = _joined(as_numbers(found.passages.hashes), as_numbers(found.critiques.hashes))
    return Sizes(
        pairs=len(groups),
        parts={part: n for part in (*PARTS, ALL) if (n := int(found.of_part(part).sum()))},
        groups=len(np.unique(groups[groups != 0])),
        pairs_without_group=int((groups == 0).sum()),
        digest=hashlib.sha256(np.sort(both, order=["first", "second"]).tobytes()).hexdigest()[:16],
    )


def texts(column: Column) -> Texts:
    """Measure a column."""
    tokens, words = as_numbers(column.tokens), as_numbers(column.words)
    counts = column.vocabulary
    running = counts.total()
    common = sum(count for _, count in counts.most_common(COMMON_WORDS))
    return Texts(
        distinct=share(len(column.seen), len(words)),
        words=lengths(words),
        tokens=lengths(tokens),
        cut_at_512=share(int((tokens > CONTEXT).sum()), len(tokens)),
        empty=share(int((words == 0).sum()), len(words)),
        running_words=running,
        vocabulary=len(counts),
        words_seen_once=share(sum(count == 1 for count in counts.values()), len(counts)),
        covered_by_1000_commonest_words=share(common, running),
    )


def duplicates(found: Collected) -> Duplicates:
    """Count what is repeated."""
    critiques = as_numbers(found.critiques.hashes)
    distinct = np.unique(_joined(critiques, as_numbers(found.passages.hashes)))
    names, passages = np.unique(distinct["first"], return_counts=True)
    n = len(critiques)
    return Duplicates(
        repeated_pairs=share(n - len(distinct), n),
        critiques_seen_before=share(n - len(names), n),
        critiques_of_several_passages=share(int(np.isin(critiques, names[passages > 1]).sum()), n),
    )


def overlap(found: Collected) -> Overlap | None:
    """What the validation part shares with the training part; ``None`` without both parts."""
    train, validation = (found.of_part(part) for part in PARTS)
    if not train.any() or not validation.any():
        return None

    def shared(hashes: Numbers, known: NDArray[np.bool_]) -> Share:
        mine = hashes[validation & known]
        return share(int(np.isin(mine, hashes[train & known]).sum()), len(mine))

    everywhere = np.ones(len(train), np.bool_)
    groups = as_numbers(found.groups)
    return Overlap(
        passage=shared(as_numbers(found.passages.hashes), everywhere),
        critique=shared(as_numbers(found.critiques.hashes), everywhere),
        group=shared(groups, groups != 0),
    )


def frequent_critiques(found: Collected, most: int = FREQUENT) -> list[tuple[str, int]]:
    """The critiques that occur most often, and how often; those that occur once are no part of it."""
    repeated = found.critiques.repeated
    counts = Counter(key for key in found.critiques.hashes if key in repeated)
    ordered = sorted(((repeated[key], count) for key, count in counts.items()), key=lambda item: (-item[1], item[0]))
    return ordered[:most]


def _joined(first: Numbers, second: Numbers) -> np.ndarray:
    both = np.empty(len(first), [("first", np.int64), ("second", np.int64)])
    both["first"], both["second"] = first, second
    return both
