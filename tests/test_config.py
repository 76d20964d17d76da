"""Configurations: presets, overrides of every type, and errors that name the key and the mend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from carp.config import DataSettings, ModelSettings, TrainingConfig, TrainSettings, load_config, preset_names
from carp.errors import InputError

PRESETS = ["carp_base", "carp_large", "carp_mini", "carp_nano", "carp_tiny"]


def value_of(config: TrainingConfig, key: str) -> Any:
    found: Any = config
    for part in key.split("."):
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    return found


def yaml_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


# -- loading -----------------------------------------------------------------------------------------------


def test_the_five_presets_are_found() -> None:
    assert preset_names() == PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_loads_by_name_and_by_path(name: str) -> None:
    by_name = load_config(name)
    path = Path(__file__).parent.parent / "configs" / f"{name}.yaml"
    assert load_config(path) == load_config(f"{name}.yaml") == by_name
    assert by_name.train.output == f"runs/{name}"


@pytest.mark.parametrize(
    ("preset", "key", "expected"),
    [
        ("carp_large", "model.encoder", "roberta-large"),
        ("carp_large", "model.architecture.num_hidden_layers", 24),
        ("carp_large", "model.projection_dim", 2048),
        ("carp_base", "train.lr", 5e-5),
        ("carp_base", "train.steps", 1400),
        ("carp_base", "train.batch_size", 2048),
        ("carp_mini", "model.pooling", "mean"),
        ("carp_nano", "model.encoder", None),
        ("carp_nano", "model.architecture.hidden_size", 64),
        ("carp_tiny", "model.architecture.num_hidden_layers", 4),
    ],
)
def test_a_preset_holds_what_the_design_says(preset: str, key: str, expected: object) -> None:
    assert value_of(load_config(preset), key) == expected


def test_left_out_sections_have_the_defaults(tmp_path: Path) -> None:
    config = load_config(yaml_file(tmp_path, "model:\n  encoder: roberta-base\n"))
    assert config.data == DataSettings()
    assert config.train == TrainSettings()
    assert config.model == ModelSettings(encoder="roberta-base")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("train.steps=7", 7),
        ("train.lr=1e-4", 1e-4),
        ("train.lr=1.0e-4", 1e-4),
        ("train.lr=1", 1.0),
        ("train.warmup=0", 0.0),
        ("train.weight_decay=0", 0.0),
        ("train.gradient_checkpointing=true", True),
        ("train.gradient_checkpointing=no", False),
        ("train.precision=bf16", "bf16"),
        ("train.precision='no'", "no"),
        ("train.output=runs/a b=c", "runs/a b=c"),
        ("train.trackers=[wandb, tensorboard]", ["wandb", "tensorboard"]),
        ("train.trackers=[]", []),
        ("train.resume=auto", "auto"),
        ("model.projection_dim=null", None),
        ("model.pooling=cls", "cls"),
        ("data.train=pairs.parquet", "pairs.parquet"),
        ("data.validation=", None),
        ("data.cache=~", None),
        ("model.architecture.hidden_size=32", 32),
        ("model.architecture.rope.theta=1.5", 1.5),
        ("model.architecture={model_type: bert, hidden_size: 8}", {"model_type": "bert", "hidden_size": 8}),
    ],
)
def test_an_override_of_every_type_arrives(word: str, expected: object) -> None:
    found = value_of(load_config("carp_nano", [word]), word.partition("=")[0])
    assert found == expected
    assert type(found) is type(expected)


def test_a_nested_override_leaves_its_neighbours_alone() -> None:
    before, after = load_config("carp_nano"), load_config("carp_nano", ["model.architecture.hidden_size=32"])
    assert before.model.architecture is not None
    assert after.model.architecture == {**before.model.architecture, "hidden_size": 32}
    assert before.model.architecture["hidden_size"] == 64
    assert after.train == before.train


def test_the_last_of_several_overrides_wins() -> None:
    assert load_config("carp_nano", ["train.steps=5", "train.seed=1", "train.steps=6"]).train.steps == 6


def test_an_override_of_a_left_out_section_makes_it(tmp_path: Path) -> None:
    path = yaml_file(tmp_path, "model:\n  encoder: roberta-base\n")
    assert load_config(path, ["data.train=other.csv"]).data.train == "other.csv"


@pytest.mark.parametrize("name", PRESETS)
def test_yaml_round_trip(name: str, tmp_path: Path) -> None:
    config = load_config(name, ["train.output=runs/Grüße", "train.trackers=[wandb]", "model.projection_dim=null"])
    assert load_config(yaml_file(tmp_path, config.to_yaml())) == config
    assert "Grüße" in config.to_yaml()


def test_yaml_holds_every_key_in_the_documented_order() -> None:
    values = yaml.safe_load(load_config("carp_nano").to_yaml())
    assert list(values) == ["model", "data", "train"]
    for name, section in (("model", ModelSettings), ("data", DataSettings), ("train", TrainSettings)):
        assert list(values[name]) == list(section.model_fields)


def test_every_key_has_a_description() -> None:
    sections = (ModelSettings, DataSettings, TrainSettings)
    assert [n for section in sections for n, f in section.model_fields.items() if not f.description] == []


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_config("carp_nano").train.steps = 3  # type: ignore[misc]


# -- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "unknown", "nearest"),
    [
        ("train.warm_up=1", "train.warm_up", "train.warmup"),
        ("train.batchsize=1", "train.batchsize", "train.batch_size"),
        ("train.step=1", "train.step", "train.steps"),
        ("data.training=x", "data.training", "data.train"),
        ("data.validation_pair=3", "data.validation_pair", "data.validation_pairs"),
        ("model.encoders=x", "model.encoders", "model.encoder"),
        ("model.max_tokens=3", "model.max_tokens", "model.max_passage_tokens"),
        ("training.steps=3", "training", "train"),
        ("modle.encoder=x", "modle", "model"),
    ],
)
def test_an_unknown_key_names_the_nearest_one(word: str, unknown: str, nearest: str) -> None:
    with pytest.raises(InputError) as caught:
        load_config("carp_nano", [word])
    message = str(caught.value)
    assert "carp_nano.yaml: " in message
    assert f"unknown key {unknown};" in message
    assert message.endswith(f"the nearest known one is {nearest}")


def test_an_unknown_key_of_the_file_names_the_file(tmp_path: Path) -> None:
    path = yaml_file(tmp_path, "model:\n  encoder: x\n  projection: 3\n")
    with pytest.raises(InputError, match=r"unknown key model\.projection;.*model\.projection_dim") as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("train.steps=many", r"train\.steps: .*integer.*not 'many'"),
        ("train.steps=1.5", r"train\.steps: .*integer.*not 1\.5"),
        ("train.steps=0", r"train\.steps: .*greater than 0, not 0"),
        ("train.steps=-3", r"train\.steps: .*greater than 0, not -3"),
        ("train.steps=null", r"train\.steps: .*integer.*not None"),
        ("train.lr=fast", r"train\.lr: .*number.*not 'fast'"),
        ("train.lr=0", r"train\.lr: .*greater than 0"),
        ("train.lr=.inf", r"train\.lr: .*finite"),
        ("train.lr=.nan", r"train\.lr: "),
        ("train.warmup=1.5", r"train\.warmup: .*less than or equal to 1, not 1\.5"),
        ("train.warmup=.nan", r"train\.warmup: "),
        ("train.weight_decay=-1", r"train\.weight_decay: .*greater than or equal to 0"),
        ("train.weight_decay=.inf", r"train\.weight_decay: .*finite"),
        ("train.seed=-1", r"train\.seed: .*greater than or equal to 0"),
        ("train.gradient_checkpointing=maybe", r"train\.gradient_checkpointing: .*boolean.*not 'maybe'"),
        ("train.precision=fp8", r"train\.precision: .*'no', 'bf16' or 'fp16', not 'fp8'"),
        ("train.precision=true", r"train\.precision: .*'no', 'bf16' or 'fp16', not True"),
        ("train.trackers=wandb", r"train\.trackers: .*list, not 'wandb'"),
        ("train.trackers=[wandb, mail]", r"train\.trackers\.1: .*'tensorboard', not 'mail'"),
        ("train.output=3", r"train\.output: .*string, not 3"),
        ("data.train=[a]", r"data\.train: .*string, not \['a'\]"),
        ("model.pooling=max", r"model\.pooling: .*'masked_sum', 'mean' or 'cls', not 'max'"),
        ("model.architecture=roberta", r"model\.architecture: .*dictionary, not 'roberta'"),
        ("model.projection_dim=0", r"model\.projection_dim: .*greater than 0"),
    ],
)
def test_a_wrong_value_names_key_and_value(word: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load_config("carp_nano", [word])
    assert "\n" not in str(caught.value)


def test_precision_no_needs_no_quotes_although_yaml_reads_it_as_false(tmp_path: Path) -> None:
    assert load_config("carp_nano", ["train.precision=no"]).train.precision == "no"
    path = yaml_file(tmp_path, "model:\n  encoder: x\ntrain:\n  precision: no\n")
    assert load_config(path).train.precision == "no"


@pytest.mark.parametrize("word", ["steps=3", "train.steps", "train", "=3", "train.=3", ".steps=3", "--train.steps", ""])
def test_a_word_that_is_no_override_is_refused_with_an_example(word: str) -> None:
    with pytest.raises(InputError, match=r"write options as section\.key=value, e\.g\. train\.lr=1e-4"):
        load_config("carp_nano", [word])


@pytest.mark.parametrize("value", ["[", "{a: ", "'open", "2024-02-30"])
def test_an_override_that_is_no_yaml_is_refused(value: str) -> None:
    with pytest.raises(InputError, match="the value is not valid YAML") as caught:
        load_config("carp_nano", [f"train.output={value}"])
    assert "\n" not in str(caught.value)


def test_an_override_below_a_plain_value_is_refused() -> None:
    with pytest.raises(InputError, match="hidden_size holds no keys of its own"):
        load_config("carp_nano", ["model.architecture.hidden_size.x=3"])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.architecture=null"], r"name model\.encoder, model\.architecture or model\.checkpoint"),
        (["model.checkpoint=runs/old"], r"model\.checkpoint excludes model\.encoder and model\.architecture"),
        (["model.critique_encoder=roberta-base"], r"model\.critique_encoder needs model\.encoder"),
        (["model.architecture={hidden_size: 8}"], r"model\.architecture needs a model_type"),
        (["train.batch_size=1"], r"train\.batch_size must be at least 2"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_config("carp_nano", overrides)


def test_a_checkpoint_excludes_an_encoder(tmp_path: Path) -> None:
    path = yaml_file(tmp_path, "model:\n  checkpoint: runs/old\n  encoder: roberta-base\n")
    with pytest.raises(InputError, match=r"model\.checkpoint excludes model\.encoder"):
        load_config(path)


def test_a_checkpoint_alone_is_a_source(tmp_path: Path) -> None:
    assert load_config(yaml_file(tmp_path, "model:\n  checkpoint: runs/old\n")).model.checkpoint == "runs/old"


def test_the_section_model_is_required(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="model is missing"):
        load_config(yaml_file(tmp_path, "train:\n  steps: 3\n"))


@pytest.mark.parametrize(
    "text", ["", "[]", "- a\n", "just words", "model:\n", "model: roberta\n", "model:\n  - encoder\n", "3"]
)
def test_a_file_without_sections_is_refused(tmp_path: Path, text: str) -> None:
    path = yaml_file(tmp_path, text)
    with pytest.raises(InputError, match="expected the sections model, data and train") as caught:
        load_config(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"model: {encoder: x\n", id="open-brace"),
        pytest.param(b"model:\n\tencoder: x\n", id="tab"),
        pytest.param(b"model:\n  encoder: \xff\n", id="not-utf-8"),
        pytest.param(b"model: !!python/object/apply:os.system ['true']\n", id="python-tag"),
        pytest.param(b"model:\n  encoder: 2024-02-30\n", id="no-such-date"),
        pytest.param(b"model:\n  encoder: \x00\n", id="nul"),
    ],
)
def test_a_broken_file_is_named_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not readable as YAML") as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["carp_huge", "no/such.yaml", ""])
def test_a_missing_file_names_the_presets(name: str) -> None:
    with pytest.raises(InputError, match="no such file and no preset; presets are carp_base, carp_large"):
        load_config(name)
