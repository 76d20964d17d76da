"""What a run is made of: processes, model, optimiser, schedule."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from accelerate.utils import DistributedType
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR
from transformers import AutoConfig, get_cosine_schedule_with_warmup, get_linear_schedule_with_warmup

from carp.config import ModelSettings, TrainingConfig, TrainSettings
from carp.data.pairs import prepared_parts, read_pairs
from carp.data.tokenized import TokenizedPairs, split_rows, tokenize_pairs
from carp.distributed import expect_no_gpu
from carp.errors import InputError
from carp.model.carp_model import CarpModel
from carp.model.configuration import LOGIT_SCALE_BOUNDS, CarpConfig, context_capacity
from carp.model.encoders import train_tokenizer

SCHEDULES: dict[str, Any] = {"cosine": get_cosine_schedule_with_warmup, "linear": get_linear_schedule_with_warmup}
CACHE = "~/.cache/carp"
TOKENIZER_TRAINING_PAIRS = 100_000
LAUNCH_ON_CPU = "torchrun --nproc_per_node {n} scripts/train.py ..."


class TrainingData(NamedTuple):
    """Tokenised pairs with the rows that are trained on, and the same for validation."""

    pairs: TokenizedPairs
    training_rows: np.ndarray
    validation_pairs: TokenizedPairs
    validation_rows: np.ndarray


def make_accelerator(config: TrainingConfig) -> Accelerator:
    """Join the processes of this run.

    Raises:
        InputError: if the launcher was asked for more processes than it started, if the batch cannot be
            divided, or for DeepSpeed's ZeRO-3.
    """
    _check_launch()
    expect_no_gpu()
    if config.train.precision == "fp16" and not torch.cuda.is_available():
        raise InputError("train.precision=fp16 needs a GPU: use bf16 or no")
    on_cpus = int(os.environ.get("WORLD_SIZE", 1)) > 1 and not torch.cuda.is_available()
    deepspeed = os.environ.get("ACCELERATE_USE_DEEPSPEED", "false") == "true"
    accelerator = Accelerator(
        cpu=on_cpus and not deepspeed,  # without it, accelerate does not wrap the model in DDP
        mixed_precision=config.train.precision,
        log_with=list(config.train.trackers) or None,
        project_dir=config.train.output,
        kwargs_handlers=[InitProcessGroupKwargs(backend="gloo")] if on_cpus else [],
    )
    if config.train.batch_size % accelerator.num_processes:
        raise InputError(
            f"train.batch_size={config.train.batch_size} cannot be divided among {accelerator.num_processes} "
            f"processes: choose a multiple"
        )
    if accelerator.distributed_type == DistributedType.DEEPSPEED:
        _configure_deepspeed(accelerator, config.train)
    return accelerator


def _check_launch() -> None:
    # `accelerate launch --cpu --num_processes 2` starts one process and leaves this trace of the second.
    if "ACCELERATE_MIXED_PRECISION" in os.environ and "MASTER_PORT" in os.environ and "RANK" not in os.environ:
        raise InputError(
            "more than one process was asked for, but accelerate launch started only one (it does so with "
            f"--cpu): launch with  {LAUNCH_ON_CPU.format(n='N')}"
        )


def _configure_deepspeed(accelerator: Accelerator, settings: TrainSettings) -> None:
    plugin = accelerator.state.deepspeed_plugin
    if plugin.zero_stage == 3:
        raise InputError("DeepSpeed ZeRO-3 is not supported: set zero_stage to 1 or 2 (two encoders fit well)")
    plugin.deepspeed_config["train_micro_batch_size_per_gpu"] = settings.batch_size // accelerator.num_processes
    plugin.deepspeed_config["gradient_accumulation_steps"] = 1
    plugin.deepspeed_config["gradient_clipping"] = settings.max_grad_norm


def build_model(settings: ModelSettings, data: str) -> CarpModel:
    """The model that a run starts from.

    Args:
        settings: names a checkpoint, pretrained encoders or an architecture with random weights.
        data: the training pairs; a tokenizer is trained on them for random weights.

    Raises:
        InputError: if a part cannot be loaded or is not what the configuration says.
    """
    if settings.checkpoint:
        return CarpModel.from_pretrained(settings.checkpoint)
    try:
        if not settings.encoder:
            return _random_model(settings, data)
        model = CarpModel.from_encoders(settings.encoder, settings.critique_encoder, **_shape(settings))
    except ValueError as error:
        raise error if isinstance(error, InputError) else InputError(f"model: {error}") from error
    _check_architecture(model, settings)
    return model


def freeze(model: CarpModel, settings: ModelSettings) -> None:
    """Keep what is not to be trained as it is.

    Raises:
        InputError: if nothing would be left.
    """
    for tower in (model.passage_tower, model.critique_tower):
        if settings.freeze == "encoders":
            if tower.projection is None:
                raise InputError("model.freeze=encoders trains projections, and this model has none: freeze embeddings")
            tower.encoder.requires_grad_(False)
        elif settings.freeze == "embeddings":
            tower.encoder.get_input_embeddings().requires_grad_(False)


def architecture_config(settings: ModelSettings, **changes: Any) -> CarpConfig:
    """The configuration of a model whose two encoders have ``settings.architecture`` with ``changes``."""
    values = {**(settings.architecture or {}), **changes}
    model_type = values.pop("model_type")
    encoders: dict[str, Any] = {
        f"{side}_config": AutoConfig.for_model(model_type, **values) for side in ("passage", "critique")
    }
    return CarpConfig(**encoders, **_shape(settings))


def _shape(settings: ModelSettings) -> dict[str, Any]:
    fields = ("projection_dim", "pooling", "max_passage_tokens", "max_critique_tokens")
    return {field: getattr(settings, field) for field in fields}


def _check_architecture(model: CarpModel, settings: ModelSettings) -> None:
    found = model.config.passage_config
    for key, value in (settings.architecture or {}).items():
        own = getattr(found, key, None)
        if own != value and not (key == "vocab_size" and own == value + 1):  # [quote] comes on top
            raise InputError(f"model.architecture.{key} is {value!r}, but {settings.encoder} has {own!r}")


def _random_model(settings: ModelSettings, data: str) -> CarpModel:
    draft = architecture_config(settings)
    texts = (text for pair in islice(read_pairs(data), TOKENIZER_TRAINING_PAIRS) for text in pair[:2])
    tokenizer = train_tokenizer(texts, draft.passage_config.vocab_size, context_capacity(draft.passage_config))
    special = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")}
    model = CarpModel(architecture_config(settings, vocab_size=len(tokenizer), **special))
    model.passage_tokenizer = model.critique_tokenizer = tokenizer
    return model


def make_optimizer(model: CarpModel, settings: TrainSettings) -> AdamW:
    """AdamW; no weight decay on biases, norms and the logit scale, which has a learning rate of its own."""
    trained = [p for p in model.parameters() if p.requires_grad and p is not model.logit_scale]
    decayed = [p for p in trained if p.ndim >= 2]
    plain = [p for p in trained if p.ndim < 2]
    groups = [
        {"params": decayed, "weight_decay": settings.weight_decay, "lr": settings.lr},
        {"params": plain, "weight_decay": 0.0, "lr": settings.lr},
        {"params": [model.logit_scale], "weight_decay": 0.0, "lr": settings.logit_scale_lr},
    ]
    for group in groups:
        group["initial_lr"] = group["lr"]  # lets a schedule start at any step
    return AdamW([group for group in groups if group["params"]], fused=True)


def make_schedule(optimizer: AdamW, settings: TrainSettings, step: int) -> LambdaLR:
    """Linear warm-up, then decay to zero at the last step; ``step`` updates are done already."""
    warmup_steps = round(settings.warmup * settings.steps)
    make: Callable[..., LambdaLR] = SCHEDULES[settings.schedule]
    return make(optimizer, warmup_steps, settings.steps, last_epoch=step - 1)


def seed_step(seed: int, step: int, process: int) -> None:
    """Make the random state a function of the run's seed, the step and the process.

    So dropout after a resumption is what it would have been, and no random state has to be saved.
    """
    torch.manual_seed(int(np.random.SeedSequence([seed, step, process]).generate_state(1, np.uint64)[0] >> 1))


def clamp_logit_scale(model: CarpModel, accelerator: Accelerator) -> None:
    """Keep the logit scale within its bounds, also in the copy that DeepSpeed updates it from."""
    model.clamp_logit_scale()
    if accelerator.distributed_type == DistributedType.DEEPSPEED:
        from deepspeed.utils import safe_get_full_fp32_param, safe_set_full_fp32_param

        master = safe_get_full_fp32_param(model.logit_scale)
        safe_set_full_fp32_param(model.logit_scale, master.clamp(*LOGIT_SCALE_BOUNDS))


def with_prepared_parts(config: TrainingConfig) -> TrainingConfig:
    """The configuration in which a folder that ``carp prepare`` has written stands for its two parts."""
    parts = prepared_parts(config.data.train)
    if parts is None or config.data.validation:
        return config
    data = config.data.model_copy(update={"train": parts[0], "validation": parts[1]})
    return config.model_copy(update={"data": data})


def cache_folder(config: TrainingConfig) -> Path:
    """Where tokens and pooled states are kept."""
    return Path(config.data.cache or CACHE).expanduser()


def load_pairs(config: TrainingConfig, model: CarpModel, progress: bool) -> TrainingData:
    """Tokenise what a run reads.

    Raises:
        InputError: names the file, the row and the mend.
    """

    def tokenized(source: str) -> TokenizedPairs:
        return tokenize_pairs(
            source,
            model.tokenizer("passage"),
            model.tokenizer("critique"),
            model.config.max_passage_tokens,
            model.config.max_critique_tokens,
            cache_folder(config),
            progress,
        )

    pairs = tokenized(config.data.train)
    if config.data.validation:
        validation = tokenized(config.data.validation)
        training_rows, validation_rows = np.arange(len(pairs)), np.arange(len(validation))
    else:
        validation = pairs
        training_rows, validation_rows = split_rows(pairs.units, config.data.validation_pairs)
    if len(training_rows) < config.train.batch_size:
        raise InputError(
            f"{config.data.train}: {len(training_rows)} pairs for training do not fill a batch of "
            f"{config.train.batch_size}: set train.batch_size to {len(training_rows)} or less"
        )
    return TrainingData(pairs, training_rows, validation, validation_rows)
