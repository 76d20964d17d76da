"""The language model that a finetuning run starts from, continues with and leaves behind."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

import torch
import yaml
from torch.optim import AdamW

from carp.config import TrainSettings
from carp.errors import InputError
from carp.evaluation.language.loading import LanguageModel, check_language_model, load_model, load_tokenizer
from carp.evaluation.language.training_config import FinetuneConfig
from carp.model.encoders import quiet_transformers
from carp.training.checkpoints import TRAINING_FILES
from carp.training.metrics import read_metrics

OPTION = "model.checkpoint"


def load_for_training(config: FinetuneConfig, checkpoint: Path | None) -> LanguageModel:
    """The language model, with adapters if they are asked for, or that of a checkpoint of the run.

    Raises:
        InputError: if there is no such model, it is a GGUF file, or peft is missing.
    """
    name = str(config.model.checkpoint)
    if Path(name).is_file():
        raise InputError(f"{OPTION} {name}: a GGUF file cannot be trained and saved; name a folder or a Hub id")
    check_language_model(name, OPTION)
    if config.language.lora:
        check_peft()
    model = (
        _with_adapters(config, checkpoint)
        if config.language.lora
        else load_model(str(checkpoint or name), OPTION, torch.float32)
    )
    if config.train.gradient_checkpointing:
        model.gradient_checkpointing_enable()
        model.enable_input_require_grads()  # where only adapters are trained, no gradient would reach them otherwise
    return LanguageModel(name, model, load_tokenizer(name, OPTION))


def check_peft() -> None:
    """Find out whether peft is there.

    Raises:
        InputError: names the extra to install.
    """
    if importlib.util.find_spec("peft") is None:
        raise InputError("--lora needs peft: pip install 'carp-critic[eval]'")


def _with_adapters(config: FinetuneConfig, checkpoint: Path | None) -> Any:
    from peft import LoraConfig, PeftModel, get_peft_model

    # Weights that are not trained lose nothing that bf16 would keep; the adapters are float32.
    dtype = torch.bfloat16 if config.train.precision == "bf16" else torch.float32
    base = load_model(str(config.model.checkpoint), OPTION, dtype)
    if checkpoint:
        return PeftModel.from_pretrained(base, str(checkpoint), is_trainable=True)
    rank = config.language.lora
    return get_peft_model(
        base, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")
    )


def make_optimizer(model: Any, settings: TrainSettings) -> AdamW:
    """AdamW; no weight decay on biases and norms."""
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    kept = [{**group, "lr": settings.lr, "initial_lr": settings.lr} for group in groups if group["params"]]
    return AdamW(kept, lr=settings.lr, fused=True)


def export(output: Path, best: Path, config: FinetuneConfig, state: dict[str, Any]) -> None:
    """Make ``output`` itself a model folder: that of the lowest validation perplexity, adapters merged.

    Args:
        output: the run's folder, with ``metrics.jsonl``.
        best: the checkpoint to export.
        config: of the run.
        state: of the finished run.
    """
    draft = output / ".export"
    shutil.rmtree(draft, ignore_errors=True)
    with quiet_transformers():
        if config.language.lora:
            load_for_training(config, best).model.merge_and_unload().save_pretrained(draft)
        else:
            shutil.copytree(best, draft, ignore=shutil.ignore_patterns(*TRAINING_FILES))
        load_tokenizer(str(config.model.checkpoint), OPTION).save_pretrained(draft)
    (draft / "README.md").write_text(_card(output, config, state), encoding="utf-8")
    (draft / "training.yaml").write_text(yaml.safe_dump(state, sort_keys=False), encoding="utf-8")
    # config.json last: without it nobody takes the folder for a model.
    for path in sorted(draft.iterdir(), key=lambda p: p.name == "config.json"):
        os.replace(path, output / path.name)
    draft.rmdir()


def _card(output: Path, config: FinetuneConfig, state: dict[str, Any]) -> str:
    validations = [record for record in read_metrics(output / "metrics.jsonl") if "validation_perplexity" in record]
    rows = "\n".join(f"| {record['step']:.0f} | {record['validation_perplexity']:.4f} |" for record in validations)
    settings = config.train
    adapters = f", LoRA of rank {config.language.lora}" if config.language.lora else ""
    return f"""---
base_model: {config.model.checkpoint}
pipeline_tag: text-generation
tags: [story-evaluation, critique]
---

# {output.name}

`{config.model.checkpoint}`, finetuned to write critiques of stories: `Passage: ...`, a blank line, `Critique:`.
{state["step"]} steps of {settings.batch_size} windows on `{config.data.train}`{adapters}, in {state["processes"]}
process(es). These weights are those of step {state["best_step"]}.

| step | perplexity per byte of the validation critiques |
|---|---|
{rows}

    carp generate story.txt --model {output}
    carp evaluate --votes votes.csv --stories stories.jsonl --evaluator finetuned:{output} --out results

The configuration and the versions are in `training.yaml`.
"""
