"""Finetuning a language model on pairs (CARP, section 4.1): one step can be followed in :func:`fit`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from numpy.typing import NDArray
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR

from carp.data.tokenized import BatchSampler
from carp.distributed import gather_rows
from carp.errors import InputError
from carp.evaluation.language.loading import LanguageModel
from carp.evaluation.language.packing import Windows, checked_context, pack_pairs, pair_requests
from carp.evaluation.language.scoring import IGNORED, negative_log_likelihoods
from carp.evaluation.language.training_config import FinetuneConfig
from carp.evaluation.language.training_model import export, load_for_training, make_optimizer
from carp.training.checkpoints import Checkpoints, load_optimizer
from carp.training.interruption import Interruption, stopped
from carp.training.metrics import Reporter
from carp.training.resuming import check_output, locked_output, resumed_state
from carp.training.setup import CACHE, make_accelerator, make_schedule, seed_step


@dataclass
class Run:
    """A run in progress: everything that a step reads or changes."""

    config: FinetuneConfig
    accelerator: Accelerator
    language: LanguageModel  # bare
    model: Any  # the same, wrapped for several processes
    optimizer: Any
    schedule: LambdaLR
    windows: Windows
    checkpoints: Checkpoints
    state: dict[str, Any]  # what training.json holds: step, best_step, best_perplexity, ...


def finetune(config: FinetuneConfig) -> Path:
    """Finetune a language model as configured; every process of the launch calls this.

    Returns:
        The output folder: model, tokenizer and card; adapters are merged into the weights.

    Raises:
        InputError: for unusable input, before any work.
        CarpError: if the loss stops being finite, or the run is interrupted; ``train.resume=auto`` continues it.
    """
    accelerator = make_accelerator(config)
    output = Path(config.train.output)
    try:
        with locked_output(output, accelerator):
            run = prepare(config, accelerator)
            with _Reporter(accelerator, output, config.train.steps, run.state["step"]) as reporter:
                fit(run, reporter)
            if accelerator.is_main_process:
                export(output, run.checkpoints.path(run.state["best_step"]), config, run.state)
            accelerator.wait_for_everyone()
    finally:
        accelerator.end_training()
    return output


def prepare(config: FinetuneConfig, accelerator: Accelerator) -> Run:
    """Load data and model, and go back to the newest checkpoint where there is one."""
    settings = config.train
    checkpoints = Checkpoints(Path(settings.output), settings.keep_checkpoints)
    check_output(config, checkpoints)
    checkpoint = checkpoints.latest()
    state = {"best_perplexity": None, **resumed_state(config, checkpoint, accelerator)}
    set_seed(settings.seed)
    language = load_for_training(config, checkpoint)
    context = checked_context(language, config.language.context)
    cache = Path(config.data.cache or CACHE).expanduser()
    with accelerator.local_main_process_first():
        windows = pack_pairs(config.data, language, context, settings.seed, cache, accelerator.is_main_process)
    if len(windows.lengths) < settings.batch_size:
        raise InputError(
            f"{config.data.train}: {len(windows.lengths)} windows of {context} tokens do not fill a batch of "
            f"{settings.batch_size}: set train.batch_size to {len(windows.lengths)} or less"
        )
    _accumulate(config, accelerator, context)
    optimizer = make_optimizer(language.model, settings)
    schedule = make_schedule(optimizer, settings, state["step"])
    model, prepared = accelerator.prepare(language.model, optimizer)
    if checkpoint:
        load_optimizer(checkpoint, accelerator, prepared)
    if settings.trackers:
        accelerator.init_trackers("carp", {k: str(v) for part in config.model_dump().values() for k, v in part.items()})
    run = Run(config, accelerator, language, model, prepared, schedule, windows, checkpoints, state)
    _describe(run, checkpoint)
    return run


def _accumulate(config: FinetuneConfig, accelerator: Accelerator, context: int) -> None:
    """Divide a step into as many backward passes as the memory demands."""
    share = config.train.batch_size // accelerator.num_processes
    at_once = min(share, max(1, config.train.tokens_per_chunk // context))
    accelerator.gradient_accumulation_steps = math.ceil(share / at_once)
    if plugin := getattr(accelerator.state, "deepspeed_plugin", None):
        plugin.deepspeed_config["train_micro_batch_size_per_gpu"] = at_once
        plugin.deepspeed_config["gradient_accumulation_steps"] = accelerator.gradient_accumulation_steps


def fit(run: Run, reporter: Reporter) -> None:
    """Train until the last step."""
    settings, accelerator = run.config.train, run.accelerator
    if run.state["step"] == 0:
        evaluate(run, reporter, step=0)
    sampler = BatchSampler(np.arange(len(run.windows.lengths)), settings.batch_size, settings.seed)
    with Interruption(accelerator) as interruption:
        for step in range(run.state["step"], settings.steps):
            began = perf_counter()
            run.model.train()
            seed_step(settings.seed, step, accelerator.process_index)
            rows = sampler.batch(step)
            loss = backward(run, rows)
            norm = float(accelerator.clip_grad_norm_(run.model.parameters(), settings.max_grad_norm))
            if not math.isfinite(loss) or (not math.isfinite(norm) and accelerator.scaler is None):
                raise stopped(run.checkpoints, step, f"the loss is {loss}, the gradient's norm {norm}")
            run.optimizer.step()
            learning_rate = float(run.schedule.get_last_lr()[0])
            run.schedule.step()
            run.optimizer.zero_grad()

            run.state["step"] = step + 1
            seconds = perf_counter() - began
            reporter.step(
                {
                    "step": step + 1,
                    "loss": loss,
                    "gradient_norm": norm,
                    "learning_rate": learning_rate,
                    "seconds": seconds,
                    "tokens_per_second": run.windows.targets(rows) / seconds,
                }
            )
            last = step + 1 == settings.steps
            better = (last or (step + 1) % settings.evaluate_every == 0) and evaluate(run, reporter, step + 1)
            interrupted = interruption.agreed()
            if last or better or interrupted or (step + 1) % settings.save_every == 0:
                run.checkpoints.save(accelerator, run.language.model, run.optimizer, run.state)
            if interrupted and not last:
                raise interruption.error(run.config, step + 1)


def backward(run: Run, rows: NDArray[np.int64]) -> float:
    """Leave the gradient of the mean loss per token of the whole batch, and return that loss in nats.

    The sum over each part is divided by the tokens of the batch over all processes, so parts and processes with more
    text count more, and neither their number nor the filling changes the result.
    """
    accelerator = run.accelerator
    share = len(rows) // accelerator.num_processes
    own = rows[accelerator.process_index * share :][:share]
    total, parts = run.windows.targets(rows), accelerator.gradient_accumulation_steps
    summed = torch.zeros((), dtype=torch.float64)
    for part in np.array_split(own, parts):
        ids, labels = (tensor.to(accelerator.device) for tensor in run.windows.batch(part))
        with accelerator.accumulate(run.model):
            logits = run.model(input_ids=ids, use_cache=False).logits
            flat = logits[:, :-1].flatten(0, 1).float()
            nats = F.cross_entropy(flat, labels[:, 1:].flatten(), ignore_index=IGNORED, reduction="sum")
            # accelerate and DeepSpeed divide by the parts, and average over the processes.
            accelerator.backward(nats * (accelerator.num_processes * parts / total))
        summed += nats.detach().double().cpu()
    return float(gather_rows(summed[None]).sum()) / total


def evaluate(run: Run, reporter: Reporter, step: int) -> bool:
    """Validate and report; true if no earlier step of the run was better."""
    with run.accelerator.autocast():
        perplexity = validate(run)
    reporter.validation({"step": step, "validation_perplexity": perplexity})
    best = run.state["best_perplexity"]
    if step == 0 or (best is not None and perplexity > best):
        return False
    run.state |= {"best_step": step, "best_perplexity": perplexity}
    return True


def validate(run: Run) -> float:
    """The perplexity per byte of the validation critiques given their passages, what evaluators go by.

    The work is divided among the processes; each gets the result.
    """
    language, windows = run.language, run.windows
    pairs = windows.validation[run.accelerator.process_index :: run.accelerator.num_processes]
    counts = {"passages_cut": 0, "critiques_cut": 0}
    requests = pair_requests(language, pairs, windows.tokens.shape[1], counts, lambda critique: f" {critique.strip()}")
    model = getattr(language.model, "get_base_model", lambda: language.model)()  # of adapters, with them in it
    language.model.eval()
    nats = sum(float(values.sum()) for values in negative_log_likelihoods(model, requests))
    texts = (language.tokenizer.decode(request.continuations[0]).strip() for request in requests)
    sums = torch.tensor([[nats, sum(len(text.encode()) for text in texts)]], dtype=torch.float64)
    total, size = gather_rows(sums).sum(0).tolist()
    return math.exp(total / size)


class _Reporter(Reporter):
    def step(self, metrics: dict[str, float]) -> None:
        self._write(metrics)
        self._bar.set_postfix_str("loss {loss:.3f}, {tokens_per_second:.0f} tokens/s".format(**metrics))
        self._bar.update()

    def validation(self, metrics: dict[str, float]) -> None:
        self._write(metrics)
        self.say(
            "step {step}: perplexity per byte of validation critiques {validation_perplexity:.4f}".format(**metrics)
        )


def _describe(run: Run, checkpoint: Path | None) -> None:
    info, settings, windows = run.windows.info, run.config.train, run.windows
    trained = [p.numel() for p in run.language.model.parameters() if p.requires_grad]
    parts = run.accelerator.gradient_accumulation_steps
    run.accelerator.print(
        f"model: {run.language.name}, {sum(trained) / 1e6:.1f} million parameters are trained; "
        f"{run.accelerator.num_processes} process(es) on {run.accelerator.device}\n"
        f"data: {info['pairs']:,} pairs in {info['windows']:,} windows of {windows.tokens.shape[1]:,} tokens, "
        f"{info['tokens'] / windows.tokens.size:.1%} full; {len(windows.validation):,} pairs for validation\n"
        f"cut to fit a window: {info['passages_cut']:,} passages, {info['critiques_cut']:,} critiques\n"
        f"run: {settings.steps} steps of {settings.batch_size} windows in {parts} part(s) "
        f"({settings.steps * settings.batch_size / info['windows']:.1f} epochs), "
        f"{'from ' + str(checkpoint) if checkpoint else 'from the start'}, into {settings.output}"
    )
