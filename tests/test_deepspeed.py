"""Runs under DeepSpeed's ZeRO, launched by accelerate with the bundled configurations."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from conftest import PATIENCE
from safetensors.torch import load_file
from test_training import NO_DROPOUT, wait_for_step, weights
from training_runs import REPOSITORY, finish, kill, start, tiny_options, training_command

from carp.model.carp_model import CarpModel
from carp.model.configuration import LOGIT_SCALE_BOUNDS
from carp.training.checkpoints import Checkpoints

pytest.importorskip("deepspeed", reason="needs the extra 'deepspeed'")

# At its first use on a machine DeepSpeed compiles its kernels for CPUs, which takes minutes;
# test_distributed compares its gradients without them.
pytestmark = pytest.mark.slow


def deepspeed_command(options: list[str], stage: int = 2, config: Path | None = None) -> list[str]:
    config = config or REPOSITORY / "configs" / f"accelerate_zero{stage}.yaml"
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(config)]
    return [*launcher, "--num_processes", "2", *training_command(options)[1:]]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("stage", [1, 2])
def test_zero_ends_where_one_process_does(tmp_path: Path, cache: Path, stage: int) -> None:
    finish(training_command(tiny_options(tmp_path / "plain", cache, *NO_DROPOUT)))
    finish(deepspeed_command(tiny_options(tmp_path / "zero", cache, *NO_DROPOUT), stage))
    plain, zero = (CarpModel.from_pretrained(tmp_path / name).state_dict() for name in ("plain", "zero"))
    for name, tensor in plain.items():
        torch.testing.assert_close(zero[name], tensor, rtol=1e-3, atol=1e-4)


def test_the_logit_scale_is_clamped_in_the_master_weights(tmp_path: Path, cache: Path) -> None:
    options = tiny_options(tmp_path / "run", cache, "train.logit_scale_lr=50", "train.lr=1e-9", "train.steps=5")
    finish(deepspeed_command(options))
    files = Checkpoints(tmp_path / "run", 2).path(5).glob("optimizer-*.safetensors")
    # The third group of the optimiser is the logit scale; the processes that do not own it hold padding.
    largest = max(load_file(file)["master.2"].abs().max().item() for file in files)
    assert largest == pytest.approx(LOGIT_SCALE_BOUNDS[1])


def test_a_killed_run_resumes_to_the_same_bytes(tmp_path: Path, cache: Path) -> None:
    plain, killed = tmp_path / "plain", tmp_path / "killed"
    finish(deepspeed_command(tiny_options(plain, cache)))
    process = start(deepspeed_command(tiny_options(killed, cache)))
    wait_for_step(killed, 8)
    kill(process)
    finish([*deepspeed_command(tiny_options(killed, cache)), "--resume"])
    assert weights(plain) == weights(killed)


def test_zero_3_is_refused(tmp_path: Path, cache: Path) -> None:
    text = (REPOSITORY / "configs" / "accelerate_zero2.yaml").read_text()
    config = tmp_path / "zero3.yaml"
    config.write_text(text.replace("zero_stage: 2", "zero_stage: 3"))
    process = start(deepspeed_command(tiny_options(tmp_path / "run", cache), config=config))
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    assert "ZeRO-3 is not supported: set zero_stage to 1 or 2" in printed
