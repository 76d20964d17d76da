"""Finetuning language models on pairs: packing, gradients, runs that learn, stop and continue."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState, GradientState, PartialState
from conftest import REPOSITORY
from hypothesis import given
from hypothesis import strategies as st
from language_models import END, small_language_model
from safetensors.torch import load_file
from training_runs import finish

from carp.config import DataSettings
from carp.errors import CarpError, InputError
from carp.evaluation.evaluators import make_evaluator
from carp.evaluation.language import finetuning, training_model
from carp.evaluation.language.finetuning import finetune
from carp.evaluation.language.generation import generate_critiques
from carp.evaluation.language.loading import LanguageModel, load_language_model
from carp.evaluation.language.packing import Windows, fill_windows, pack_pairs
from carp.evaluation.language.training_config import FinetuneConfig, load_finetune_config
from carp.training.checkpoints import Checkpoints
from carp.training.interruption import Interruption
from carp.training.metrics import read_metrics

CONTEXT = 96
PAIRS = [
    {
        "passage": f"The {animal} sat on the {place}. Nobody came.",
        "critique": f"Why a {animal}? It drags.",
        "group": place,
    }
    for place in ("mat", "wall", "roof", "hill", "chair", "moon")
    for animal in ("cat", "dog", "old grey owl", "goose", "fox")
]


@pytest.fixture(autouse=True)
def fresh_accelerator() -> Iterator[None]:
    yield
    AcceleratorState._reset_state()
    PartialState._reset_state()
    GradientState._reset_state()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_language_model(tmp_path_factory.mktemp("language") / "model", CONTEXT)


@pytest.fixture(scope="module")
def language(folder: Path) -> LanguageModel:
    return load_language_model(str(folder))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pairs") / "pairs.jsonl"
    path.write_text("".join(json.dumps(pair) + "\n" for pair in PAIRS), encoding="utf-8")
    return path


def words(folder: Path, pairs: Path, output: Path, *more: str) -> list[str]:
    return [
        f"model.checkpoint={folder}",
        f"data.train={pairs}",
        f"data.cache={output.parent / 'cache'}",
        "data.validation_pairs=5",
        f"train.output={output}",
        "train.steps=8",
        "train.batch_size=4",
        f"train.tokens_per_chunk={2 * CONTEXT}",
        "train.lr=1e-2",
        "train.precision=no",
        "train.gradient_checkpointing=false",
        "train.evaluate_every=4",
        "train.save_every=3",
        *more,
    ]


def config(folder: Path, pairs: Path, output: Path, *more: str, lora: int = 0) -> FinetuneConfig:
    return load_finetune_config("finetune_gptj", words(folder, pairs, output, *more), None, lora)


# -- packing ------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 50), max_size=300))
def test_texts_share_windows_in_whole(lengths: list[int]) -> None:
    windows = fill_windows(lengths, 50)
    assert sorted(place for texts in windows for place in texts) == list(range(len(lengths)))
    sizes = [sum(lengths[place] for place in texts) for texts in windows]
    assert all(0 < size <= 50 for size in sizes)
    assert sum(size <= 25 for size in sizes) <= 1  # two half-empty ones would have been one
    assert len(windows) <= 2 * sum(lengths) / 50 + 1


def test_windows_are_nearly_full() -> None:
    lengths = np.random.default_rng(0).integers(20, 900, 3000).tolist()
    windows = fill_windows(lengths, 2048)
    assert sum(lengths) / (2048 * len(windows)) > 0.97


def unpacked(language: LanguageModel, windows: Windows) -> list[str]:
    texts = []
    for row, length in zip(windows.tokens, windows.lengths, strict=True):
        assert (row[length:] == language.end).all()
        texts += language.tokenizer.decode(row[:length].tolist()).split(END)[:-1]
    return texts


def test_every_pair_is_in_a_window_in_the_papers_form(language: LanguageModel, pairs: Path, tmp_path: Path) -> None:
    data = DataSettings(train=str(pairs), validation_pairs=5)
    windows = pack_pairs(data, language, CONTEXT, seed=0, cache=tmp_path)
    held = {(pair.passage, pair.critique) for pair in windows.validation}
    assert len(held) == 5
    assert len({pair.group for pair in windows.validation}) == 1
    groups = {pair.group for pair in windows.validation}
    expected = [f"Passage: {p['passage']}\n\nCritique: {p['critique']}\n" for p in PAIRS if p["group"] not in groups]
    found = unpacked(language, windows)
    assert sorted(found) == sorted(expected)
    assert found != expected  # in random order
    assert windows.info["pairs"] == len(expected)
    assert windows.info["tokens"] == windows.lengths.sum()
    again = pack_pairs(data, language, CONTEXT, seed=0, cache=tmp_path)
    assert (again.tokens == windows.tokens).all()
    assert len(list((tmp_path / "windows").iterdir())) == 1  # opened, not made once more
    other = pack_pairs(data, language, CONTEXT, seed=1, cache=tmp_path)
    assert unpacked(language, other) != found


def test_the_filling_is_no_target(language: LanguageModel, pairs: Path, tmp_path: Path) -> None:
    windows = pack_pairs(DataSettings(train=str(pairs), validation_pairs=5), language, CONTEXT, 0, tmp_path)
    rows = np.array([2, 0])
    ids, labels = windows.batch(rows)
    assert windows.targets(rows) == int((labels[:, 1:] != -100).sum())
    for row, tokens, target in zip(rows, ids, labels, strict=True):
        length = windows.lengths[row]
        assert tokens.tolist() == windows.tokens[row].tolist()
        assert target.tolist() == [*tokens[:length].tolist(), *[-100] * (CONTEXT - length)]
        assert target[length - 1] == language.end  # the end of a text is one


def test_a_long_passage_loses_its_end_and_keeps_its_critique(language: LanguageModel, tmp_path: Path) -> None:
    long = " ".join(f"Then {i} birds came." for i in range(60))
    path = tmp_path / "pairs.jsonl"
    rows = [
        {"passage": long, "critique": "This kind of drags on."},
        {"passage": "Short, but a passage.", "critique": long},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, PAIRS[0]]), encoding="utf-8")
    (tmp_path / "validation.jsonl").write_text(json.dumps(PAIRS[1]) + "\n")
    data = DataSettings(train=str(path), validation=str(tmp_path / "validation.jsonl"))
    windows = pack_pairs(data, language, CONTEXT, 0, tmp_path)
    assert windows.info["passages_cut"] == windows.info["critiques_cut"] == 1
    second, first = sorted(text for text in unpacked(language, windows) if "birds" in text)
    assert re.fullmatch(r"Passage: Short, but a passage\.\n\nCritique: Then 0 birds.*", second, re.DOTALL)
    passage = re.fullmatch(r"Passage: (.*)\n\nCritique: This kind of drags on\.\n", first, re.DOTALL)
    assert passage is not None
    assert long.startswith(passage[1])
    assert max(windows.lengths) > CONTEXT - 4


# -- runs ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(folder: Path, pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    output = tmp_path_factory.mktemp("finished") / "run"
    return finetune(config(folder, pairs, output))


def test_a_run_learns_and_leaves_a_model(finished: Path, folder: Path) -> None:
    records = read_metrics(finished / "metrics.jsonl")
    losses = [record["loss"] for record in records if "loss" in record]
    assert len(losses) == 8
    assert losses[0] == pytest.approx(math.log(700), rel=0.1)  # nothing is known at first
    assert losses[-1] < 0.8 * losses[0]
    perplexities = {r["step"]: r["validation_perplexity"] for r in records if "validation_perplexity" in r}
    assert list(perplexities) == [0, 4, 8]
    assert perplexities[8] < perplexities[0]
    language = load_language_model(str(finished))
    assert len(generate_critiques(language, ["The cat sat."], number=1, max_tokens=4)[0]) == 1
    better, before = (
        make_evaluator(f"finetuned:{model}", {}).scores([PAIRS[0]["passage"]], [PAIRS[0]["critique"]], False)
        for model in (finished, folder)
    )
    assert better > before + 0.1
    card = (finished / "README.md").read_text()
    assert f"| 8 | {perplexities[8]:.4f} |" in card
    assert not list(finished.glob(".*"))


def test_the_validation_perplexity_is_what_the_evaluator_gives(finished: Path, folder: Path, pairs: Path) -> None:
    language = load_language_model(str(folder))
    windows = pack_pairs(
        config(folder, pairs, finished).data,
        language,
        CONTEXT,
        0,
        Path(config(folder, pairs, finished).data.cache or ""),
    )
    evaluator = make_evaluator(f"finetuned:{folder}", {})
    scores = [float(evaluator.scores([p.passage], [p.critique], False)[0, 0]) for p in windows.validation]
    sizes = [len(pair.critique.encode()) for pair in windows.validation]
    expected = math.exp(-np.dot(scores, sizes) / sum(sizes))
    found = read_metrics(finished / "metrics.jsonl")[0]["validation_perplexity"]
    assert found == pytest.approx(expected, rel=1e-5)


def test_parts_of_a_step_give_the_gradient_of_the_whole(folder: Path, pairs: Path, tmp_path: Path) -> None:
    """GPT-2's dropout is off: each part would draw its own."""
    changed = tmp_path / "model"
    no_dropout(folder, changed)
    results = []
    for windows in (1, 3, 4):  # one by one, two uneven parts, all at once
        output = tmp_path / f"run{windows}"
        finetune(config(changed, pairs, output, f"train.tokens_per_chunk={windows * CONTEXT}", "train.steps=3"))
        AcceleratorState._reset_state()
        GradientState._reset_state()
        records = [record for record in read_metrics(output / "metrics.jsonl") if "loss" in record]
        results.append([(record["loss"], record["gradient_norm"]) for record in records])
    for other in results[1:]:
        assert np.array(other) == pytest.approx(np.array(results[0]), rel=1e-4)


