"""Pairs that are nearly the same: by MinHash, with the library datasketch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tqdm.auto import tqdm

from carp.data.preparation.words import word_keys
from carp.errors import InputError

SHINGLE = 3  # words
PERMUTATIONS = 128


def drop_near_duplicates(
    pairs: pa.Table, rows: NDArray[np.int64], threshold: float, progress: bool = False
) -> NDArray[np.int64]:
    """Those of ``rows`` [n] that are not nearly the same as an earlier one.

    Two pairs are nearly the same if both their critiques and their passages share ``threshold`` of their runs of three
    words (Jaccard similarity, estimated). Memory grows with the number of pairs: some 2 KB each.

    Raises:
        InputError: where datasketch is not installed.
    """
    try:
        from datasketch import MinHashLSH
    except ImportError as error:
        raise InputError("near duplicates need datasketch: pip install 'carp-critic[data]'") from error
    index = MinHashLSH(threshold=threshold, num_perm=PERMUTATIONS)
    passages: dict[int, Any] = {}
    kept = []
    for row in tqdm(rows.tolist(), unit="pair", desc="near duplicates", disable=not progress):
        critique = _sketch(pairs["critique"][row].as_py())
        passage = _sketch(pairs["passage"][row].as_py())
        if any(passages[other].jaccard(passage) >= threshold for other in index.query(critique)):
            continue
        index.insert(row, critique)
        passages[row] = passage
        kept.append(row)
    return np.array(kept, dtype=np.int64)


def _sketch(text: str) -> Any:
    from datasketch import MinHash

    keys = word_keys(text)
    sketch = MinHash(num_perm=PERMUTATIONS)
    sketch.update_batch([" ".join(keys[i : i + SHINGLE]).encode() for i in range(max(1, len(keys) - SHINGLE + 1))])
    return sketch
