"""The configuration of a training run: typed, strict, built from defaults, YAML and ``key=value`` words."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, field_validator, model_validator

from carp.errors import InputError

PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """Strict: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class ModelSettings(Section):
    """What is trained: a checkpoint, pretrained encoders, or an architecture with random weights."""

    checkpoint: str | None = Field(None, description="start from this CARP checkpoint (folder or Hub id)")
    encoder: str | None = Field(None, description="pretrained encoder of passages and critiques, e.g. roberta-base")
    critique_encoder: str | None = Field(None, description="another pretrained encoder for critiques")
    architecture: dict[str, Any] | None = Field(
        None,
        description="configuration of the encoders (model_type, hidden_size, ...): random weights and a "
        "tokenizer trained on the pairs where no encoder is named; else what the encoder is expected to be",
    )
    projection_dim: PositiveInt | None = Field(2048, description="width of the embedding space; null: no projection")
    pooling: Literal["masked_sum", "mean", "cls"] = Field("masked_sum", description="masked_sum is the paper's")
    freeze: Literal["nothing", "embeddings", "encoders"] = Field(
        "nothing",
        description="what stays as it is: embeddings are the words' (faster, less memory); with encoders only the "
        "projections are trained, and each text is encoded once",
    )
    max_passage_tokens: PositiveInt = Field(512, description="passages are cut at so many tokens")
    max_critique_tokens: PositiveInt = Field(512, description="critiques are cut at so many tokens")

    @model_validator(mode="after")
    def _has_a_source(self) -> ModelSettings:
        if self.checkpoint and (self.encoder or self.architecture):
            raise ValueError("model.checkpoint excludes model.encoder and model.architecture: name one source")
        if not (self.checkpoint or self.encoder or self.architecture):
            raise ValueError("name model.encoder, model.architecture or model.checkpoint")
        if self.critique_encoder and not self.encoder:
            raise ValueError("model.critique_encoder needs model.encoder")
        if self.architecture is not None and "model_type" not in self.architecture:
            raise ValueError("model.architecture needs a model_type, e.g. roberta")
        return self


class DataSettings(Section):
    """Which pairs are trained on."""

    train: str = Field(
        "sample",
        description="pairs or raw stories: JSON Lines, CSV, Parquet, a saved datasets folder, a Hub id, "
        "or 'sample' for the bundled pairs",
    )
    validation: str | None = Field(None, description="validation pairs; by default split off the training pairs")
    validation_pairs: PositiveInt = Field(1000, description="pairs split off for validation, by whole groups")
    cache: str | None = Field(None, description="folder for tokenised pairs; by default ~/.cache/carp")


class TrainSettings(Section):
    """How it is trained."""

    output: str = Field("runs/carp", description="folder of the run; in the end a checkpoint itself")
    steps: PositiveInt = Field(1400, description="optimiser steps (the paper reports 1,400)")
    batch_size: PositiveInt = Field(2048, description="pairs of one contrastive batch, over all processes")
    tokens_per_chunk: PositiveInt = Field(8192, description="tokens embedded at once: less takes less memory")
    keep_graphs: Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["auto"] = Field(
        "auto", description="GB for graphs that save second passes; auto: a share of the free memory; 0: none"
    )
    lr: PositiveFloat = Field(5e-5, description="peak learning rate of encoders and projections")
    logit_scale_lr: PositiveFloat = Field(1e-3, description="peak learning rate of the logit scale")
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        0.01, description="not applied to biases, norms and the logit scale"
    )
    warmup: Fraction = Field(0.05, description="share of the steps with linearly rising learning rate")
    schedule: Literal["cosine", "linear"] = Field("cosine", description="decay after the warm-up")
    max_grad_norm: PositiveFloat = Field(1.0, description="gradients are clipped at this norm")
    precision: Literal["no", "bf16", "fp16"] = Field("no", description="mixed precision")
    gradient_checkpointing: bool = Field(False, description="recompute activations: less memory, more time")
    evaluate_every: PositiveInt = Field(100, description="steps between validations")
    save_every: PositiveInt = Field(100, description="steps between checkpoints")
    keep_checkpoints: PositiveInt = Field(2, description="newest checkpoints kept, beside the best one")
    seed: int = Field(0, ge=0, description="of weights, order and dropout")
    resume: Literal["auto", "never"] = Field("never", description="auto: continue where the output folder stops")
    trackers: list[Literal["wandb", "tensorboard"]] = Field(default_factory=list, description="report there too")

    @field_validator("precision", mode="before")
    @classmethod
    def _no_is_a_word(cls, value: Any) -> Any:
        return "no" if value is False else value  # YAML reads a bare no as false

    @model_validator(mode="after")
    def _has_negatives(self) -> TrainSettings:
        if self.batch_size < 2:
            raise ValueError("train.batch_size must be at least 2: a pair needs another one to differ from")
        return self


