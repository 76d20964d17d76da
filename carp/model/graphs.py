"""How much memory the graphs of embedded chunks may take, so that they need not be embedded twice."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import psutil
import torch
from torch import Tensor

from carp.model.heap import release_heap

FREE_SHARE = 0.33  # of the memory that is free when a run starts; the rest is for the step itself and for others


class GraphBudget:
    """Memory for graphs, in bytes, shared by the two towers of a step.

    What a token takes is measured at the first (longest) chunk of each tower, from the tensors that autograd
    saves for it.
    """

    def __init__(self, size: float) -> None:
        self.left = float(size)
        self._per_token: float | None = None

    def next_tower(self) -> None:
        """Forget what a token takes: another encoder takes something else."""
        self._per_token = None

    def affords(self, tokens: int) -> bool:
        """Whether a graph over so many tokens fits (the first one is tried and measured)."""
        return self.left > 0 and tokens * (self._per_token or 0) <= self.left

    @contextmanager
    def spending(self, tokens: int, parameters: Iterable[Tensor]) -> Iterator[None]:
        """Run the forward pass of a graph in this context; ``left`` is negative afterwards if it does not fit."""
        if self._per_token is None:
            with _saved_bytes(parameters) as counted:
                yield
            self._per_token = counted[0] / tokens
        else:
            yield
        self.left -= tokens * self._per_token


@contextmanager
def _saved_bytes(parameters: Iterable[Tensor]) -> Iterator[list[int]]:
    """Counts the bytes of storages that autograd saves in this context, parameters apart."""
    seen = {p.untyped_storage().data_ptr() for p in parameters}
    counted = [0]

    def pack(saved: Tensor) -> Tensor:
        storage = saved.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            counted[0] += storage.nbytes()
        return saved

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
        yield counted


def memory_for_graphs(device: torch.device) -> float:
    """Bytes that a process of this machine can give to graphs: a share of what is free now."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return FREE_SHARE * (free + unused)
    release_heap()  # or what this process keeps for its next chunk would count as taken
    return FREE_SHARE * psutil.virtual_memory().available / int(os.environ.get("LOCAL_WORLD_SIZE", 1))
