"""Compact checkpoints: what they keep, what they give back, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import cosine_similarity
from transformers import BertConfig, BertModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

import carp
from carp.constants import COMPACT
from carp.errors import InputError
from carp.model.carp_model import CarpModel
from carp.model.compact import save_compact

TEXTS = ["A dog ran home through the rain.", "She said nothing [quote] and closed the door.", "Why?"]
SHAPE = {"projection_dim": 7, "max_passage_tokens": 48, "max_critique_tokens": 48}


@pytest.fixture
def encoder(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> str:
    """A folder with a pretrained encoder, without the row of [quote]."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer) - 1,
        hidden_size=15,  # odd: the last of 15 codes of a row shares its byte with the next row
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=33,
        max_position_embeddings=64,
        pad_token_id=1,
    )
    folder = tmp_path / "encoder"
    BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def trained(encoder: str) -> CarpModel:
    """A model whose weights have all moved away from the encoder's, but for the words'."""
    model = CarpModel.from_encoders(encoder, **SHAPE).eval()
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "word_embeddings" not in name:
                weight += 0.02 * torch.randn_like(weight)
    model.reference = model.encode_passages(TEXTS)
    return model


def test_a_compact_checkpoint_embeds_nearly_the_same(trained: CarpModel, encoder: str, tmp_path: Path) -> None:
    save_compact(trained, encoder, tmp_path / "compact")
    loaded = CarpModel.from_pretrained(tmp_path / "compact")
    bare = CarpModel.from_encoders(encoder, **SHAPE)
    for name in ("encode_passages", "encode_critiques"):
        found, own = getattr(loaded, name)(TEXTS), getattr(trained, name)(TEXTS)
        assert cosine_similarity(found, own).min() > 0.995
        assert cosine_similarity(getattr(bare, name)(TEXTS), own).min() < 0.99, "the weights have moved"
    torch.testing.assert_close(loaded.reference, trained.reference, atol=1e-3, rtol=0)


def test_the_error_of_a_weight_is_half_a_step_at_most(trained: CarpModel, encoder: str, tmp_path: Path) -> None:
    with torch.no_grad():
        words = trained.passage_tower.encoder.get_input_embeddings().weight
        words += 0.02 * torch.randn_like(words)
    save_compact(trained, encoder, tmp_path / "compact")
    loaded, base = CarpModel.from_pretrained(tmp_path / "compact"), BertModel.from_pretrained(encoder).state_dict()
    for name, weight in trained.passage_tower.encoder.state_dict().items():
        error = (loaded.passage_tower.encoder.state_dict()[name] - weight).abs()
        if weight.dim() < 2:
            assert not error.any(), name
        else:
            rows = len(base[name])
            step = (weight[:rows] - base[name]).abs().amax(dim=1, keepdim=True) / 7
            assert (error[:rows] <= 0.502 * step + 1e-7).all(), name
            assert error[:rows].any(), name
            assert not error[rows:].any(), name


def test_what_has_not_changed_takes_no_room(trained: CarpModel, encoder: str, tmp_path: Path) -> None:
    save_compact(trained, encoder, tmp_path / "compact")
    names = {name for name in load_file(tmp_path / "compact" / COMPACT) if "word_embeddings" in name}
    assert names == {f"{side}_tower.encoder.embeddings.word_embeddings.weight|rows" for side in ("passage", "critique")}
    assert not list((tmp_path / "compact").rglob("*tokenizer*"))


def test_a_compact_checkpoint_scores_in_other_precisions(trained: CarpModel, encoder: str, tmp_path: Path) -> None:
    save_compact(trained, encoder, tmp_path / "compact")
    expected = carp.score(TEXTS, ["Dull.", "Lively!"], model=trained)
    for precision, error in (("float32", 0.05), ("bfloat16", 0.1), ("int8", 0.1)):
        model = carp.load(tmp_path / "compact", precision=precision)
        assert abs(carp.score(TEXTS, ["Dull.", "Lively!"], model=model) - expected).max() < error


def test_a_loaded_one_is_saved_whole(trained: CarpModel, encoder: str, tmp_path: Path) -> None:
    save_compact(trained, encoder, tmp_path / "compact")
    loaded = CarpModel.from_pretrained(tmp_path / "compact")
    loaded.save_pretrained(tmp_path / "whole")
    again = CarpModel.from_pretrained(tmp_path / "whole")
    assert torch.equal(again.encode_passages(TEXTS), loaded.encode_passages(TEXTS))


def test_two_models_in_one_folder_are_refused(trained: CarpModel, encoder: str, tmp_path: Path) -> None:
    save_compact(trained, encoder, tmp_path / "both")
    trained.save_pretrained(tmp_path / "both")
    with pytest.raises(InputError, match=r"holds two models, model\.safetensors and model-compact\.safetensors"):
        CarpModel.from_pretrained(tmp_path / "both")


def test_another_encoder_under_the_same_name_is_refused(trained: CarpModel, encoder: str, tmp_path: Path) -> None:
    save_compact(trained, encoder, tmp_path / "compact")
    weights = Path(encoder) / "model.safetensors"
    changed = load_file(weights)
    changed["embeddings.LayerNorm.bias"] += 1
    save_file(changed, weights, {"format": "pt"})
    with pytest.raises(InputError, match=r"these are others"):
        CarpModel.from_pretrained(tmp_path / "compact")


def test_a_missing_encoder_is_one_line(trained: CarpModel, encoder: str, tmp_path: Path) -> None:
    save_compact(trained, encoder, tmp_path / "compact")
    Path(encoder).rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"cannot load the encoder"):
        CarpModel.from_pretrained(tmp_path / "compact")


def test_an_encoder_of_another_shape_is_refused(model: CarpModel, encoder: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has the shape .* name its encoder"):
        save_compact(model, encoder, tmp_path / "compact")
    assert not (tmp_path / "compact").exists()