class TrainingConfig(Section):
    """Everything a run depends on; saved with every checkpoint."""

    model: ModelSettings
    data: DataSettings = DataSettings()  # type: ignore[call-arg]
    train: TrainSettings = TrainSettings()  # type: ignore[call-arg]

    def to_yaml(self) -> str:
        """The resolved configuration as YAML."""
        return yaml.safe_dump(self.model_dump(), sort_keys=False, allow_unicode=True)


def preset_path(name: str) -> Path | None:
    """The file of a bundled preset such as ``carp_base``, or ``None``."""
    package = Path(__file__).parent
    for folder in (package / "configs", package.parent / "configs"):
        if (path := folder / f"{name.removesuffix('.yaml')}.yaml").is_file():
            return path
    return None


def preset_names() -> list[str]:
    """Names of the bundled presets."""
    package = Path(__file__).parent
    return sorted({p.stem for f in ("configs", "../configs") for p in (package / f).glob("carp_*.yaml")})


def load_config(source: str | Path, overrides: Sequence[str] = ()) -> TrainingConfig:
    """Build a configuration.

    Args:
        source: a YAML file or the name of a preset.
        overrides: words ``section.key=value``; values are YAML.

    Raises:
        InputError: names the file, the key and the nearest known key.
    """
    path = Path(source) if Path(source).is_file() else preset_path(str(source))
    if path is None:
        raise InputError(f"{source}: no such file and no preset; presets are {', '.join(preset_names())}")
    values = _read_yaml(path)
    for word in overrides:
        _override(values, word)
    return _validated(values, path)


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, OSError) as error:
        raise InputError(f"{path}: not readable as YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict) or not all(isinstance(v, dict) for v in values.values()):
        raise InputError(f"{path}: expected the sections model, data and train, each with keys")
    return values


def _override(values: dict[str, Any], word: str) -> None:
    key, equals, text = word.partition("=")
    section, dot, name = key.partition(".")
    if not (equals and dot and section and name):
        raise InputError(f"{word!r}: write options as section.key=value, e.g. train.lr=1e-4")
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that does not exist
        raise InputError(f"{word!r}: the value is not valid YAML: {' '.join(str(error).split())}") from error
    target = values.setdefault(section, {})
    *parents, last = name.split(".")
    for parent in parents:
        target = target.setdefault(parent, {})
        if not isinstance(target, dict):
            raise InputError(f"{word!r}: {parent} holds no keys of its own")
    target[last] = value


def _validated(values: dict[str, Any], path: Path) -> TrainingConfig:
    try:
        return TrainingConfig.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        location = tuple(str(part) for part in problem["loc"])
        raise InputError(f"{path}: {_explain(location, problem)}") from error


def _explain(location: tuple[str, ...], problem: Any) -> str:
    key = ".".join(location)
    if problem["type"] == "extra_forbidden":
        nearest = difflib.get_close_matches(location[-1], _known_keys(location[:-1]), n=1, cutoff=0)
        return f"unknown key {key}; the nearest known one is {'.'.join((*location[:-1], *nearest))}"
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "value_error":
        return message
    return f"{key}: {message}, not {problem['input']!r}" if problem["type"] != "missing" else f"{key} is missing"


def _known_keys(section: tuple[str, ...]) -> list[str]:
    sections: dict[str, type[BaseModel]] = {"model": ModelSettings, "data": DataSettings, "train": TrainSettings}
    model = sections[section[0]] if section else TrainingConfig
    return list(model.model_fields)
