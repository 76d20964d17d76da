"""Passages to probe with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carp.data.pairs import read_pairs
from carp.errors import InputError

LEAST_WORDS = 60  # a shorter passage has too little that can be damaged


@dataclass(frozen=True)
class Passages:
    """``n`` passages; those of one group (a story) are no independent cases."""

    source: str
    texts: Sequence[str]
    group: NDArray[np.int64]  # [n], 0 .. groups - 1


def read_passages(source: str, limit: int, seed: int) -> Passages:
    """The different passages of a data set, at most ``limit`` of them, drawn at random.

    Args:
        source: see :func:`~carp.data.pairs.read_pairs`.

    Raises:
        InputError: if none is long enough.
    """
    groups = {
        pair.passage: pair.group or pair.passage
        for pair in read_pairs(source)
        if len(pair.passage.split()) >= LEAST_WORDS
    }
    if len(set(groups.values())) < 2:
        raise InputError(f"{source}: has fewer than two passages of {LEAST_WORDS} words or more; give more of them")
    texts = list(groups)
    if len(texts) > limit:
        texts = [texts[i] for i in sorted(np.random.default_rng(seed).choice(len(texts), limit, replace=False))]
    numbers = np.unique([groups[text] for text in texts], return_inverse=True)[1]
    return Passages(source, texts, numbers.astype(np.int64))
