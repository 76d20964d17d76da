"""Where the memory of chunks goes on CPUs: kept for the next chunk, given back where it would pile up."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
LARGEST_KEPT = 32 * 2**20  # bytes of a block; every glibc accepts as much
NEVER = -1


@cache
def keep_heap() -> None:
    """Let glibc keep what a chunk frees, for the next one; elsewhere nothing.

    By itself it gives free memory back from twice the size of the largest block on, which two hidden states reach:
    every layer of every chunk would ask for its memory anew, page by page: some 100,000 page faults in a training
    step of 24 pairs, which are dear on a virtual machine (scripts/bench/README.md).
    """
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


@cache
def _function(name: str) -> Any:
    """A function of glibc's; ``None`` where another C library serves, e.g. musl."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return getattr(library, name) if hasattr(library, "gnu_get_libc_version") else None
