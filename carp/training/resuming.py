"""Whether and where a run continues, and what it says when it starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from filelock import FileLock, Timeout

from carp.config import TrainingConfig
from carp.errors import InputError
from carp.model.carp_model import CarpModel
from carp.training.checkpoints import Checkpoints, load_state
from carp.versions import versions

# What may differ between a run and its continuation: none of it changes what is computed.
FREE = {
    "data": {"cache"},
    "train": {
        "output",
        "resume",
        "trackers",
        "evaluate_every",
        "save_every",
        "keep_checkpoints",
        "keep_graphs",
        "tokens_per_chunk",
    },
}


def check_output(config: TrainingConfig, checkpoints: Checkpoints) -> None:
    """Refuse to write over a run that nobody asked to continue.

    Raises:
        InputError: if the output folder holds a run and ``train.resume`` is ``never``.
    """
    output = Path(config.train.output)
    if config.train.resume == "never" and (checkpoints.steps() or (output / "config.json").exists()):
        raise InputError(f"train.output={output} holds a run already: add --resume, or name another folder")


@contextmanager
def locked_output(output: Path, accelerator: Accelerator) -> Iterator[None]:
    """Keep other runs out of a folder, e.g. while workers live on whose launcher was killed.

    Raises:
        InputError: if another run is in it.
    """
    if not accelerator.is_main_process:
        yield
        return
    if output.exists() and not output.is_dir():
        raise InputError(f"train.output={output} is a file: name a folder")
    output.mkdir(parents=True, exist_ok=True)
    lock = FileLock(output / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise InputError(
            f"another run is writing into {output}: wait for it or end it, or name another folder"
        ) from error
    try:
        yield
    finally:
        (output / ".lock").unlink()
        lock.release()
        with suppress(OSError):  # a run that was refused leaves no empty folder
            output.rmdir()


def resumed_state(config: TrainingConfig, checkpoint: Path | None, accelerator: Accelerator) -> dict[str, Any]:
    """The state to start with: that of the checkpoint, or step 0.

    Raises:
        InputError: if the checkpoint's run was configured differently.
    """
    now = {"config": config.model_dump(), "processes": accelerator.num_processes, "versions": versions()}
    if checkpoint is None:
        return {"step": 0, "best_step": None, "best_accuracy": 0.0, **now}
    state = load_state(checkpoint)
    for section, values in now["config"].items():
        for key, value in values.items():
            before = state["config"][section].get(key)
            if before != value and key not in FREE.get(section, ()):
                raise InputError(
                    f"{checkpoint} was made with {section}.{key}={before}, not {value}: "
                    f"use the same value, or name another train.output"
                )
    if state["processes"] != accelerator.num_processes:
        accelerator.print(
            f"note: {state['processes']} processes before, {accelerator.num_processes} now: dropout differs"
        )
    return state | now


def describe_run(
    accelerator: Accelerator, config: TrainingConfig, data: Any, model: CarpModel, checkpoint: Path | None
) -> None:
    """Say what is about to happen."""
    pairs, training_rows, _, validation_rows = data
    info, settings = pairs.info, config.train
    parameters = sum(p.numel() for p in model.parameters()) / 1e6
    epochs = settings.steps * settings.batch_size / len(training_rows)
    cut = {side: info[f"{side}s_cut"] / info["pairs"] for side in ("passage", "critique")}
    accelerator.print(
        f"model: {parameters:.1f} million parameters; "
        f"{accelerator.num_processes} process(es) on {accelerator.device}\n"
        f"data: {len(training_rows):,} pairs for training, {len(validation_rows):,} for validation; "
        f"{info['too_short']:,} too short and left out\n"
        f"cut at the context length: "
        f"{cut['passage']:.1%} of the passages ({config.model.max_passage_tokens} tokens), "
        f"{cut['critique']:.1%} of the critiques ({config.model.max_critique_tokens} tokens)\n"
        f"run: {settings.steps} steps of {settings.batch_size} pairs ({epochs:.1f} epochs), "
        f"{'from ' + str(checkpoint) if checkpoint else 'from the start'}, into {settings.output}"
    )
