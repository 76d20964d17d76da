"""One process of parity tests: steps on its share of a batch; the first process saves what each found.

python distributed_worker.py MODEL FOLDER KIND-TOKENS_PER_CHUNK...   (launched by torchrun; KIND: ddp, zero1, zero2)
"""

import os
import sys
from functools import partial
from pathlib import Path

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import torch
import torch.distributed as dist
from parity import gradients, random_texts
from safetensors.torch import save_file
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from carp.model.carp_model import CarpModel
from carp.training.contrastive import contrastive_backward

PAIRS_PER_PROCESS = 12


def deepspeed_engine(model: CarpModel, stage: int) -> torch.nn.Module:
    import deepspeed

    # gloo does the same work as kernels that would be compiled for minutes.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    config = {
        "train_micro_batch_size_per_gpu": PAIRS_PER_PROCESS,
        "zero_optimization": {"stage": stage, "reduce_scatter": False},  # reduce-scatter knows no float64
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return deepspeed.initialize(model=model, optimizer=optimizer, config=config, dist_init_required=False)[0]


def watch(model: CarpModel) -> dict[str, torch.Tensor]:
    """Filled in the backward pass with the gradients that are handed to the wrapper, in full precision."""
    handed: dict[str, torch.Tensor] = {}

    def note(name: str, gradient: torch.Tensor) -> None:
        handed[name] = gradient.clone()  # the last call holds the sum over all chunks

    for name, p in model.named_parameters():
        p.register_hook(partial(note, name))
    return handed


def count_synchronisations(wrapped: DistributedDataParallel) -> torch.Tensor:
    """A counter of the buckets that DDP exchanges; the tiny model fills one."""
    count = torch.zeros(1)

    def counting(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        count.add_(1)
        return allreduce_hook(None, bucket)

    wrapped.register_comm_hook(None, counting)
    return count


def averaged(handed: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    for gradient in handed.values():
        dist.all_reduce(gradient)
        gradient /= dist.get_world_size()
    return handed


def step(folder: str, kind: str, tokens_per_chunk: int) -> dict[str, torch.Tensor]:
    """Loss, gradients and, under DDP, the number of exchanges of one step."""
    rank = dist.get_rank()
    model = CarpModel.from_pretrained(folder, dtype=torch.float64).train()
    wrapped = DistributedDataParallel(model) if kind == "ddp" else deepspeed_engine(model, int(kind[-1]))
    passages = random_texts(PAIRS_PER_PROCESS, seed=10 + rank)
    critiques = random_texts(PAIRS_PER_PROCESS, seed=20 + rank, longest=12)
    torch.manual_seed(rank)
    # Groups reach across processes: the first two pairs of each share theirs.
    groups = torch.tensor([7, 7] + [-1] * (PAIRS_PER_PROCESS - 2))
    if kind == "ddp":
        synchronisations = count_synchronisations(wrapped)
    handed = watch(model)
    result = contrastive_backward(wrapped, passages, critiques, tokens_per_chunk=tokens_per_chunk, groups=groups)
    found = {"loss": result.loss}
    if kind == "ddp":
        return found | {"synchronisations": synchronisations, **gradients(model)}
    from deepspeed.utils import safe_get_full_grad

    # DeepSpeed keeps gradients in float32 whatever the model is in: both are compared.
    found |= {f"kept.{name}": safe_get_full_grad(p).clone() for name, p in model.named_parameters()}
    return found | averaged(handed)


def main(folder: str, out: Path, *jobs: str) -> None:
    dist.init_process_group("gloo")
    for job in jobs:
        kind, tokens_per_chunk = job.split("-")
        found = step(folder, kind, int(tokens_per_chunk))
        if dist.get_rank() == 0:
            save_file(found, out / f"{job}.safetensors")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
