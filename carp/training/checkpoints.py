"""Checkpoints of a run: model, optimiser and position travel together and appear all at once.

``OUTPUT/checkpoints/step-000100/`` is itself a folder for ``CarpModel.from_pretrained``; beside the model it
holds ``training.json`` and one ``optimizer-RANK.safetensors`` per process that owns optimiser state (one, or
every process under DeepSpeed). A checkpoint is written under a hidden name and renamed: what has a name is whole.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.optim import Optimizer

from carp.errors import InputError
from carp.model.carp_model import CarpModel

TRAINING_FILES = ("training.json", "optimizer-*.safetensors")


class Checkpoints:
    """The checkpoints of one output folder.

    Args:
        output: the run's folder.
        keep: newest checkpoints to keep, beside the best one.
    """

    def __init__(self, output: Path, keep: int) -> None:
        self.folder = output / "checkpoints"
        self.keep = keep

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:06d}"

    def steps(self) -> list[int]:
        """Steps of the complete checkpoints, ascending."""
        return sorted(int(p.name.removeprefix("step-")) for p in self.folder.glob("step-*"))

    def latest(self) -> Path | None:
        """The newest complete checkpoint, if there is one."""
        steps = self.steps()
        return self.path(steps[-1]) if steps else None

    def save(self, accelerator: Accelerator, model: CarpModel, optimizer: Any, state: dict[str, Any]) -> None:
        """Write the checkpoint of ``state["step"]``; every process calls this."""
        target = self.path(state["step"])
        draft = self.folder / f".{target.name}"
        if accelerator.is_main_process:
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
        accelerator.wait_for_everyone()
        rank = accelerator.process_index
        sharded = accelerator.distributed_type == DistributedType.DEEPSPEED
        if accelerator.scaler is not None:
            state = state | {"scaler": accelerator.scaler.state_dict()}
        if accelerator.is_main_process or sharded:
            save_file(optimizer_tensors(optimizer), draft / f"optimizer-{rank:05d}.safetensors")
        if accelerator.is_main_process:
            model.save_pretrained(draft)
            (draft / "training.json").write_text(json.dumps(state, indent=1))
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            _sync_to_disk(draft)
            os.replace(draft, target)
            self._rotate(state.get("best_step"))

    def _rotate(self, best_step: int | None) -> None:
        for step in self.steps()[: -self.keep]:
            if step != best_step:
                # Renamed first, so that a kill in between leaves no half of it under its name.
                doomed = self.folder / f".removed-{step:06d}"
                os.replace(self.path(step), doomed)
                shutil.rmtree(doomed)


def load_state(checkpoint: Path) -> dict[str, Any]:
    """What ``training.json`` says: step, best result, configuration, versions."""
    try:
        state: dict[str, Any] = json.loads((checkpoint / "training.json").read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise InputError(f"{checkpoint}: no checkpoint of a run ({error}); remove the folder") from error
    return state


def load_optimizer(checkpoint: Path, accelerator: Accelerator, optimizer: Any) -> None:
    """Put the saved state back into the optimiser (and the float16 gradient scaler) of this process.

    Raises:
        InputError: if the checkpoint was written by another number of processes or another kind of run.
    """
    sharded = accelerator.distributed_type == DistributedType.DEEPSPEED
    files = sorted(checkpoint.glob("optimizer-*.safetensors"))
    if len(files) != (accelerator.num_processes if sharded else 1):
        raise InputError(
            f"{checkpoint}: holds the optimiser state of {len(files)} DeepSpeed processes or of a run without "
            f"DeepSpeed: resume with the same launch configuration"
        )
    restore_optimizer(optimizer, load_file(files[accelerator.process_index if sharded else 0]))
    if accelerator.scaler is not None:
        accelerator.scaler.load_state_dict(load_state(checkpoint)["scaler"])


def optimizer_tensors(optimizer: Any) -> dict[str, Tensor]:
    """Everything an optimiser remembers, as tensors: its state and, under DeepSpeed, its master weights."""
    inner, masters = _unwrapped(optimizer)
    tensors = {
        f"state.{index}.{name}": value.detach().cpu().contiguous()
        for index, entries in inner.state_dict()["state"].items()
        for name, value in entries.items()
        if isinstance(value, Tensor)
    }
    tensors |= {f"master.{i}": master.detach().cpu().contiguous() for i, master in enumerate(masters)}
    return {name: tensor.clone() for name, tensor in tensors.items()}


def restore_optimizer(optimizer: Any, tensors: dict[str, Tensor]) -> None:
    """The inverse of :func:`optimizer_tensors`."""
    inner, masters = _unwrapped(optimizer)
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        kind, index, *name = key.split(".")
        if kind == "state":
            state.setdefault(int(index), {})[name[0]] = tensor
    inner.load_state_dict({"state": state, "param_groups": inner.state_dict()["param_groups"]})
    with torch.no_grad():
        for i, master in enumerate(masters):
            master.copy_(tensors[f"master.{i}"])


def _unwrapped(optimizer: Any) -> tuple[Optimizer, list[Tensor]]:
    """The torch optimiser, and the float32 partitions of the weights that DeepSpeed keeps in its ZeRO optimiser."""
    masters: list[Tensor] = []
    while not isinstance(optimizer, Optimizer) or hasattr(optimizer, "optimizer"):
        masters = masters or list(getattr(optimizer, "single_partition_of_fp32_groups", []))
        optimizer = optimizer.optimizer
    return optimizer, masters


def _sync_to_disk(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
