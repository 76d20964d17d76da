"""Scores read as percentiles among the passages that a checkpoint carries."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import carp
from carp.cli.main import app
from carp.errors import InputError
from carp.model.carp_model import CarpModel
from carp.scoring.calibration import percentiles
from carp.training.export import REFERENCES, _some

PASSAGES = ["It rained all day.", "She ran for the last train.", "Nobody spoke.", "The old king died in his sleep."]
REVIEWS = ["This is boring.", "This is really exciting."]


def test_percentiles_are_shares_of_the_reference_below() -> None:
    reference = torch.tensor([[0.1, 0.5], [0.2, 0.5], [0.3, 0.5], [0.4, 0.9]])
    scores = torch.tensor([[0.25, 0.5], [0.05, 1.0], [0.4, 0.4]])
    assert percentiles(scores, reference).tolist() == [[50.0, 37.5], [0.0, 100.0], [87.5, 0.0]]


def test_scores_can_be_read_as_percentiles(model: CarpModel) -> None:
    carp.calibrate(model, PASSAGES)
    found = carp.score(PASSAGES, REVIEWS, model=model, calibrated=True)
    for column in found.T:  # the reference scored against itself
        assert sorted(column) == [12.5, 37.5, 62.5, 87.5]
    order = carp.score(PASSAGES, REVIEWS, model=model).argsort(axis=0)
    assert np.array_equal(found.argsort(axis=0), order)
    assert carp.score(PASSAGES[0], REVIEWS[0], model=model, calibrated=True).shape == (1,)


def test_a_model_without_reference_says_so(model: CarpModel) -> None:
    with pytest.raises(InputError, match="no reference passages"):
        carp.score(PASSAGES, REVIEWS, model=model, calibrated=True)
    with pytest.raises(InputError, match="at least two"):
        carp.calibrate(model, PASSAGES[:1])


def test_the_reference_travels_with_the_checkpoint(model: CarpModel, tmp_path: Path) -> None:
    carp.calibrate(model, PASSAGES)
    model.save_pretrained(tmp_path / "model")
    loaded = CarpModel.from_pretrained(tmp_path / "model")
    assert loaded.reference is not None
    assert torch.allclose(loaded.reference, model.reference, atol=1e-3)
    CliRunner().invoke(app, ["info", str(tmp_path / "model")])


def test_equal_passages_are_one_reference(model: CarpModel) -> None:
    texts = model.tokenize("passage", [PASSAGES[0], PASSAGES[1], PASSAGES[0], PASSAGES[2]])
    assert _some(texts).lengths.tolist() == texts.lengths[[0, 1, 3]].tolist()
    assert len(_some(model.tokenize("passage", [f"Number {i}." for i in range(REFERENCES + 5)]))) == REFERENCES


def test_the_command_shows_percentiles_where_there_are_any(model: CarpModel, tmp_path: Path) -> None:
    story = tmp_path / "story.txt"
    story.write_text(PASSAGES[1])
    command = ["score", str(story), "-r", REVIEWS[0], "-r", REVIEWS[1], "--model"]
    model.save_pretrained(tmp_path / "without")
    carp.calibrate(model, PASSAGES)
    model.save_pretrained(tmp_path / "with")
    without = CliRunner().invoke(app, [*command, str(tmp_path / "without")])
    assert "percentile" not in without.output
    plot = tmp_path / "scores.png"
    found = CliRunner().invoke(app, [*command, str(tmp_path / "with"), "--plot", str(plot)])
    assert found.exit_code == 0, found.output
    assert "percentile" in found.output
    assert plot.stat().st_size > 0
    shown = json.loads(CliRunner().invoke(app, [*command, str(tmp_path / "with"), "--json"]).output)
    assert set(shown) == {"story_id", "scores", "percentiles"}
    loaded = carp.load(tmp_path / "with", device="cpu")
    expected = carp.score(PASSAGES[1], REVIEWS, model=loaded, calibrated=True)
    assert list(shown["percentiles"].values()) == expected.tolist()
