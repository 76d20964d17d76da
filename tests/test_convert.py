"""Checkpoints of the paper's own code: converted exactly, and nothing but tensors is ever loaded."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

import carp
from carp.cli.main import main
from carp.data.pairs import read_pairs
from carp.errors import InputError
from carp.model import encoders
from carp.model.convert import convert_checkpoint

WIDTH, DIM, CONTEXT, LOGIT_SCALE = 64, 20, 40, 2.5
STORY = "[quote] It was raining. John took an umbrella."

State = dict[str, Tensor]


@pytest.fixture(scope="module")
def plain_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tokenizer of RoBERTa's form, saved; it does not know ``[quote]``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoders, "with_quote_token", lambda tokenizer: tokenizer)
        texts = (text for pair in read_pairs("sample") for text in pair[:2])
        plain = encoders.train_tokenizer(texts, 600, CONTEXT)
    assert "[quote]" not in plain.get_vocab()
    folder = tmp_path_factory.mktemp("tokenizer")
    plain.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def plain_tokenizer(plain_folder: str) -> PreTrainedTokenizerBase:
    return PreTrainedTokenizerFast.from_pretrained(plain_folder)


@pytest.fixture(scope="module")
def old_encoders(plain_tokenizer: PreTrainedTokenizerBase) -> tuple[RobertaModel, RobertaModel]:
    """Encoders of passages (two layers) and critiques (three) with poolers, as the paper's code had them."""
    torch.manual_seed(0)

    def made(layers: int) -> RobertaModel:
        config = RobertaConfig(
            vocab_size=len(plain_tokenizer) + 1,
            hidden_size=WIDTH,
            num_hidden_layers=layers,
            num_attention_heads=1,
            intermediate_size=96,
            max_position_embeddings=CONTEXT + 2,
            type_vocab_size=1,
            layer_norm_eps=1e-5,
            initializer_range=0.2,
        )
        return RobertaModel(config, add_pooling_layer=True).eval()

    return made(2), made(3)


@pytest.fixture
def state(old_encoders: tuple[RobertaModel, RobertaModel]) -> State:
    found: State = {"logit_scale": torch.tensor(LOGIT_SCALE)}
    for letter, encoder in zip("AB", old_encoders, strict=True):
        found |= {f"enc{letter}.model.{name}": tensor for name, tensor in encoder.state_dict().items()}
        generator = torch.Generator().manual_seed(ord(letter))
        found[f"proj{letter}.weight"] = torch.randn(DIM, WIDTH, generator=generator)
    assert "encA.model.pooler.dense.weight" in found
    return found


@pytest.fixture
def old_file(state: State, tmp_path: Path) -> Path:
    torch.save(state, tmp_path / "CARP.pt")
    return tmp_path / "CARP.pt"


def ids_by_hand(tokenizer: PreTrainedTokenizerBase, text: str) -> Tensor:
    """Token ids where ``[quote]`` is the one token behind the old vocabulary."""
    ids: list[int] = []
    for i, part in enumerate(text.split("[quote]")):
        ids += [len(tokenizer)] * (i > 0) + tokenizer(part, add_special_tokens=False)["input_ids"]
    return torch.tensor([[tokenizer.bos_token_id, *ids[: CONTEXT - 2], tokenizer.eos_token_id]])


