"""``carp report``: counts by hand, leakage of copied text, two data sets side by side, one line for bad input."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import typer
from conftest import PATIENCE, shared_data, tiny_config
from hub_imitation import HubImitation
from matplotlib.axes import Axes
from transformers import RobertaConfig, RobertaForSequenceClassification
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from carp.cli.main import run
from carp.cli.report import EXAMPLES, report_command
from carp.data.pairs import Pair
from carp.data.report import figures, sentiment, toxicity
from carp.data.report.collecting import HashSample, collect, text_hash
from carp.data.report.leakage import leakage
from carp.data.report.markdown import escape
from carp.data.report.report import Options, Report, write_report
from carp.data.report.sources import read_parts, source_names
from carp.data.report.statistics import lengths, share
from carp.errors import InputError

PNG = b"\x89PNG\r\n\x1a\n"
GOOD, BAD = "What a great and wonderful story!", "This is a horrible, boring and stupid mess."
ROWS = [
    {"passage": "The cat sat on the mat.", "critique": GOOD, "group": "a"},
    {"passage": "The cat sat on the mat.", "critique": BAD, "group": "a"},
    {"passage": "It was raining in Ulm.", "critique": "  what a GREAT and wonderful story! ", "group": "b"},
    {"passage": "It was raining in Ulm.", "critique": GOOD, "group": "b"},
    {"passage": "John took an umbrella.", "critique": BAD + " Really, it is bad.", "group": None},
]


def write_rows(path: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_prepared(folder: Path, train: list[dict[str, Any]], validation: list[dict[str, Any]]) -> Path:
    for part, rows in (("train", train), ("validation", validation)):
        (folder / part).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), folder / part / "00000.parquet")
    return folder


@pytest.fixture
def tokenizer_folder(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> str:
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    return str(tmp_path / "tokenizer")


@pytest.fixture
def classifier_folder(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> Callable[..., str]:
    """Makes a tiny classifier with given labels, whose first label always wins by a margin of four logits."""

    def make(*labels: str) -> str:
        torch.manual_seed(0)
        config = RobertaConfig.from_dict(tiny_config(len(tokenizer)).passage_config.to_dict())
        config.id2label = dict(enumerate(labels))
        model = RobertaForSequenceClassification(config)
        with torch.no_grad():
            model.classifier.out_proj.weight.zero_()
            model.classifier.out_proj.bias.copy_(torch.tensor([2.0] + [-2.0] * (len(labels) - 1)))
        folder = tmp_path / "-".join(["classifier", *labels])
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return str(folder)

    return make


@pytest.fixture
def options(tokenizer_folder: str, classifier_folder: Callable[..., str]) -> Options:
    """All figures, without any optional package but scikit-learn: every critique is negative and toxic."""
    pytest.importorskip("sklearn", reason="the leakage check needs scikit-learn (extra report)")
    return Options(
        tokenizer=tokenizer_folder,
        sentiment_model=classifier_folder("NEGATIVE", "POSITIVE"),
        toxicity_model=classifier_folder("toxic", "insult"),
    )


# -- statistics --------------------------------------------------------------------------------------------


def test_wilson_intervals_are_those_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is the reference (extra report)")
    for count, n in ((0, 10), (3, 10), (10, 10), (150, 1000)):
        expected = stats.binomtest(count, n).proportion_ci(method="wilson")
        assert share(count, n).interval == pytest.approx((expected.low, expected.high), abs=1e-6)
    assert share(0, 0).share is None


def test_lengths_by_hand_and_the_whiskers_leave_outliers_out() -> None:
    found = lengths(np.array([1, 2, 3, 4, 5, 100]))
    assert found is not None
    assert (found.n, found.minimum, found.median, found.maximum) == (6, 1, 3.5, 100)
    assert (found.q1, found.q3, found.whisker_low, found.whisker_high) == (2.25, 4.75, 1, 5)
    assert found.mean == pytest.approx(115 / 6)
    assert lengths(np.array([], np.int64)) is None


# -- counts ------------------------------------------------------------------------------------------------


def test_counts_by_hand(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    found = collect(write_rows(tmp_path / "pairs.jsonl"), tokenizer)
    sizes, passages, critiques = figures.sizes(found), figures.texts(found.passages), figures.texts(found.critiques)
    assert (sizes.pairs, sizes.groups, sizes.pairs_without_group, sizes.parts) == (5, 2, 1, {"all": 5})
    assert (passages.distinct.count, critiques.distinct.count) == (3, 3)
    assert list(found.critiques.words) == [6, 8, 6, 6, 12]
    assert passages.words is not None
    assert (passages.words.mean, passages.words.maximum) == (pytest.approx(26 / 5), 6)
    # the cat sat on mat | it was raining in ulm | john took an umbrella
    assert (passages.running_words, passages.vocabulary) == (6 + 5 + 4, 14)
    assert (passages.words_seen_once.count, passages.words_seen_once.n) == (13, 14)
    assert figures.frequent_critiques(found) == [(GOOD.replace("What", "what").replace("great", "GREAT"), 3)]


def test_duplicates_by_hand(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    found = figures.duplicates(collect(write_rows(tmp_path / "pairs.jsonl"), tokenizer))
    assert (found.repeated_pairs.count, found.repeated_pairs.n) == (1, 5)
    assert found.critiques_seen_before.count == 2
    assert found.critiques_of_several_passages.count == 3


def test_tokens_are_those_of_the_tokenizer_and_long_ones_are_cut(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    rows = [{"passage": "a" + " a" * n, "critique": "Fine."} for n in (509, 510, 700)]
    found = collect(write_rows(tmp_path / "pairs.jsonl", rows), tokenizer)
    assert list(found.passages.tokens) == [512, 513, 703]  # <s> and </s> included
    assert figures.texts(found.passages).cut_at_512.count == 2
    assert found.critiques.tokens[0] == len(tokenizer("Fine.")["input_ids"])


def test_samples_are_the_same_in_any_order() -> None:
    pairs = [Pair(f"passage {n}", f"critique {n}", None) for n in range(50)]
    first, second = HashSample(7), HashSample(7)
    for pair in pairs:
        first.offer(text_hash(pair.critique), pair)
    for pair in reversed(pairs):
        second.offer(text_hash(pair.critique), pair)
    assert first.pairs() == second.pairs()
    assert len(set(first.pairs())) == 7


def test_a_prepared_folder_is_read_part_by_part(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    folder = write_prepared(tmp_path / "prepared", ROWS[:3], ROWS[3:])
    assert [part for part, _ in read_parts(folder)] == ["train"] * 3 + ["validation"] * 2
    found = collect(folder, tokenizer)
    part, pairs = found.rivals()
    assert (part, sorted(pair.critique for pair in pairs)) == ("validation", sorted(r["critique"] for r in ROWS[3:]))
    overlap = figures.overlap(found)
    assert overlap is not None
    assert (overlap.passage.count, overlap.critique.count, overlap.group.count) == (1, 1, 1)
    assert (overlap.passage.n, overlap.group.n) == (2, 1)  # one pair has no group


def test_names_of_data_sets() -> None:
    assert source_names(["data/one.jsonl.gz", "two/"]) == ["one", "two"]
    assert source_names(["a/pairs.csv", "b/pairs.csv"]) == ["a/pairs.csv", "b/pairs.csv"]


# -- leakage -----------------------------------------------------------------------------------------------

WORDS = ["apple", "river", "stone", "candle", "winter", "ladder", "mirror", "engine", "garden", "helmet"]


def copied(n: int) -> list[Pair]:
    return [Pair(f"There was {WORDS[i]} in the house.", f"I like how {WORDS[i]} was used.", None) for i in range(n)]


def test_copied_words_leak_and_masked_ones_do_not() -> None:
    pytest.importorskip("sklearn", reason="the leakage check needs scikit-learn (extra report)")
    leaking = leakage("all", copied(10))
    masked = leakage("all", [pair._replace(critique="I like how [quote] was used.") for pair in copied(10)])
    assert leaking is not None
    assert masked is not None
    assert (leaking.top1.value, leaking.mean_reciprocal_rank.value) == (1, 1)
    # Nothing tells the critiques apart: exactly chance, not luck.
    assert masked.top1.value == masked.top1.chance == pytest.approx(0.1)
    assert masked.top5.value == masked.top5.chance == pytest.approx(0.5)
    assert masked.mean_reciprocal_rank.value == pytest.approx(sum(1 / r for r in range(1, 11)) / 10)
    assert leaking.top1.interval == (1, 1)


def test_critiques_of_one_group_or_passage_are_no_rivals() -> None:
    pytest.importorskip("sklearn", reason="the leakage check needs scikit-learn (extra report)")
    # The critiques of the first three pairs are interchangeable; as rivals, they would halve the rates.
    same = [Pair("There was apple.", f"apple {word}", None) for word in ("one", "two", "three")]
    found = leakage("all", same + copied(6)[1:])
    assert found is not None
    assert (found.top1.value, found.groups) == (1, 6)
    assert found.mean_rivals == pytest.approx((3 * 5 + 5 * 7) / 8)
    grouped = leakage("all", [pair._replace(group="g") for pair in copied(3)])
    assert grouped is None


def test_texts_without_words_are_at_chance() -> None:
    pytest.importorskip("sklearn", reason="the leakage check needs scikit-learn (extra report)")
    found = leakage("all", [Pair("!" * n, "?", None) for n in range(1, 5)])
    assert found is not None
    assert found.top1.value == found.top1.chance == 0.25


# -- sentiment and toxicity --------------------------------------------------------------------------------


def test_vader_tells_praise_from_complaint() -> None:
    pytest.importorskip("vaderSentiment", reason="VADER is optional (extra report)")
    found, negatives = sentiment.measure(sentiment.find_scorer("vader"), [GOOD, BAD, "", "It is bad."], False)
    assert negatives == [BAD, "It is bad."]
    assert (found.positive.count, found.near_zero.count) == (2, 1)
    assert found.negative_words is not None
    assert found.negative_words.mean == 5.5


def test_profanity_check_finds_insults_and_says_what_it_is() -> None:
    pytest.importorskip("profanity_check", reason="alt-profanity-check is optional (extra report)")
    scorer = toxicity.find_scorer("alt-profanity-check")
    assert (scorer.scale_of_detoxify, "unpickles" in scorer.note) == (False, True)
    found = toxicity.measure(scorer, ["The pacing drags.", "You stupid fucking idiot."], 0.5, False)
    assert found["offensive"].above_threshold.count == 1


def test_a_local_classifier_is_used(classifier_folder: Callable[..., str]) -> None:
    scorer = sentiment.find_scorer(classifier_folder("NEGATIVE", "POSITIVE"))
    margin = np.tanh(2)  # of two probabilities whose logits are 4 apart
    assert scorer.score([GOOD, "x " * 500, ""], False) == pytest.approx(-margin, abs=1e-5)
    offence = toxicity.find_scorer(classifier_folder("insult", "toxic", "threat"))
    assert offence.score is not None
    found = offence.score([BAD, GOOD], False)
    high, low = 1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2))
    assert found["insult"] == pytest.approx([high, high], abs=1e-5)
    assert found["toxicity"] == pytest.approx([low, low], abs=1e-5)
    assert set(found) == {"toxicity", "insult"}


FIND = "import json, sys; from carp.data.report.sentiment import find_scorer; found = find_scorer(sys.argv[1])\n"
FIND += "print(json.dumps([found.name, found.score(['a b'], False).tolist()]))"


def find_scorer_with(url: str, home: Path, name: str = "") -> tuple[str, list[float]]:
    """In a process of its own: huggingface_hub reads the Hub's address when it is imported."""
    environment = {**os.environ, "HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", FIND, name],
        capture_output=True,
        text=True,
        env=environment,
        timeout=PATIENCE,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return found[0], found[1]


