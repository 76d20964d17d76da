"""Small training runs for tests: a tiny model on the bundled sample."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import psutil
from conftest import PATIENCE

REPOSITORY = Path(__file__).parent.parent
TINY = [
    "model.architecture.hidden_size=16",
    "model.architecture.num_attention_heads=2",
    "model.architecture.intermediate_size=32",
    "model.architecture.vocab_size=600",
    "model.max_passage_tokens=48",
    "model.max_critique_tokens=24",
    "model.projection_dim=16",
    "data.validation_pairs=40",
    "train.batch_size=32",
    "train.tokens_per_chunk=512",
    "train.steps=12",
    "train.evaluate_every=4",
    "train.save_every=3",
]


def tiny_options(output: Path, cache: Path, *more: str) -> list[str]:
    """Words for ``carp train``: the tiny run into ``output``."""
    return [*TINY, f"train.output={output}", f"data.cache={cache}", *more]


def training_command(options: list[str], processes: int = 1) -> list[str]:
    """The command line of a run in one process, or in several by torchrun."""
    launcher = [sys.executable]
    if processes > 1:
        launcher += ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    return [*launcher, str(REPOSITORY / "scripts" / "train.py"), "--config", "carp_nano", *options]


def start(command: list[str], **environment: str) -> subprocess.Popen[str]:
    """Start a run with its output captured, in a process group of its own."""
    return subprocess.Popen(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def kill(process: subprocess.Popen[str]) -> None:
    """kill -9 for a run and everything it has started: torchrun's workers outlive their launcher otherwise."""
    root = psutil.Process(process.pid)
    for victim in [root, *root.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
    process.communicate(timeout=PATIENCE)


def finish(command: list[str], **environment: str) -> str:
    """Run to the end; returns what was printed."""
    process = start(command, **environment)
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, printed[-3000:]
    return printed