@torch.no_grad()
def embed_by_hand(encoder: RobertaModel, projection: Tensor, ids: Tensor) -> Tensor:
    """CARP, section 3: masked sum of the last states, L2, projection, L2."""
    states = encoder(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    return F.normalize(F.normalize(states.sum(dim=1), dim=-1) @ projection.T, dim=-1)[0]


def run_cli(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> int:
    monkeypatch.setattr(sys, "argv", ["carp", *map(str, words)])
    with pytest.raises(SystemExit) as caught:
        main()
    assert isinstance(caught.value.code, int)
    return caught.value.code


# -- what is converted -------------------------------------------------------------------------------------


def test_embeddings_are_those_of_a_hand_computation(
    old_file: Path,
    state: State,
    plain_folder: str,
    plain_tokenizer: PreTrainedTokenizerBase,
    old_encoders: tuple[RobertaModel, RobertaModel],
) -> None:
    model = convert_checkpoint(old_file, plain_folder).eval()
    texts = [STORY, "Two [quote] and [quote] one.", "Short.", "Long and longer, " * 30]
    sides = ((model.encode_passages, "A"), (model.encode_critiques, "B"))
    for (encode, letter), encoder in zip(sides, old_encoders, strict=True):
        by_hand = [
            embed_by_hand(encoder, state[f"proj{letter}.weight"], ids_by_hand(plain_tokenizer, text)) for text in texts
        ]
        torch.testing.assert_close(encode(texts), torch.stack(by_hand), rtol=0, atol=1e-5)


def test_configuration_and_logit_scale_are_read_from_the_tensors(old_file: Path, plain_folder: str) -> None:
    model = convert_checkpoint(old_file, plain_folder)
    config = model.config
    assert model.logit_scale.item() == LOGIT_SCALE
    assert (config.passage_config.num_hidden_layers, config.critique_config.num_hidden_layers) == (2, 3)
    assert (config.max_passage_tokens, config.max_critique_tokens) == (CONTEXT, CONTEXT)
    assert (config.projection_dim, config.pooling, config.passage_config.hidden_size) == (
        DIM,
        "masked_sum",
        WIDTH,
    )
    assert not any("pooler" in name for name, _ in model.named_parameters())


def test_the_quote_token_is_the_last_of_the_vocabulary(old_file: Path, plain_folder: str) -> None:
    model = convert_checkpoint(old_file, plain_folder)
    for side in ("passage", "critique"):
        tokenizer = model.tokenizer(side)
        assert tokenizer.convert_tokens_to_ids("[quote]") == model.config.passage_config.vocab_size - 1
        assert tokenizer("[quote]")["input_ids"][1:-1] == [len(tokenizer) - 1]


def without_prefix(state: State) -> State:
    return {name.replace(".model.", ".model.roberta."): tensor for name, tensor in state.items()}


def with_buffers_and_head(state: State) -> State:
    extra = {
        "encA.model.embeddings.position_ids": torch.arange(CONTEXT + 2)[None],
        "encB.model.embeddings.token_type_ids": torch.zeros(1, CONTEXT + 2, dtype=torch.long),
        "encA.model.lm_head.bias": torch.zeros(3),
    }
    return state | extra


def with_scale_of_one_dimension(state: State) -> State:
    return state | {"logit_scale": torch.tensor([LOGIT_SCALE])}


@pytest.mark.parametrize("change", [without_prefix, with_buffers_and_head, with_scale_of_one_dimension])
def test_variants_of_the_old_form_convert_to_the_same_model(
    state: State, old_file: Path, plain_folder: str, tmp_path: Path, change: Callable[[State], State]
) -> None:
    torch.save(change(state), tmp_path / "variant.pt")
    expected = convert_checkpoint(old_file, plain_folder).state_dict()
    found = convert_checkpoint(tmp_path / "variant.pt", plain_folder).state_dict()
    assert found.keys() == expected.keys()
    assert [name for name in found if not torch.equal(found[name], expected[name])] == []


def test_the_command_writes_a_checkpoint_that_scores_alike(
    old_file: Path,
    plain_folder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "converted"
    assert run_cli(monkeypatch, "convert", old_file, out, "--tokenizer", plain_folder) == 0
    assert capsys.readouterr() == (f"written: {out}\n", "")
    expected = carp.score(STORY, model=convert_checkpoint(old_file, plain_folder))
    assert carp.score(STORY, model=carp.load(out, device="cpu")) == pytest.approx(expected, abs=1e-5)


# -- what is refused ---------------------------------------------------------------------------------------


class SideEffect:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (self.folder,)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("saved_by", ["torch", "torch-legacy", "pickle"])
@pytest.mark.parametrize("hidden_in", ["alone", "state"])
def test_a_pickle_of_objects_is_refused_and_not_executed(
    state: State, plain_folder: str, tmp_path: Path, saved_by: str, hidden_in: str
) -> None:
    effect = SideEffect(tmp_path / "executed")
    content = effect if hidden_in == "alone" else {**state, "encA.model.extra": effect}
    path = tmp_path / "evil.pt"
    if saved_by == "pickle":
        path.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=saved_by == "torch")
    with pytest.raises(InputError, match=r"evil\.pt: holds something else than tensors.*it was not loaded"):
        convert_checkpoint(path, plain_folder)
    assert not (tmp_path / "executed").exists()
    # The file would have done it.
    torch.load(path, weights_only=False) if saved_by != "pickle" else pickle.loads(path.read_bytes())
    assert (tmp_path / "executed").is_dir()


@pytest.mark.parametrize("wrap", [lambda module: module, lambda module: {"model": module}], ids=["whole", "inside"])
def test_a_pickled_module_is_refused(plain_folder: str, tmp_path: Path, wrap: Callable[[nn.Module], object]) -> None:
    torch.save(wrap(nn.Linear(2, 2)), tmp_path / "module.pt")
    with pytest.raises(InputError, match=r"holds something else than tensors.*save model\.state_dict\(\)"):
        convert_checkpoint(tmp_path / "module.pt", plain_folder)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param([torch.zeros(2)], id="list"),
        pytest.param(torch.zeros(2), id="tensor"),
        pytest.param({"model": {"a": torch.zeros(2)}}, id="nested"),
        pytest.param({"step": 3}, id="number"),
    ],
)
def test_tensors_in_another_form_are_refused(plain_folder: str, tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "old.pt")
    with pytest.raises(InputError, match=r"no state dict of tensors; save model\.state_dict\(\)"):
        convert_checkpoint(tmp_path / "old.pt", plain_folder)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: b"plain text", id="text"),
        pytest.param(lambda data: data[: len(data) // 2], id="half"),
        pytest.param(lambda data: data[: len(data) // 2] + data[len(data) // 2 + 64 :], id="hole"),
        pytest.param(lambda data: b"\x80\x02" + data, id="shifted"),
        pytest.param(lambda data: b"\x1f\x8b" + data[2:], id="other-magic"),
        pytest.param(lambda data: b"PK\x03\x04", id="zip-magic-only"),
    ],
)
def test_a_damaged_file_is_refused(old_file: Path, plain_folder: str, damage: Callable[[bytes], bytes]) -> None:
    old_file.write_bytes(damage(old_file.read_bytes()))
    with pytest.raises(InputError, match=r"CARP\.pt: "):
        convert_checkpoint(old_file, plain_folder)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("projA.weight", "it has no projA.weight"),
        ("projB.weight", "it has no projB.weight"),
        ("logit_scale", "it has no logit_scale"),
        ("encA.model.embeddings.word_embeddings.weight", "passage encoder is no RoBERTa"),
        ("encB.model.embeddings.position_embeddings.weight", "critique encoder is no RoBERTa"),
        ("encB.model.encoder.layer.0.intermediate.dense.weight", "critique encoder is no RoBERTa"),
        (
            "encA.model.encoder.layer.1.output.dense.bias",
            "lacks passage_tower.encoder.encoder.layer.1.output.dense.bias",
        ),
    ],
)
def test_a_missing_key_is_named(state: State, plain_folder: str, tmp_path: Path, name: str, message: str) -> None:
    del state[name]
    torch.save(state, tmp_path / "old.pt")
    with pytest.raises(InputError) as caught:
        convert_checkpoint(tmp_path / "old.pt", plain_folder)
    assert "no checkpoint of the paper's code" in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("encA.model.encoder.layer.1.output.dense.bias", torch.zeros(WIDTH + 1)),
        ("projB.weight", torch.zeros(DIM + 1, WIDTH)),
        ("projA.weight", torch.zeros(DIM, WIDTH + 1)),
        ("projA.weight", torch.tensor(1.0)),
        ("logit_scale", torch.zeros(3)),
        ("encA.model.embeddings.word_embeddings.weight", torch.zeros(3)),
        ("something.else", torch.zeros(3)),
    ],
)
def test_a_tensor_of_another_shape_or_name_is_refused_in_one_line(
    state: State, plain_folder: str, tmp_path: Path, name: str, tensor: Tensor
) -> None:
    torch.save(state | {name: tensor}, tmp_path / "old.pt")
    with pytest.raises(InputError, match="no checkpoint of the paper's code") as caught:
        convert_checkpoint(tmp_path / "old.pt", plain_folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("side", ["A", "B"])
def test_another_vocabulary_is_refused_with_both_sizes(
    state: State, plain_folder: str, plain_tokenizer: PreTrainedTokenizerBase, tmp_path: Path, side: str
) -> None:
    name = f"enc{side}.model.embeddings.word_embeddings.weight"
    torch.save(state | {name: state[name][:-1]}, tmp_path / "old.pt")
    expected = (
        f"its {'passage' if side == 'A' else 'critique'} encoder knows {len(plain_tokenizer)} tokens, "
        f"the tokenizer {plain_folder!r} with [quote] {len(plain_tokenizer) + 1}: name the right one with "
        "--tokenizer"
    )
    with pytest.raises(InputError) as caught:
        convert_checkpoint(tmp_path / "old.pt", plain_folder)
    assert expected in str(caught.value)


def test_a_tokenizer_that_cannot_be_loaded_is_named(old_file: Path) -> None:
    with pytest.raises(InputError, match="cannot load the tokenizer 'nobody/nothing'"):
        convert_checkpoint(old_file, "nobody/nothing")


@pytest.mark.parametrize("name", ["none.pt", "."])
def test_a_missing_file_is_named(plain_folder: str, name: str) -> None:
    with pytest.raises(InputError, match="no such file"):
        convert_checkpoint(name, plain_folder)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("missing", "no such file"),
        ("evil", "holds something else than tensors"),
        ("module", "holds something else than tensors"),
        ("key", "it has no projA.weight"),
        ("shape", "no checkpoint of the paper's code"),
        ("vocabulary", "name the right one with --tokenizer"),
        ("existing", "exists already: name a new folder"),
    ],
)
def test_the_command_ends_with_2_and_one_line_and_writes_nothing(
    state: State,
    plain_folder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    case: str,
    message: str,
) -> None:
    word = "encA.model.embeddings.word_embeddings.weight"
    contents = {
        "evil": SideEffect(tmp_path / "executed"),
        "module": nn.Linear(2, 2),
        "key": {name: tensor for name, tensor in state.items() if name != "projA.weight"},
        "shape": state | {"projB.weight": torch.zeros(DIM + 1, WIDTH)},
        "vocabulary": state | {word: state[word][:-1]},
        "existing": state,
    }
    old, out = tmp_path / "old.pt", tmp_path / "results" / "out"
    out.parent.mkdir()
    if case != "missing":
        torch.save(contents[case], old)
    if case == "existing":
        out.mkdir()
    assert run_cli(monkeypatch, "convert", old, out, "--tokenizer", plain_folder) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("carp: ")
    assert printed.err.count("\n") == 1
    assert message in printed.err
    assert list(out.parent.iterdir()) == ([out] if case == "existing" else [])
    assert not out.exists() or not list(out.iterdir())
    assert not (tmp_path / "executed").exists()