def test_a_classifier_comes_from_the_hub_then_from_the_cache(
    classifier_folder: Callable[..., str], tmp_path: Path
) -> None:
    pytest.importorskip("vaderSentiment", reason="VADER is optional (extra report)")
    folder = Path(classifier_folder("NEGATIVE", "POSITIVE"))
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    hub = HubImitation()
    hub.repositories[sentiment.NAMES[0]] = {"main": {**files, "pytorch_model.bin": b"pickled"}}
    online, score = find_scorer_with(hub.url, tmp_path / "home")
    hub.stop()
    assert online.startswith(f"{sentiment.NAMES[0]} @ ")
    assert score == pytest.approx([-np.tanh(2)], abs=1e-5)
    assert hub.asked("GET", ".*/model.safetensors")
    assert not [asked for asked in hub.requests if "pytorch_model.bin" in asked.path]
    assert find_scorer_with(hub.url, tmp_path / "home") == (online, score)
    assert find_scorer_with(hub.url, tmp_path / "empty")[0].startswith("VADER")


def test_without_a_hub_the_fallback_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("vaderSentiment", reason="VADER is optional (extra report)")
    monkeypatch.setattr("carp.data.report.classifier.try_to_load_from_cache", lambda *_: None)
    scorer = sentiment.find_scorer()
    assert scorer.name.startswith("VADER")
    assert "distilbert" in scorer.note


