"""Two processes compute what one computes on the joined batch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import PATIENCE
from parity import largest_difference, plain_gradients, random_texts
from safetensors.torch import load_file

from carp.model.carp_model import CarpModel

TESTS = Path(__file__).parent
PAIRS = 12


@pytest.fixture
def saved_model(model: CarpModel, model_folder: Path) -> Path:
    assert model.config.passage_config.hidden_dropout_prob == 0.1
    return model_folder


def two_process_gradients(folder: Path, out: Path, *jobs: str) -> list[dict[str, torch.Tensor]]:
    """What two processes of one thread each find in each job (KIND-TOKENS_PER_CHUNK); all in one launch."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    run = subprocess.run(
        [*launcher, str(TESTS / "distributed_worker.py"), str(folder), str(out), *jobs],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return [load_file(out / f"{job}.safetensors") for job in jobs]


def one_process_gradients(folder: Path, tokens_per_chunk: int) -> tuple[float, dict[str, torch.Tensor]]:
    model = CarpModel.from_pretrained(folder, dtype=torch.float64).train()
    passages = [random_texts(PAIRS, seed=10 + rank) for rank in range(2)]
    critiques = [random_texts(PAIRS, seed=20 + rank, longest=12) for rank in range(2)]
    groups = torch.tensor(([7, 7] + [-1] * (PAIRS - 2)) * 2)
    return plain_gradients(model, passages, critiques, tokens_per_chunk, seeds=[0, 1], groups=groups)


def test_ddp_gives_the_gradient_of_the_joined_batch(saved_model: Path, tmp_path: Path) -> None:
    sizes = [1, 70, 100_000]
    for size, found in zip(
        sizes, two_process_gradients(saved_model, tmp_path, *(f"ddp-{n}" for n in sizes)), strict=True
    ):
        loss, expected = one_process_gradients(saved_model, size)
        assert found.pop("loss").item() == pytest.approx(loss, rel=1e-12)
        assert found.pop("synchronisations") == 1
        assert largest_difference(found, expected) < 1e-10


def test_deepspeed_gives_the_gradient_of_the_joined_batch(saved_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("deepspeed", reason="needs the extra 'deepspeed'")
    loss, expected = one_process_gradients(saved_model, tokens_per_chunk=70)
    for found in two_process_gradients(saved_model, tmp_path, "zero1-70", "zero2-70"):
        assert found.pop("loss").item() == pytest.approx(loss, rel=1e-12)
        kept = {
            name.removeprefix("kept."): found.pop(name).double() for name in list(found) if name.startswith("kept.")
        }
        assert largest_difference(found, expected) < 1e-10
        assert largest_difference(kept, expected) < 1e-6  # DeepSpeed keeps gradients in float32
