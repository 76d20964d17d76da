"""Where the memory of chunks goes on CPUs: kept for the next chunk, given back where it would pile up."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import Any

import psutil

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
LARGEST_KEPT = 32 * 2**20  # bytes of a block; every glibc accepts as much
NEVER = -1
PRODUCTS_KEPT = 16  # by oneDNN; the layers of a chunk share some ten
GROWTH = 1.02  # of resident memory; beyond it, what is free is given back


@cache
def keep_heap() -> None:
    """Let glibc keep what a chunk frees, for the next one; elsewhere nothing.

    By itself it gives free memory back from twice the size of the largest block on, which two hidden states reach:
    every layer of every chunk would ask for its memory anew, page by page: some 100,000 page faults in a training
    step of 24 pairs, which are dear on a virtual machine (scripts/bench/README.md).

    oneDNN keeps a compiled product for every shape, the last 1024 of them, which lie scattered over the heap. It is
    told to keep few, unless the environment says otherwise; it listens until its first product in the process.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(PRODUCTS_KEPT))
    if option := _function("mallopt"):
        option(M_MMAP_THRESHOLD, LARGEST_KEPT)
        option(M_TRIM_THRESHOLD, NEVER)


def release_heap() -> None:
    """Return what is free in glibc's heap to the system; elsewhere nothing.

    Chunks have ever other shapes, and the blocks that one leaves seldom fit the next: without this, the peak memory
    of a step on a CPU grew by 13 to 29 % from 256 to 2048 pairs (scripts/bench/README.md has what it grows by now).
    """
    if trim := _function("malloc_trim"):
        trim(0)


class HeapGrowth:
    """Releases the heap at once and where chunks make it grow, and only there: what is released is asked for anew."""

    def __init__(self) -> None:
        release_heap()
        self._fresh = 0  # resident bytes after the first chunk since the last release

    def after_chunk(self) -> None:
        """To be called when a chunk's memory is free again."""
        resident = _resident_bytes()
        self._fresh = self._fresh or resident
        if resident > GROWTH * self._fresh:
            release_heap()
            self._fresh = 0


def _resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


@cache
def _function(name: str) -> Any:
    """A function of glibc's; ``None`` where another C library serves, e.g. musl."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return getattr(library, name) if hasattr(library, "gnu_get_libc_version") else None
