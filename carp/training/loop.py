"""The training loop: one step can be followed from top to bottom in :func:`fit`."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from carp.config import TrainingConfig
from carp.data.tokenized import Batch, BatchSampler, TokenizedPairs
from carp.errors import NonFiniteLossError
from carp.model.carp_model import CarpModel
from carp.model.graphs import memory_for_graphs
from carp.model.heap import release_heap
from carp.training.checkpoints import Checkpoints, load_optimizer
from carp.training.contrastive import contrastive_backward
from carp.training.export import export_run
from carp.training.interruption import Interruption, stopped
from carp.training.metrics import Reporter
from carp.training.pooled import with_pooled_states
from carp.training.resuming import check_output, describe_run, locked_output, resumed_state
from carp.training.setup import (
    build_model,
    cache_folder,
    clamp_logit_scale,
    freeze,
    load_pairs,
    make_accelerator,
    make_optimizer,
    make_schedule,
    seed_step,
    with_prepared_parts,
)
from carp.training.validation import validate


@dataclass
class Run:
    """A run in progress: everything that a step reads or changes."""

    config: TrainingConfig
    accelerator: Accelerator
    model: nn.Module  # wrapped for several processes
    optimizer: Any
    schedule: LambdaLR
    pairs: TokenizedPairs
    training_rows: np.ndarray
    validation_pairs: TokenizedPairs
    validation_rows: np.ndarray
    checkpoints: Checkpoints
    state: dict[str, Any]  # what training.json holds: step, best_step, best_accuracy, ...

    @property
    def bare_model(self) -> CarpModel:
        model: CarpModel = self.accelerator.unwrap_model(self.model)
        return model


def train(config: TrainingConfig) -> Path:
    """Train a model as configured; every process of the launch calls this.

    Returns:
        The output folder: a checkpoint for ``CarpModel.from_pretrained``, with card, curves and metrics.

    Raises:
        InputError: for unusable input, before any work.
        CarpError: if the loss or the gradient stops being finite, or the run is interrupted; the newest
            checkpoint is whole and ``train.resume=auto`` continues from it.
    """
    config = with_prepared_parts(config)
    accelerator = make_accelerator(config)
    output = Path(config.train.output)
    try:
        with locked_output(output, accelerator):
            run = prepare(config, accelerator)
            with Reporter(accelerator, output, config.train.steps, run.state["step"]) as reporter:
                fit(run, reporter)
            if accelerator.is_main_process:
                passages = run.validation_pairs.batch(run.validation_rows).passages
                best = run.checkpoints.path(run.state["best_step"])
                export_run(output, best, run.state, passages, accelerator.device)
            accelerator.wait_for_everyone()
    finally:
        accelerator.end_training()
        release_heap()
    return output


def prepare(config: TrainingConfig, accelerator: Accelerator) -> Run:
    """Load data and model, and go back to the newest checkpoint where there is one."""
    settings, output = config.train, Path(config.train.output)
    checkpoints = Checkpoints(output, settings.keep_checkpoints)
    check_output(config, checkpoints)
    checkpoint = checkpoints.latest()
    state = resumed_state(config, checkpoint, accelerator)

    set_seed(settings.seed)
    model = CarpModel.from_pretrained(checkpoint) if checkpoint else build_model(config.model, config.data.train)
    freeze(model, config.model)
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable()
    with accelerator.local_main_process_first():
        data = load_pairs(config, model, progress=accelerator.is_main_process)
    if config.model.freeze == "encoders":
        data = with_pooled_states(data, model, cache_folder(config), accelerator, settings.tokens_per_chunk)
    optimizer = make_optimizer(model, settings)
    schedule = make_schedule(optimizer, settings, state["step"])
    wrapped, prepared = accelerator.prepare(model, optimizer)
    if checkpoint:
        load_optimizer(checkpoint, accelerator, prepared)
    if settings.trackers:
        accelerator.init_trackers("carp", {k: str(v) for part in config.model_dump().values() for k, v in part.items()})
    run = Run(config, accelerator, wrapped, prepared, schedule, *data, checkpoints, state)
    describe_run(accelerator, config, data, model, checkpoint)
    return run


def fit(run: Run, reporter: Reporter) -> None:
    """Train until the last step."""
    settings, accelerator, model = run.config.train, run.accelerator, run.model
    kept = settings.keep_graphs
    graph_bytes = memory_for_graphs(accelerator.device) if kept == "auto" else kept * 1e9
    if run.state["step"] == 0:
        evaluate(run, reporter, step=0)
    gc.freeze()  # or Python's collector would walk over the libraries' objects in the steps too, for seconds
    with Interruption(accelerator) as interruption:
        for step, batch in batches_ahead(run):
            began = perf_counter()
            model.train()
            seed_step(settings.seed, step, accelerator.process_index)
            try:
                result = contrastive_backward(
                    model,
                    batch.passages,
                    batch.critiques,
                    tokens_per_chunk=None if run.config.model.freeze == "encoders" else settings.tokens_per_chunk,
                    groups=batch.groups,
                    graph_bytes=graph_bytes,
                    backward=accelerator.backward,
                )
            except NonFiniteLossError as error:
                raise stopped(run.checkpoints, step, str(error)) from error
            norm = float(accelerator.clip_grad_norm_(model.parameters(), settings.max_grad_norm))
            if not math.isfinite(norm) and accelerator.scaler is None:  # a scaler skips such a step and goes on
                raise stopped(run.checkpoints, step, f"the gradient's norm is {norm}")
            run.optimizer.step()
            clamp_logit_scale(run.bare_model, accelerator)
            learning_rate = float(run.schedule.get_last_lr()[0])
            run.schedule.step()
            run.optimizer.zero_grad()

            run.state["step"] = step + 1
            seconds = perf_counter() - began
            reporter.step(
                {
                    "step": step + 1,
                    "loss": result.loss.item(),
                    "accuracy": result.accuracy.item(),
                    "temperature": run.bare_model.logit_scale.exp().item(),
                    "gradient_norm": norm,
                    "learning_rate": learning_rate,
                    "seconds": seconds,
                    "pairs_per_second": settings.batch_size / seconds,
                }
            )
            last = step + 1 == settings.steps
            better = (last or (step + 1) % settings.evaluate_every == 0) and evaluate(run, reporter, step + 1)
            interrupted = interruption.agreed()
            if last or better or interrupted or (step + 1) % settings.save_every == 0:
                run.checkpoints.save(accelerator, run.bare_model, run.optimizer, run.state)
            if interrupted and not last:
                raise interruption.error(run.config, step + 1)


def batches_ahead(run: Run) -> Iterator[tuple[int, Batch]]:
    """The remaining steps with this process's share of each batch, which is read while the step before computes."""
    settings, accelerator = run.config.train, run.accelerator
    share = settings.batch_size // accelerator.num_processes
    own = slice(accelerator.process_index * share, (accelerator.process_index + 1) * share)
    topics = run.pairs.topics[run.training_rows]
    sampler = BatchSampler(run.training_rows, settings.batch_size, settings.seed, topics)

    def read(step: int) -> Batch:
        return run.pairs.batch(sampler.batch(step)[own])

    with ThreadPoolExecutor(max_workers=1) as reader:
        ahead = reader.submit(read, run.state["step"])
        for step in range(run.state["step"], settings.steps):
            batch = ahead.result()
            if step + 1 < settings.steps:
                ahead = reader.submit(read, step + 1)
            yield step, batch


def evaluate(run: Run, reporter: Reporter, step: int) -> bool:
    """Validate and report; true if no earlier step of the run was more accurate.

    Accuracy decides, not loss: the loss of a model that ranks better rises where its temperature overfits.
    """
    with run.accelerator.autocast():
        metrics = validate(run.bare_model, run.validation_pairs, run.validation_rows)
    reporter.validation({"step": step, **metrics})
    if step == 0 or metrics["validation_accuracy"] < run.state["best_accuracy"]:
        return False
    run.state |= {"best_step": step, "best_accuracy": metrics["validation_accuracy"]}
    return True