def no_dropout(folder: Path, target: Path) -> None:
    target.mkdir()
    for path in folder.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    settings = json.loads((target / "config.json").read_text())
    settings |= dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.0)
    (target / "config.json").write_text(json.dumps(settings))


def interrupt_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = iter(range(1, 100))
    monkeypatch.setattr(Interruption, "agreed", lambda self: next(asked) == steps)


def test_an_interrupted_run_ends_with_the_same_bytes(
    finished: Path, folder: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "run"
    with monkeypatch.context() as patched:
        interrupt_after(5, patched)
        with pytest.raises(CarpError, match=r"interrupted after step 5 of 8; .* --resume"):
            finetune(config(folder, pairs, output))
    assert Checkpoints(output, 2).steps()[-1] == 5
    finetune(config(folder, pairs, output, "train.resume=auto"))
    assert (output / "model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()
    assert [r["step"] for r in read_metrics(output / "metrics.jsonl") if "loss" in r] == list(range(1, 9))


def test_adapters_are_trained_resumed_and_merged(
    folder: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("peft", reason="needs peft")
    finetune(config(folder, pairs, tmp_path / "whole", lora=4))
    with monkeypatch.context() as patched:
        interrupt_after(5, patched)
        with pytest.raises(CarpError, match="interrupted after step 5"):
            finetune(config(folder, pairs, tmp_path / "parts", lora=4))
    checkpoint = Checkpoints(tmp_path / "parts", 2).path(5)
    assert (checkpoint / "adapter_model.safetensors").exists()
    assert not (checkpoint / "model.safetensors").exists()
    finetune(config(folder, pairs, tmp_path / "parts", "train.resume=auto", lora=4))
    whole, parts, before = (
        load_file(path / "model.safetensors") for path in (tmp_path / "whole", tmp_path / "parts", folder)
    )
    assert whole.keys() == parts.keys() == before.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    changed = {name.split(".")[-2] for name in whole if not torch.equal(whole[name], before[name])}
    assert changed == {"c_attn", "c_proj", "c_fc"}
    records = read_metrics(tmp_path / "whole" / "metrics.jsonl")
    perplexities = [record["validation_perplexity"] for record in records if "validation_perplexity" in record]
    assert perplexities[-1] < perplexities[0]


def test_adapters_need_peft(folder: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_model.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=re.escape("--lora needs peft: pip install 'carp-critic[eval]'")):
        finetune(config(folder, pairs, tmp_path / "run", lora=4))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("options", [["train.precision=bf16"], ["train.gradient_checkpointing=true"]])
def test_options_train_to_a_finite_loss(folder: Path, pairs: Path, tmp_path: Path, options: list[str]) -> None:
    output = finetune(config(folder, pairs, tmp_path / "run", "train.steps=2", *options))
    assert all(math.isfinite(record["loss"]) for record in read_metrics(output / "metrics.jsonl") if "loss" in record)


def test_a_loss_that_is_none_stops_the_run(
    folder: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backward = finetuning.backward
    monkeypatch.setattr(
        finetuning, "backward", lambda run, rows: math.nan if run.state["step"] == 4 else backward(run, rows)
    )
    with pytest.raises(CarpError, match=r"stopped at step 5: the loss is nan.* last good checkpoint is .*step-000004"):
        finetune(config(folder, pairs, tmp_path / "run"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["train.batch_size=1000"], "windows of 96 tokens do not fill a batch of 1000: set train.batch_size to"),
        (["data.validation_pairs=1000"], "too few for data.validation_pairs=1000"),
        (["data.train=missing.jsonl"], "missing.jsonl: no such file"),
        (["model.checkpoint=missing"], "model.checkpoint missing: no such folder or file"),
        (
            [f"model.checkpoint={REPOSITORY / 'README.md'}"],
            "a GGUF file cannot be trained and saved; name a folder or a Hub id",
        ),
        (["train.lr=fast"], "train.lr"),
        (["train.pace=1"], "unknown key train.pace"),
        (["model.pooling=mean"], "model.pooling says nothing about a language model; leave it out"),
        (["train.keep_graphs=1"], "train.keep_graphs says nothing about a language model; leave it out"),
        (["model.checkpoint=null", "model.encoder=roberta-base"], "names no language model; add model.checkpoint="),
    ],
)
def test_unusable_input_is_refused_before_any_work(
    folder: Path, pairs: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        finetune(config(folder, pairs, tmp_path / "run", *options))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("context", "lora", "message"),
    [
        (200, 0, "--context 200: .* reads 96 tokens; give no more"),
        (20, 0, "tokens are left for the prompt and the story"),
        (1, 0, "--context 2 tokens or more"),
        (None, -1, "--lora takes a rank of 0 or more"),
    ],
)
def test_flags_out_of_range_are_refused(
    folder: Path, pairs: Path, tmp_path: Path, context: int | None, lora: int, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        finetune(load_finetune_config("finetune_gptj", words(folder, pairs, tmp_path / "run"), context, lora))
    assert not (tmp_path / "run").exists()


def test_a_run_is_neither_written_over_nor_continued_differently(finished: Path, folder: Path, pairs: Path) -> None:
    with pytest.raises(InputError, match="add --resume"):
        finetune(config(folder, pairs, finished))
    with pytest.raises(InputError, match=r"train\.lr=0\.01, not 0\.02"):
        finetune(config(folder, pairs, finished, "train.resume=auto", "train.lr=2e-2"))


def test_the_papers_model_is_the_default() -> None:
    found = load_finetune_config("finetune_gptj", [], None, 0)
    assert found.model.checkpoint == "EleutherAI/gpt-j-6b"
    assert found.train.batch_size == 32


# -- the script ---------------------------------------------------------------------------------------


def script(words: list[str], *launcher: str) -> list[str]:
    return [sys.executable, *launcher, str(REPOSITORY / "scripts" / "finetune_lm.py"), *words]


def test_the_script_shows_examples(capfd: pytest.CaptureFixture[str]) -> None:
    printed = finish(script(["--help"]), COLUMNS="120")
    assert "accelerate launch scripts/finetune_lm.py data.train=pairs.parquet" in printed
    assert "--lora 16" in printed
    assert "EleutherAI/gpt-j-6b" in printed


def losses_of(output: Path) -> Any:
    return np.array([(r["loss"], r["gradient_norm"]) for r in read_metrics(output / "metrics.jsonl") if "loss" in r])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "zero1", "zero2"])
def test_two_processes_compute_what_one_does(folder: Path, pairs: Path, tmp_path: Path, kind: str) -> None:
    changed = tmp_path / "model"
    no_dropout(folder, changed)
    printed = finish(script(words(changed, pairs, tmp_path / "one")))
    assert "done: " in printed
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    if kind != "ddp":
        pytest.importorskip("deepspeed", reason="needs the extra 'deepspeed'")
        file = str(REPOSITORY / "configs" / f"accelerate_{kind}.yaml")
        launcher = ["-m", "accelerate.commands.launch", "--config_file", file, "--num_processes", "2"]
    # Two windows per process, one at a time: both ways of dividing a step.
    finish(script(words(changed, pairs, tmp_path / "two", f"train.tokens_per_chunk={CONTEXT}"), *launcher))
    one, two = losses_of(tmp_path / "one"), losses_of(tmp_path / "two")
    assert two == pytest.approx(one, rel=1e-3)
    metrics = [read_metrics(tmp_path / name / "metrics.jsonl") for name in ("one", "two")]
    final = [[r["validation_perplexity"] for r in records if "validation_perplexity" in r][-1] for records in metrics]
    assert final[1] == pytest.approx(final[0], rel=1e-3)
    language = load_language_model(str(tmp_path / "two"))
    assert isinstance(language, LanguageModel)
