"""Memory that chunks free is kept until it is released."""

from __future__ import annotations

import platform

import psutil
import pytest
import torch

from carp.model.heap import keep_heap, release_heap

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
