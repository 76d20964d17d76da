"""The few words that the processes of a run exchange."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor


def expect_no_gpu() -> None:
    """Tell an installed DeepSpeed that there is no GPU, or it prints a warning wherever accelerate looks for it."""
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")


def process_count() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def process_rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def gather_rows(rows: Tensor) -> Tensor:
    """Rows [n, ...] of every process, [processes * n, ...], in the order of the processes; no gradient."""
    if process_count() == 1:
        return rows
    device = torch.device("cuda") if dist.get_backend() == "nccl" else rows.device
    parts = [torch.empty_like(rows, device=device) for _ in range(process_count())]
    dist.all_gather(parts, rows.contiguous().to(device))
    return torch.cat(parts)