def test_without_any_toxicity_model_the_report_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carp.data.report.classifier.try_to_load_from_cache", lambda *_: None)
    monkeypatch.setitem(sys.modules, "profanity_check", None)
    scorer = toxicity.find_scorer()
    assert (scorer.name, toxicity.measure(scorer, [BAD], 0.01, False)) == ("none", {})
    assert "carp-critic[toxicity]" in scorer.note


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("vaderSentiment.vaderSentiment", "profanity_check", "sklearn.feature_extraction.text"):
        monkeypatch.setitem(sys.modules, module, None)
    for extra, use in (
        ("report", lambda: sentiment.find_scorer("vader")),
        ("toxicity", lambda: toxicity.find_scorer("alt-profanity-check")),
        ("report", lambda: leakage("all", copied(3))),
    ):
        with pytest.raises(InputError, match=rf"pip install 'carp-critic\[{extra}\]'"):
            use()


def test_classifiers_of_other_labels_are_refused(classifier_folder: Callable[..., str]) -> None:
    with pytest.raises(InputError, match=r"--sentiment-model .*: needs one label pos\.\.\., has 1 star, 2 stars"):
        sentiment.find_scorer(classifier_folder("1 star", "2 stars"))
    with pytest.raises(InputError, match=r"--toxicity-model .*: needs a label toxic or toxicity, has POSITIVE"):
        toxicity.find_scorer(classifier_folder("POSITIVE", "NEGATIVE"))


