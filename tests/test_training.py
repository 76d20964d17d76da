"""Whole training runs: what they leave behind, how they resume, how they stop."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState, PartialState
from conftest import PATIENCE
from training_runs import finish, kill, start, tiny_options, training_command

import carp
from carp.config import load_config
from carp.errors import CarpError, InputError
from carp.model.carp_model import CarpModel
from carp.model.configuration import LOGIT_SCALE_BOUNDS
from carp.training.checkpoints import Checkpoints
from carp.training.loop import train
from carp.training.metrics import Reporter, read_metrics


@pytest.fixture(autouse=True)
def fresh_accelerator() -> Iterator[None]:
    yield
    AcceleratorState._reset_state()
    PartialState._reset_state()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


class Uninterrupted(NamedTuple):
    """A run from start to end, and how long the whole process took."""

    folder: Path
    seconds: float


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Callable[[int], Uninterrupted]:
    """The tiny model's run in processes of its own, by their number; each is run once."""

    @lru_cache
    def in_processes(processes: int) -> Uninterrupted:
        output = tmp_path_factory.mktemp("finished") / "run"
        began = time.monotonic()
        finish(training_command(tiny_options(output, cache), processes))
        return Uninterrupted(output, time.monotonic() - began)

    return in_processes


@pytest.fixture
def finished(uninterrupted: Callable[[int], Uninterrupted]) -> Path:
    """An uninterrupted run of the tiny model in a process of its own."""
    return uninterrupted(1).folder


def run(output: Path, cache: Path, *options: str) -> Path:
    return train(load_config("carp_nano", tiny_options(output, cache, *options)))


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_a_finished_run_is_a_checkpoint_with_card_curves_and_metrics(finished: Path) -> None:
    model = carp.load(finished, device="cpu")
    scores = carp.score("A story about a dog that ran home.", model=model)
    assert scores.shape == (9,)
    assert np.isfinite(scores).all()
    card = (finished / "README.md").read_text()
    assert "12 steps of 32 pairs" in card
    assert "| 0 |" in card
    assert "torch:" in card
    assert (finished / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_metrics_hold_every_step_and_every_validation(finished: Path) -> None:
    records = read_metrics(finished / "metrics.jsonl")
    assert [r["step"] for r in records if "loss" in r] == list(range(1, 13))
    assert [r["step"] for r in records if "validation_loss" in r] == [0, 4, 8, 12]
    rates = [r["learning_rate"] for r in records if "loss" in r]
    assert rates[0] == 0  # the first of the warm-up's steps
    assert max(rates) == pytest.approx(2e-3)
    assert rates[-1] < 0.1 * max(rates)


def test_the_best_and_the_newest_checkpoints_are_kept(finished: Path) -> None:
    records = read_metrics(finished / "metrics.jsonl")
    validations = [r for r in records if "validation_loss" in r and r["step"] > 0]
    best = max(validations, key=lambda r: (r["validation_accuracy"], r["step"]))["step"]
    kept = Checkpoints(finished, 2).steps()
    assert kept[-1] == 12
    assert best in kept
    assert len(kept) <= 3
    assert weights(finished) == weights(Checkpoints(finished, 2).path(best))
    assert not list(finished.glob(".*"))
    assert not list((finished / "checkpoints").glob(".*"))


NO_DROPOUT = ["model.architecture.hidden_dropout_prob=0", "model.architecture.attention_probs_dropout_prob=0"]


def test_training_learns(tmp_path: Path, cache: Path) -> None:
    options = [
        "train.steps=60",
        "train.lr=5e-3",
        "train.evaluate_every=60",
        "train.save_every=60",
        *NO_DROPOUT,
    ]
    output = run(tmp_path / "run", cache, *options)
    losses = [r["loss"] for r in read_metrics(output / "metrics.jsonl") if "loss" in r]
    assert np.mean(losses[:5]) == pytest.approx(math.log(32), rel=0.1)  # at first, chance among 32
    assert np.mean(losses[-5:]) < 0.75 * math.log(32)


def test_the_logit_scale_is_clamped(tmp_path: Path, cache: Path) -> None:
    # A wild learning rate drives the temperature beyond its bounds in one step.
    output = run(tmp_path / "run", cache, "train.steps=6", "train.logit_scale_lr=50", "train.lr=1e-9")
    temperatures = [r["temperature"] for r in read_metrics(output / "metrics.jsonl") if "loss" in r]
    low, high = (math.exp(bound) for bound in LOGIT_SCALE_BOUNDS)
    assert all(low * 0.999 <= t <= high * 1.001 for t in temperatures)
    assert any(t == pytest.approx(bound, rel=1e-3) for t in temperatures for bound in (low, high))


@pytest.mark.parametrize(
    "options",
    [
        ["train.precision=bf16"],
        ["train.gradient_checkpointing=true"],
        ["train.schedule=linear"],
        ["model.projection_dim=null", "model.pooling=cls"],
    ],
)
def test_options_train_to_a_finite_loss(tmp_path: Path, cache: Path, options: list[str]) -> None:
    output = run(tmp_path / "run", cache, "train.steps=3", *options)
    assert all(math.isfinite(r["loss"]) for r in read_metrics(output / "metrics.jsonl") if "loss" in r)


def test_a_loss_that_explodes_stops_the_run_and_keeps_the_last_checkpoint(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(CarpError, match=r"stopped at step \d+: .*(nan|inf).*last good checkpoint is .*step-0000"):
        run(
            tmp_path / "run",
            cache,
            "train.lr=1e30",
            "train.save_every=1",
            "train.warmup=0.5",
            "train.steps=40",
        )
    kept = Checkpoints(tmp_path / "run", 2).latest()
    assert kept is not None
    model = CarpModel.from_pretrained(kept)
    assert all(p.isfinite().all() for p in model.parameters())


def test_a_run_continues_from_a_checkpoint_of_another(tmp_path: Path, cache: Path, finished: Path) -> None:
    options = [o for o in tiny_options(tmp_path / "run", cache) if not o.startswith("model.")]
    path = tmp_path / "continue.yaml"
    path.write_text(f"model:\n  checkpoint: {finished}\n")
    train(load_config(path, [*options, "train.steps=2"]))
    first = next(r for r in read_metrics(tmp_path / "run" / "metrics.jsonl"))
    best = max(
        r["validation_accuracy"]
        for r in read_metrics(finished / "metrics.jsonl")
        if "validation_loss" in r and r["step"]
    )
    assert first["validation_accuracy"] == pytest.approx(best)


def test_frozen_word_embeddings_stay_as_they_are(tmp_path: Path, cache: Path, finished: Path) -> None:
    options = [o for o in tiny_options(tmp_path / "run", cache, "train.save_every=1") if not o.startswith("model.")]
    path = tmp_path / "frozen.yaml"
    path.write_text(f"model:\n  checkpoint: {finished}\n  freeze: embeddings\n")
    config = load_config(path, [*options, "train.steps=3", "train.resume=auto"])
    shutil.rmtree(Checkpoints(train(config), 2).path(3))
    train(config)  # again from step 2
    before, after = (carp.load(folder, device="cpu").state_dict() for folder in (finished, tmp_path / "run"))
    for name, weight in after.items():
        assert torch.equal(weight, before[name]) == ("word_embeddings" in name), name


# -- input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["train.batch_size=100000"], "do not fill a batch of 100000"),
        (["data.validation_pairs=100000"], "too few for data.validation_pairs"),
        (["data.train=missing.jsonl"], "missing.jsonl: no such file"),
        (["model.max_passage_tokens=4096"], "max_passage_tokens is 4096"),
        (["model.architecture.hidden_size=15"], "model: "),
        (["train.precision=fp16"], "needs a GPU: use bf16 or no"),
    ],
)
def test_unusable_input_is_refused_before_any_work(tmp_path: Path, cache: Path, options, message) -> None:
    with pytest.raises(InputError, match=message):
        run(tmp_path / "run", cache, *options)
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_written_over(finished: Path, cache: Path) -> None:
    with pytest.raises(InputError, match="add --resume"):
        run(finished, cache)


