"""Embeddings in files, several workers, 8-bit layers: what is embedded, how often, and how exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from conftest import tiny_config

import carp
from carp.constants import MINILM
from carp.data.pairs import read_pairs
from carp.errors import CarpError, InputError
from carp.model.carp_model import CarpModel
from carp.model.encoders import MINILM_PACKAGE
from carp.model.int8 import Int8Linear, convert_to_int8, is_int8
from carp.scoring import workers
from carp.scoring.embeddings import Embeddings, embed
from carp.scoring.loading import load
from carp.scoring.workers import EmbeddingWorkers

STORIES = ["It was raining. John took an umbrella.", "She laughed and laughed.", "It rained on and on. " * 40]
REVIEWS = ["This is boring.", "How exciting!"]


class Counting:
    """Counts the texts that a model embeds."""

    def __init__(self, model: CarpModel, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts = 0
        embed_tokenized = model.embed_tokenized

        def counted(side, texts, bar=None):
            self.texts += len(texts)
            return embed_tokenized(side, texts, bar)

        monkeypatch.setattr(model, "embed_tokenized", counted)


def test_a_text_that_comes_often_is_embedded_once(model: CarpModel, monkeypatch: pytest.MonkeyPatch) -> None:
    short = STORIES[:2]
    expected = carp.score(short, REVIEWS, model=model)
    counting = Counting(model, monkeypatch)
    found = carp.score([short[0], short[1], short[0]] * 5, [*REVIEWS, REVIEWS[0]], model=model)
    assert counting.texts == 4
    np.testing.assert_allclose(found[:3], expected[[0, 1, 0]][:, [0, 1, 0]], atol=1e-6)
    assert model.encode_passages([short[1], short[0], short[1]]).shape == (3, 24)
    assert counting.texts == 6


# -- embeddings in a file ----------------------------------------------------------------------------------


def test_saved_embeddings_score_like_their_stories(model: CarpModel, tmp_path: Path) -> None:
    embed(STORIES, ids=["a", "b", "c"], model=model).save(tmp_path / "new" / "stories.parquet")
    found = Embeddings.load(tmp_path / "new" / "stories.parquet")
    assert (found.ids, found.side, found.vectors.dtype) == (["a", "b", "c"], "passage", np.float32)
    expected = carp.score(STORIES, REVIEWS, model=model)
    np.testing.assert_allclose(carp.score(found, REVIEWS, model=model), expected, atol=1e-6)
    critiques = embed(REVIEWS, side="critique", model=model)
    np.testing.assert_allclose(found.vectors @ critiques.vectors.T, expected, atol=1e-6)


def test_other_tools_can_read_the_file(model: CarpModel, tmp_path: Path) -> None:
    found = embed(STORIES, model=model)
    found.save(tmp_path / "stories.parquet")
    table = pq.read_table(tmp_path / "stories.parquet")
    assert table.column_names == ["id", "embedding"]
    assert table["id"].to_pylist() == ["1", "2", "3"]
    assert table["embedding"].to_pylist() == found.vectors.tolist()


def test_embeddings_of_another_model_are_refused(model: CarpModel, tmp_path: Path) -> None:
    found = embed(STORIES, model=model)
    with torch.no_grad():
        model.passage_tower.projection.weight[0, 0] += 1e-3
    with pytest.raises(InputError, match="not by the model that is to score"):
        carp.score(found, REVIEWS, model=model)


def test_critiques_do_not_pass_for_stories(model: CarpModel) -> None:
    with pytest.raises(InputError, match="embeddings of critiques: give those of passages"):
        carp.score(embed(REVIEWS, side="critique", model=model), REVIEWS, model=model)


def write_garbage(path: Path) -> None:
    path.write_bytes(b"no parquet at all")


def write_other_table(path: Path) -> None:
    pq.write_table(pa.table({"id": ["1"], "embedding": [[1.0]]}), path)


@pytest.mark.parametrize("write", [write_garbage, write_other_table])
def test_a_file_without_embeddings_is_refused(write, tmp_path: Path) -> None:
    write(tmp_path / "other.parquet")
    with pytest.raises(InputError, match=r"other\.parquet: no embeddings that  carp embed  has written"):
        Embeddings.load(tmp_path / "other.parquet")
    with pytest.raises(InputError, match="no such file"):
        Embeddings.load(tmp_path / "none.parquet")


@pytest.mark.parametrize(
    ("options", "message"),
    [({"side": "story"}, "choose passage or critique"), ({"ids": ["1"]}, "1 ids for 3 texts")],
)
def test_bad_options_are_refused(model: CarpModel, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        embed(STORIES, model=model, **options)


# -- several processes -------------------------------------------------------------------------------------


def test_workers_give_the_numbers_of_one_process(model: CarpModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "TOKENS_PER_TASK", 64)  # several tasks
    stories = [pair.passage for pair in list(read_pairs("sample"))[::40]]
    found = carp.score(stories, REVIEWS, model=model, devices=["cpu", "cpu"])
    np.testing.assert_allclose(found, carp.score(stories, REVIEWS, model=model), atol=1e-5)


def test_a_worker_that_dies_is_one_line(model: CarpModel) -> None:
    with EmbeddingWorkers(model, ["cpu"]) as running:
        tokenized = model.tokenize("passage", STORIES)
        running.embed_tokenized("passage", tokenized)
        for process in running._pool._processes.values():
            process.kill()
        with pytest.raises(CarpError, match="use fewer devices"):
            running.embed_tokenized("passage", tokenized)


@pytest.mark.parametrize("device", ["cuda:9", "nonsense"])
def test_a_device_that_is_not_there_is_named(model: CarpModel, device: str) -> None:
    with pytest.raises(InputError, match=f"no device '{device}' on this machine"):
        carp.score(STORIES, REVIEWS, model=model, devices=["cpu", device])


# -- precisions --------------------------------------------------------------------------------------------


def test_an_int8_layer_is_the_product_of_rounded_factors() -> None:
    generator = torch.Generator().manual_seed(0)
    linear = torch.nn.Linear(48, 80)
    states = torch.randn(2, 9, 48, generator=generator)
    states[0, 0] = 0  # a row without a scale of its own
    layer = Int8Linear(linear)
    assert layer.weight.abs().max() == 63
    weight = (layer.weight.double() * layer.scale.double()).t()
    scale = states.double().abs().amax(-1, keepdim=True) / 127
    rounded = (states.double() / scale.clamp(min=1e-12)).round() * scale
    expected = rounded @ weight.t() + linear.bias.double()
    torch.testing.assert_close(layer(states).double(), expected, rtol=0, atol=1e-5)
    assert (weight - linear.weight).abs().max() <= layer.scale.max() / 2


def test_int8_embeddings_stay_close(model_folder: Path) -> None:
    model, exact = load(model_folder, precision="int8"), load(model_folder)
    assert is_int8(model)
    assert not is_int8(exact)
    found, expected = (m.encode_passages([pair.passage for pair in read_pairs("sample")]) for m in (model, exact))
    assert (found * expected).sum(1).mean() > 0.99
    assert not torch.equal(found, expected)


def test_minilm_in_int8_keeps_a_cosine_of_0_99() -> None:
    pytest.importorskip(MINILM_PACKAGE)
    texts = list(dict.fromkeys(pair.passage for pair in read_pairs("sample")))
    model = CarpModel.from_encoders(MINILM, projection_dim=None, pooling="mean", max_passage_tokens=128)
    expected = model.encode_passages(texts)
    cosines = (convert_to_int8(model).encode_passages(texts) * expected).sum(1)
    assert cosines.mean() > 0.99
    assert cosines.min() > 0.98


def test_int8_workers_load_the_model_from_where_it_came(model_folder: Path) -> None:
    model = load(model_folder, precision="int8")
    found = carp.score(STORIES, REVIEWS, model=model, devices=["cpu"])
    np.testing.assert_allclose(found, carp.score(STORIES, REVIEWS, model=model), atol=1e-5)


def test_half_precision_is_loaded_as_such(model_folder: Path) -> None:
    model = load(model_folder, precision="bfloat16")
    assert model.dtype == torch.bfloat16
    found = carp.score(STORIES, REVIEWS, model=model)
    np.testing.assert_allclose(found, carp.score(STORIES, REVIEWS, model=load(model_folder)), atol=0.03)


def test_an_unknown_precision_is_refused(model_folder: Path) -> None:
    with pytest.raises(InputError, match="choose float32, bfloat16, float16, int8"):
        load(model_folder, precision="int4")


def test_int8_on_a_gpu_is_refused() -> None:
    with pytest.raises(InputError, match="int8 is for CPUs"):
        convert_to_int8(CarpModel(tiny_config()).to("meta"))