# -- the report --------------------------------------------------------------------------------------------


def test_a_report_holds_page_figures_and_plots(options: Options, tmp_path: Path) -> None:
    report = write_report(write_rows(tmp_path / "pairs.jsonl"), tmp_path / "out", options=options)
    assert sorted(os.listdir(tmp_path / "out")) == ["README.md", "lengths.png", "report.json", "sentiment.png"]
    assert all((tmp_path / "out" / name).read_bytes().startswith(PNG) for name in ("lengths.png", "sentiment.png"))
    text = (tmp_path / "out" / "README.md").read_text()
    assert "| pairs | 5 |" in text
    assert "100.0 % [56.6, 100.0], n = 5" in text
    figures_found = json.loads((tmp_path / "out" / "report.json").read_text())
    assert figures_found["data_sets"][0]["sizes"]["pairs"] == 5
    assert figures_found["data_sets"][0]["toxicity"]["insult"]["above_threshold"]["share"] == 1
    assert figures_found["options"]["threshold"] == 0.01
    assert report.data_sets[0].sentiment.negative.count == 5


def test_the_same_data_give_the_same_files(options: Options, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "pairs.jsonl")
    for name in ("one", "two"):
        write_report(source, tmp_path / name, options=options)
    for name in os.listdir(tmp_path / "one"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_the_order_of_the_data_changes_no_figure(options: Options, tmp_path: Path) -> None:
    def made(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
        (tmp_path / name).mkdir()
        report = write_report(write_rows(tmp_path / name / "pairs.jsonl", rows), tmp_path / name / "out", None, options)
        found = report.to_json()["data_sets"][0]
        return {key: found[key] for key in ("sizes", "passages", "critiques", "duplicates", "sentiment", "toxicity")}

    assert made(ROWS, "one") == made(ROWS[::-1], "two")


def test_two_data_sets_stand_side_by_side(options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("vaderSentiment", reason="VADER makes positive and negative ones (extra report)")
    boxes: list[dict[str, Any]] = []
    draw = Axes.bxp

    def spy(self: Axes, stats: list[dict[str, Any]], **how: Any) -> Any:
        assert how["showfliers"] is False
        boxes.extend(stats)
        return draw(self, stats, **how)

    monkeypatch.setattr(Axes, "bxp", spy)
    options = Options(options.tokenizer, sentiment_model="vader", toxicity_model=options.toxicity_model)
    one, two = write_rows(tmp_path / "one.jsonl"), write_rows(tmp_path / "two.jsonl", ROWS[:2])
    report = write_report(one, tmp_path / "out", two, options)
    assert [box["label"].split("\n")[:2] for box in boxes] == [
        [name, sign] for name in ("one", "two") for sign in ("positive", "negative")
    ]
    assert [data.sizes.pairs for data in report.data_sets] == [5, 2]
    tables = [line for line in (tmp_path / "out" / "README.md").read_text().splitlines() if line.startswith("|")]
    assert "| pairs | 5 | 2 |" in tables
    assert {line.replace(r"\|", "").count("|") for line in tables} == {4}


def test_critiques_cannot_break_the_page() -> None:
    assert escape("a|b\n<b>`x`</b> & ![i](j)") == r"a\|b \<b\>\`x\`\</b\> &amp; \!\[i\](j)"


# -- the command -------------------------------------------------------------------------------------------

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def report_cli(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: Options, tmp_path: Path
) -> Run:
    """Runs ``carp report WORDS...`` with a tiny tokenizer and tiny classifiers."""
    application = typer.Typer(pretty_exceptions_enable=False)
    application.command("report", epilog=EXAMPLES)(report_command)
    monkeypatch.chdir(tmp_path)
    models = ["--tokenizer", options.tokenizer]
    models += ["--sentiment-model", options.sentiment_model, "--toxicity-model", options.toxicity_model]

    def start(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["carp report", *models, *words])
        capsys.readouterr()  # what saving the models said
        with pytest.raises(SystemExit) as caught:
            run(application)
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return start


def test_the_command_writes_a_report(report_cli: Run, tmp_path: Path) -> None:
    write_rows(tmp_path / "pairs.jsonl")
    code, out, err = report_cli("pairs.jsonl", "--out", "quality")
    assert (code, err) == (0, "report: quality/README.md\n")
    assert out.startswith("pairs: 5 pairs; negative 100.0 % [56.6, 100.0], n = 5; top 1 by word overlap ")
    assert (tmp_path / "quality" / "report.json").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.jsonl", "--out", "new"], "missing.jsonl: no such file"),
        (["pairs.jsonl", "--out", "full"], "--out full: exists already; name a new folder"),
        (["pairs.jsonl", "--compare", "missing.csv", "--out", "new"], "missing.csv: no such file"),
        (["bad.jsonl", "--out", "new"], "bad.jsonl, row 2: no column 'critique' (columns: passage); rename"),
        (["full", "--out", "new"], "full: holds no train/*.parquet or validation/*.parquet, nor a saved"),
        (["silent.jsonl", "--out", "new"], "silent.jsonl: holds no pairs; its records have no comments"),
        (["pairs.jsonl", "--out", "new", "--sample", "0"], "--sample 0: give at least 1 critique"),
        (["pairs.jsonl", "--out", "new", "--leakage-pairs", "1"], "--leakage-pairs 1: give at least 2 pairs"),
        (["pairs.jsonl", "--out", "new", "--threshold", "nan"], "--threshold nan: give a number from 0"),
        (["pairs.jsonl", "--out", "new", "--toxicity-model", "no/model"], "no/model is no folder, not in the Hub's"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    report_cli: Run, tmp_path: Path, words: list[str], message: str
) -> None:
    write_rows(tmp_path / "pairs.jsonl")
    write_rows(tmp_path / "bad.jsonl", [ROWS[0], {"passage": "Only this."}])
    write_rows(tmp_path / "silent.jsonl", [{"story_id": "1", "story": "Nobody read it.", "comments": []}])
    (tmp_path / "full").mkdir()
    before = sorted(os.listdir(tmp_path))
    code, out, err = report_cli(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"carp: {message}")
    assert sorted(os.listdir(tmp_path)) == before


# -- real data ---------------------------------------------------------------------------------------------


def test_real_critiques(options: Options, tmp_path: Path) -> None:
    pytest.importorskip("vaderSentiment", reason="VADER is optional (extra report)")
    source = tmp_path / "critiques.jsonl"
    with gzip.open(shared_data("critiques.jsonl.gz"), "rt", encoding="utf-8") as file:
        source.write_text("".join(islice(file, 60)), encoding="utf-8")
    options = Options(options.tokenizer, 200, 200, sentiment_model="vader", toxicity_model="none")
    report: Report = write_report(source, tmp_path / "out", options=options)
    data = report.data_sets[0]
    assert data.sizes.groups == 60
    assert data.sizes.pairs > 300
    assert data.sentiment.n == 200
    assert 0.1 < (data.sentiment.negative.share or 0) < 0.9
    assert data.leakage is not None
    assert data.leakage.n == 200
    # Critiques that name characters are found by their words, far beyond chance.
    assert data.leakage.top1.interval[0] > 5 * data.leakage.top1.chance
    assert "Not measured: not asked for" in (tmp_path / "out" / "README.md").read_text()