def test_resuming_with_another_configuration_is_refused(finished: Path, cache: Path) -> None:
    with pytest.raises(InputError, match=r"train\.batch_size=32, not 16"):
        run(finished, cache, "train.resume=auto", "train.batch_size=16")


# -- interruption and resuming -------------------------------------------------------------------------


def wait_for_step(output: Path, step: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while not any(r["step"] >= step and "loss" in r for r in read_metrics(output / "metrics.jsonl")):
        assert time.monotonic() < deadline, "the run does not advance"
        time.sleep(0.02)


def assert_newest_checkpoint_is_the_last_step(output: Path) -> None:
    step = json.loads((Checkpoints(output, 2).latest() / "training.json").read_text())["step"]
    assert step == max(r["step"] for r in read_metrics(output / "metrics.jsonl"))


def kill_and_resume(command: list[str], kills: int, longest: float, seed: int) -> None:
    """Kill a run ``kills`` times, each after a random part of ``longest`` seconds; resume it each time; let it end."""
    generator = random.Random(seed)
    for _ in range(kills):
        process = start(command)
        time.sleep(generator.uniform(0, longest))
        kill(process)
    finish(command)


@pytest.mark.parametrize(
    ("kills", "processes"),
    [(1, 1), pytest.param(10, 1, marks=pytest.mark.slow), pytest.param(10, 2, marks=pytest.mark.slow)],
)
def test_a_run_killed_and_resumed_ends_with_the_same_bytes(
    tmp_path: Path, cache: Path, uninterrupted: Callable[[int], Uninterrupted], kills: int, processes: int
) -> None:
    killed = tmp_path / "killed"
    plain, seconds = uninterrupted(processes)
    kill_and_resume([*training_command(tiny_options(killed, cache), processes), "--resume"], kills, seconds, seed=kills)
    newest = Checkpoints(plain, 2).path(12), Checkpoints(killed, 2).path(12)
    assert weights(newest[0]) == weights(newest[1])
    assert weights(plain) == weights(killed)
    ours, theirs = (
        [
            {k: v for k, v in r.items() if k not in ("seconds", "pairs_per_second")}
            for r in read_metrics(p / "metrics.jsonl")
        ]
        for p in (plain, killed)
    )
    assert ours == theirs


def test_two_processes_resume_to_the_same_bytes(
    tmp_path: Path, cache: Path, uninterrupted: Callable[[int], Uninterrupted]
) -> None:
    resumed = tmp_path / "resumed"
    command = training_command(tiny_options(resumed, cache), 2)
    process = start(command)
    wait_for_step(resumed, 5)
    kill(process)
    finish([*command, "--resume"])
    assert weights(resumed) == weights(uninterrupted(2).folder)


def signal_after_step(monkeypatch: pytest.MonkeyPatch, number: int, step: int) -> None:
    """Send this process a signal as soon as a run in it reports the step."""
    report = Reporter.step

    def report_and_signal(self: Reporter, metrics: dict[str, float]) -> None:
        report(self, metrics)
        if metrics["step"] == step:
            signal.raise_signal(number)

    monkeypatch.setattr(Reporter, "step", report_and_signal)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_a_signal_ended_resumes_to_the_same_bytes(
    tmp_path: Path, cache: Path, finished: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    output = tmp_path / "run"
    with monkeypatch.context() as patched:
        signal_after_step(patched, number, 5)
        with pytest.raises(CarpError, match="continue with the same command and --resume") as stop:
            run(output, cache)
    assert stop.value.exit_code == 128 + number
    assert json.loads((Checkpoints(output, 2).path(5) / "training.json").read_text())["step"] == 5
    run(output, cache, "train.resume=auto")
    assert weights(output) == weights(finished)


def test_a_signal_ends_the_process_with_a_checkpoint(tmp_path: Path, cache: Path) -> None:
    output = tmp_path / "run"
    # Far more steps than it takes: however late the signal comes, the run has not ended.
    process = start(training_command(tiny_options(output, cache, "train.steps=400")))
    wait_for_step(output, 2)
    process.terminate()
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM
    assert "continue with the same command and --resume" in printed
    assert "Traceback" not in printed
    assert_newest_checkpoint_is_the_last_step(output)


def test_ctrl_c_ends_all_processes_with_a_checkpoint(tmp_path: Path, cache: Path) -> None:
    output = tmp_path / "run"
    process = start(training_command(tiny_options(output, cache, "train.steps=400"), 2))
    wait_for_step(output, 2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: launcher and workers
    printed, _ = process.communicate(timeout=PATIENCE)
    assert "continue with the same command and --resume" in printed
    assert_newest_checkpoint_is_the_last_step(output)


def test_two_runs_cannot_write_into_one_folder(tmp_path: Path, cache: Path) -> None:
    output = tmp_path / "run"
    first = start(training_command(tiny_options(output, cache, "train.steps=400")))
    wait_for_step(output, 1)
    with pytest.raises(InputError, match="another run is writing into"):
        run(output, cache, "train.steps=400", "train.resume=auto")
    kill(first)


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path, cache: Path) -> None:
    output = run(tmp_path / "run", cache, "train.steps=4")
    before = weights(output), (output / "metrics.jsonl").read_text()
    run(output, cache, "train.steps=4", "train.resume=auto")
    assert (weights(output), (output / "metrics.jsonl").read_text()) == before


def test_a_half_written_checkpoint_is_never_loaded(tmp_path: Path, cache: Path, finished: Path) -> None:
    output = tmp_path / "run"
    half = output / "checkpoints" / ".step-000006"
    half.mkdir(parents=True)
    (half / "model.safetensors").write_bytes(b"half")
    run(output, cache, "train.resume=auto")
    assert weights(output) == weights(finished)


# -- launching -----------------------------------------------------------------------------------------


def test_a_launch_that_lost_its_processes_is_refused(tmp_path: Path, cache: Path) -> None:
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "2", "--cpu"]
    process = start([*launcher, *training_command(tiny_options(tmp_path / "run", cache))[1:]])
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    assert "torchrun --nproc_per_node" in printed
    assert not (tmp_path / "run").exists()


def test_two_processes_end_where_one_does(tmp_path: Path, cache: Path) -> None:
    run(tmp_path / "run1", cache, *NO_DROPOUT)
    finish(training_command(tiny_options(tmp_path / "run2", cache, *NO_DROPOUT), 2))
    one, two = (CarpModel.from_pretrained(tmp_path / f"run{n}").state_dict() for n in (1, 2))
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-3, atol=1e-4)


def test_trackers_are_fed(tmp_path: Path, cache: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra 'tensorboard'")
    pytest.importorskip("wandb", reason="needs the extra 'wandb'")
    options = tiny_options(tmp_path / "run", cache, "train.steps=2", "train.trackers=[tensorboard, wandb]")
    finish(training_command(options), WANDB_MODE="offline", WANDB_DIR=str(tmp_path), WANDB_SILENT="true")
    assert list(tmp_path.rglob("events.out.tfevents*"))
    assert list(tmp_path.rglob("offline-run-*/*.wandb"))
