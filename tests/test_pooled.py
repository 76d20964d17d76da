"""Training of projections alone, over encoders that stay as they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState, PartialState
from training_runs import finish, tiny_options, training_command

from carp.config import load_config
from carp.errors import InputError
from carp.model.carp_model import CarpModel
from carp.model.texts import TokenizedTexts
from carp.model.tower import TextTower
from carp.training import pooled
from carp.training.checkpoints import Checkpoints
from carp.training.loop import prepare, train
from carp.training.metrics import read_metrics
from carp.training.setup import make_accelerator

FROZEN = "model.freeze=encoders"


@pytest.fixture(autouse=True)
def fresh_accelerator() -> Iterator[None]:
    yield
    AcceleratorState._reset_state()
    PartialState._reset_state()


def weights(folder: Path) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = CarpModel.from_pretrained(folder).state_dict()
    return state


def run(output: Path, cache: Path, *options: str) -> Path:
    return train(load_config("carp_nano", tiny_options(output, cache, FROZEN, *options)))


def test_only_projections_and_the_temperature_change(tmp_path: Path) -> None:
    output = run(tmp_path / "run", tmp_path / "cache", "train.lr=1e-2", "train.steps=30")
    first = weights(Checkpoints(output, 2).path(Checkpoints(output, 2).steps()[0]))
    last = weights(Checkpoints(output, 2).path(30))
    changed = {name for name, weight in last.items() if not torch.equal(weight, first[name])}
    assert changed == {"passage_tower.projection.weight", "critique_tower.projection.weight", "logit_scale"}
    losses = [r["loss"] for r in read_metrics(output / "metrics.jsonl") if "loss" in r]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.1


def test_pooled_states_are_those_of_the_encoder(tmp_path: Path) -> None:
    config = load_config("carp_nano", tiny_options(tmp_path / "run", tmp_path / "cache", FROZEN))
    prepared = prepare(config, make_accelerator(config))
    model = prepared.bare_model.eval()
    batch = prepared.pairs.batch(prepared.training_rows[:10])
    for side, texts in (("passage", batch.passages), ("critique", batch.critiques)):
        bare = TokenizedTexts(texts.tokens, texts.lengths)
        torch.testing.assert_close(
            model.embed_tokenized(side, texts), model.embed_tokenized(side, bare), rtol=1e-5, atol=1e-5
        )


def test_a_text_is_encoded_once_for_all_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []
    pool = TextTower.pool

    def counted(self: TextTower, texts: TokenizedTexts, rows: torch.Tensor) -> torch.Tensor:
        encoded.extend(texts.fingerprints()[rows].tolist())
        return pool(self, texts, rows)

    monkeypatch.setattr(TextTower, "pool", counted)
    monkeypatch.setattr(pooled, "SHARD", 50)
    first = run(tmp_path / "first", tmp_path / "cache")
    assert len(encoded) == len(set(encoded)) > 400
    once = len(encoded)
    second = run(tmp_path / "second", tmp_path / "cache")
    assert len(encoded) == once
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()


def test_a_text_without_states_is_reported(tmp_path: Path) -> None:
    states = pooled.PooledStates(tmp_path / "pooled")
    with pytest.raises(InputError, match=r"states of some texts are missing: let all machines share data\.cache"):
        states.of(TokenizedTexts.from_lists([[1, 2], [3]]))


@pytest.mark.slow
def test_two_processes_end_where_one_does(tmp_path: Path) -> None:
    run(tmp_path / "run1", tmp_path / "cache1")
    finish(training_command(tiny_options(tmp_path / "run2", tmp_path / "cache2", FROZEN), 2))
    one, two = (weights(tmp_path / f"run{processes}") for processes in (1, 2))
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, rtol=1e-3, atol=1e-4)


def test_a_model_without_projections_has_nothing_to_train(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"model\.freeze=encoders trains projections, and this model has none"):
        run(tmp_path / "run", tmp_path / "cache", "model.projection_dim=null")
