"""Memory that chunks free is kept until it is released."""

from __future__ import annotations

import platform

import psutil
import pytest
import torch

from carp.model import heap
from carp.model.heap import HeapGrowth, keep_heap, release_heap

BLOCK, NUMBER = 24 * 2**20, 8  # by itself glibc never keeps more than 64 MB


def resident() -> int:
    return psutil.Process().memory_info().rss


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the heap is glibc's")
def test_memory_is_kept_and_released() -> None:
    keep_heap()
    release_heap()
    before = resident()
    blocks = [torch.ones(BLOCK, dtype=torch.uint8) for _ in range(NUMBER)]
    taken = resident() - before
    blocks.clear()
    assert resident() - before > 0.9 * taken > 0.8 * NUMBER * BLOCK
    release_heap()
    assert resident() - before < 0.1 * taken


def test_growth_is_released_and_a_steady_heap_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[int] = []
    number = resident_bytes = 0
    monkeypatch.setattr(heap, "release_heap", lambda: released.append(number))
    monkeypatch.setattr(heap, "_resident_bytes", lambda: resident_bytes)
    growth = HeapGrowth()
    for number, resident_bytes in enumerate([1000, 1015, 1021, 1100, 1110, 1130], 1):  # noqa: B007
        growth.after_chunk()
    assert released == [0, 3, 6]  # at once, then where 2 % are exceeded since the last time
