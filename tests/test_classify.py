"""``carp classify``: classifiers from critiques, AUC against scikit-learn, baselines, the commands, bad input."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
import yaml
from conftest import REPOSITORY, shared_data

import carp
from carp.cli.classify import EXAMPLES, classify_command
from carp.cli.main import run
from carp.errors import InputError
from carp.evaluation.classifying import report
from carp.evaluation.classifying.baselines import check_sklearn, length_strata, probe, word_counts
from carp.evaluation.classifying.classifier import best_class, classify, contrasts
from carp.evaluation.classifying.definitions import Classifier, load_classifiers
from carp.evaluation.classifying.labels import Labelled, read_labels
from carp.evaluation.classifying.measuring import PROBE, WORDS, Measured, Scored, measure
from carp.evaluation.classifying.roc import areas
from carp.evaluation.evaluators import Floats
from carp.evaluation.ratings.intervals import resampled_counts
from carp.evaluation.resampling import Resampling
from carp.model import bundled
from carp.model.carp_model import CarpModel
from carp.scoring.embeddings import embed

metrics = pytest.importorskip("sklearn.metrics", reason="measuring classifiers needs scikit-learn (extra eval)")
linear = pytest.importorskip("sklearn.linear_model")

PNG = b"\x89PNG\r\n\x1a\n"
BUNDLED = ["faults", "sentiment", "show-dont-tell", "wording"]
TEXTS = [
    "It was raining. John took an umbrella.",
    "She laughed and laughed and laughed.",
    "He was sad. He was very sad.",
]
FEW = Resampling(resamples=100)


# -- classifiers ------------------------------------------------------------------------------------------


def test_the_bundled_classifiers_hold_what_the_appendix_names() -> None:
    found = {one.name: one for one in load_classifiers(BUNDLED)}
    assert list(found) == BUNDLED
    assert ":)" in found["sentiment"].classes["positive"]
    assert {"[quote]", "..."} <= set(found["wording"].classes["trouble"])
    assert found["show-dont-tell"].classes["telling"][0] == "Show, don't tell!"
    assert all(one.source for one in found.values())


def test_quote_is_one_token_in_a_classifiers_critiques(model: CarpModel) -> None:
    (wording,) = load_classifiers(["wording"])
    tokenizer = model.tokenizer("critique")
    ids = tokenizer([text for text in wording.critiques if "[quote]" in text])["input_ids"]
    assert all(row.count(tokenizer.convert_tokens_to_ids("[quote]")) == 1 for row in ids)


def test_a_class_scores_its_mean_less_that_of_the_others_by_hand() -> None:
    means = np.array([[0.5, 0.2, 0.2], [0.0, 0.3, 0.6]])
    np.testing.assert_allclose(contrasts(means), [[0.3, -0.15, -0.15], [-0.45, 0.0, 0.45]], atol=1e-12)
    np.testing.assert_allclose(contrasts(means[:, :2]), [[0.3, -0.3], [-0.3, 0.3]])
    np.testing.assert_allclose(contrasts(means[:, :1]), means[:, :1])


def test_scores_are_mean_cosines_of_the_model(model: CarpModel) -> None:
    pair = Classifier(name="pair", classes={"dull": ["This is boring.", "Yawn."], "fun": ["Great!"]})
    single = Classifier(name="single", classes={"dull": ["Yawn.", "This is boring."]})
    found = classify(TEXTS, [pair, single], model)
    cosines = carp.score(TEXTS, ["This is boring.", "Yawn.", "Great!"], model=model)
    dull = cosines[:, :2].mean(1)
    np.testing.assert_allclose(found["pair"], np.stack([dull - cosines[:, 2], cosines[:, 2] - dull], 1), atol=1e-6)
    np.testing.assert_allclose(found["single"], dull[:, None], atol=1e-6)
    embedded = classify(embed(TEXTS, model=model), [pair, single], model)
    np.testing.assert_allclose(embedded["pair"], found["pair"], atol=1e-6)
    assert best_class(pair, np.array([0.1, -0.1])) == "dull"
    assert best_class(single, np.array([0.1])) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x", "classes is missing"),
        ("name: x\nclasses: {}", "classes: "),
        ("name: x\nclasses:\n  a: []", "classes.a: "),
        ('name: x\nclasses:\n  a: [""]', "classes.a.0: "),
        ("name: x\nclasses:\n  a: Yawn.", "classes.a: "),
        ("name: x\nclasses:\n  a:\n    - [quote]", 'in YAML a text with brackets needs quotes: "[quote]"'),
        ("name: x\nclasses:\n  a: [Yawn., Yawn.]", "classes.a: 'Yawn.' comes twice; leave one out"),
        (
            "name: x\nclasses:\n  a: [Yawn.]\n  b: [Yawn.]",
            "the critique 'Yawn.' stands for two classes; leave it to one",
        ),
        ("name: x\nclasses:\n  a: [Yawn.]\n  a: [Wow.]", "not readable as YAML: the key 'a' comes twice"),
        ("name: x\nkind: y\nclasses:\n  a: [Yawn.]", "unknown key kind; known ones are name, source, classes"),
        ("name: ''\nclasses:\n  a: [Yawn.]", "name: "),
        ("just words", "the file: "),
        ("a: [", "not readable as YAML: "),
    ],
)
def test_a_faulty_definition_is_told_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "own.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        load_classifiers([str(tmp_path / "own.yaml")])
    said = str(caught.value)
    assert said.startswith(f"{tmp_path / 'own.yaml'}: ")
    assert message in said
    assert "\n" not in said


def test_unknown_and_repeated_classifiers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no bundled definition; those are faults, sentiment, show-dont-tell, wording"):
        load_classifiers(["moods"])
    (tmp_path / "own.yaml").write_text("name: sentiment\nclasses:\n  a: [Yawn.]\n")
    with pytest.raises(InputError, match="two are called 'sentiment'"):
        load_classifiers(["sentiment", str(tmp_path / "own.yaml")])
    with pytest.raises(InputError, match="--classifier: name one"):
        load_classifiers([])


# -- labels -----------------------------------------------------------------------------------------------


def write_labels(path: Path, rows: Sequence[object]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_labels_are_ones_zeros_and_unknown(tmp_path: Path) -> None:
    rows = [
        {"text": "a", "labels": {"x": 1, "y": None}, "group": 7},
        {"text": "b", "labels": {"x": False, "z": None}, "group": "q"},
        {"text": "a", "labels": {"y": 1.0}, "group": 7},
    ]
    found = read_labels(write_labels(tmp_path / "labels.jsonl", rows))
    assert found.texts == ["a", "b", "a"]
    assert found.group.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(found.labels["x"], [1, 0, math.nan])
    np.testing.assert_array_equal(found.labels["y"], [math.nan, math.nan, 1])
    assert list(found.labels) == ["x", "y"]  # nobody knows anything of z


def test_without_groups_equal_texts_are_one(tmp_path: Path) -> None:
    rows = [{"text": text, "labels": {"x": value}} for text, value in (("a", 1), ("b", 0), ("a", 0))]
    assert read_labels(write_labels(tmp_path / "labels.jsonl", rows)).group.tolist() == [0, 1, 0]


BAD_LABELS: dict[str, tuple[list[object], str]] = {
    "text": ([{"labels": {"x": 1}}], "row 1: has no text in 'text'; write it there, or remove the row"),
    "blank": ([{"text": " ", "labels": {"x": 1}}], "row 1: has no text in 'text'"),
    "labels": ([{"text": "a"}], "row 1: has no labels; write an object in 'labels'"),
    "list": ([{"text": "a", "labels": ["x"]}], "row 1: has no labels; write an object in 'labels'"),
    "value": ([{"text": "a", "labels": {"x": "yes"}}], "row 1: label 'x' is 'yes'; write 1, 0, or null"),
    "number": ([{"text": "a", "labels": {"x": 0.5}}], "row 1: label 'x' is 0.5; write 1, 0, or null"),
    "group": (
        [{"text": "a", "labels": {"x": 1}, "group": "g"}, {"text": "b", "labels": {"x": 0}}],
        "row 2: has no 'group', but other rows have one; give every text a group, or none",
    ),
    "same": (
        [{"text": "a", "labels": {"x": 1}}, {"text": "b", "labels": {"y": 0}}],
        "no label is 1 for one text and 0",
    ),
    "array": ([["a"]], "row 1: expected an object, found list"),
}


@pytest.mark.parametrize("name", BAD_LABELS)
def test_faulty_labels_are_told_the_row_and_the_mend(tmp_path: Path, name: str) -> None:
    rows, message = BAD_LABELS[name]
    path = write_labels(tmp_path / "labels.jsonl", rows)
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        read_labels(path)
    assert str(caught.value).startswith(path)


# -- the area under the curve -----------------------------------------------------------------------------


def test_areas_are_those_of_scikit_learn_ties_and_weights_included() -> None:
    random = np.random.default_rng(0)
    scores, positive = random.integers(0, 9, 60) / 3, random.random(60) < 0.4
    weights = np.vstack([np.ones(60), random.integers(0, 4, (30, 60))])
    found = areas(scores, positive, np.zeros(60, np.int64), weights)
    expected = [metrics.roc_auc_score(positive, scores, sample_weight=row) for row in weights]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert len(set(found.round(6))) > 20


def test_strata_compare_their_own_cases_only() -> None:
    random = np.random.default_rng(1)
    scores, positive = random.integers(0, 6, 50) / 2, random.random(50) < 0.5
    strata, weights = random.integers(0, 7, 50), random.integers(0, 3, (5, 50)).astype(float)
    found = areas(scores, positive, strata, weights)
    for row, value in zip(weights, found, strict=True):
        wins = pairs = 0.0
        for i in np.flatnonzero(positive):
            for j in np.flatnonzero(~positive & (strata == strata[i])):
                pairs += row[i] * row[j]
                wins += row[i] * row[j] * ((scores[i] > scores[j]) + (scores[i] == scores[j]) / 2)
        assert value == pytest.approx(wins / pairs)


def test_an_area_without_pairs_is_not_defined() -> None:
    scores, nowhere = np.array([1.0, 2.0, 3.0]), np.zeros(3, np.int64)
    some = np.array([True, True, False])
    weights = np.array([[1.0, 1, 1], [1, 1, 0], [0, 0, 2]])
    np.testing.assert_array_equal(areas(scores, some, nowhere, weights), [0, math.nan, math.nan])
    assert np.isnan(areas(scores, some, np.array([0, 1, 2]), weights)).all()
    assert np.isnan(areas(scores, np.ones(3, bool), nowhere, weights)).all()


# -- baselines --------------------------------------------------------------------------------------------


def test_lengths_of_one_stratum_are_alike() -> None:
    words = np.arange(1.0, 3000)
    strata = length_strata(words)
    assert (np.diff(strata) >= 0).all()
    for stratum in np.unique(strata):
        inside = words[strata == stratum]
        assert inside.max() / inside.min() <= 1.1 + 1e-6
    assert word_counts(["one", " two words\n"]).tolist() == [1, 2]


def clustered(seed: int = 0, groups: int = 12, each: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors that hold a label, and something of their group."""
    random = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), each)
    positive = random.random(len(group)) < 0.4
    vectors = random.normal(size=(len(group), 4)) + random.normal(size=(groups, 4))[group]
    vectors[:, 0] += 1.5 * positive
    return vectors.astype(np.float32), positive, group


def test_the_probe_is_a_regression_that_has_not_seen_the_group() -> None:
    vectors, positive, group = clustered()
    scores, parts = probe(vectors, positive, group, seed=3)
    assert set(parts) == set(range(5))
    assert all(len(set(parts[group == one])) == 1 for one in range(12))
    for part in range(5):
        learnt = parts != part
        fitted = linear.LogisticRegression(class_weight="balanced", max_iter=1000).fit(
            vectors[learnt], positive[learnt]
        )
        np.testing.assert_allclose(scores[~learnt], fitted.decision_function(vectors[~learnt]), rtol=1e-6)
    assert np.array_equal(probe(vectors, positive, group, seed=3)[0], scores)
    assert not np.array_equal(probe(vectors, positive, group, seed=4)[1], parts)


def test_a_probe_with_too_few_groups_says_nothing() -> None:
    vectors, positive, group = clustered()
    assert np.isnan(probe(vectors, positive, np.zeros_like(group), seed=0)[0]).all()
    assert np.isnan(probe(vectors, np.zeros_like(positive), group, seed=0)[0]).all()


def test_scikit_learn_is_asked_for_by_the_name_of_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(InputError, match=re.escape("pip install 'carp-critic[eval]'")):
        check_sklearn()


# -- measuring --------------------------------------------------------------------------------------------


def labelled(labels: dict[str, Any], group: np.ndarray, words: np.ndarray) -> Labelled:
    columns = {name: np.asarray(values, float) for name, values in labels.items()}
    return Labelled("labels.jsonl", "", ["w " * n for n in words], group, columns)


def measured(data: Labelled, classes: dict[str, Floats], definitions: Sequence[Classifier]) -> dict[str, Measured]:
    vectors = np.random.default_rng(5).normal(size=(len(data.texts), 3)).astype(np.float32)
    found = measure(data, {"mine": Scored(vectors, classes)}, definitions, FEW)
    return {f"{one.label}; {one.signal}": one for one in found}


PAIR = Classifier(name="pair", classes={"bad": ["Bad."], "good": ["Good."]})


def test_intervals_resample_groups_and_differences_are_paired() -> None:
    vectors, positive, group = clustered(2)
    random = np.random.default_rng(3)
    words = random.integers(1, 30, len(group)) + 5 * positive
    scores = vectors[:, 0].astype(np.float64)
    found = measured(labelled({"x": positive}, group, words), {"pair": np.stack([scores, -scores], 1)}, [PAIR])
    mine = found["x; pair: bad"]
    assert (mine.positives, mine.negatives, mine.groups) == (positive.sum(), (~positive).sum(), 12)
    drawn = resampled_counts(12, 100, 0)[:, group]
    replicates = {
        name: np.array([metrics.roc_auc_score(positive, values, sample_weight=row) for row in drawn])
        for name, values in {"mine": scores, "words": words}.items()
    }
    assert mine.auc.value == pytest.approx(metrics.roc_auc_score(positive, scores))
    assert mine.auc.interval == pytest.approx(np.percentile(replicates["mine"], [2.5, 97.5]))
    assert mine.above_words is not None
    difference = np.percentile(replicates["mine"] - replicates["words"], [2.5, 97.5])
    assert mine.above_words.interval == pytest.approx(difference)
    assert found[f"x; {WORDS}"].auc.value == pytest.approx(metrics.roc_auc_score(positive, words))
    assert found[f"x; {WORDS}"].above_words is None


def test_the_number_of_words_counts_in_whichever_direction_works() -> None:
    positive = np.array([1, 0] * 10)
    words = np.where(positive == 1, 3, 30)
    data = labelled({"short": positive, "long": 1 - positive}, np.arange(20), words)
    found = measured(data, {"pair": np.zeros((20, 2))}, [PAIR])
    assert found[f"short; {WORDS}"].auc.value == found[f"long; {WORDS}"].auc.value == 1
    assert found["short; pair: bad"].auc.value == 0.5  # all scores are equal


def test_what_only_length_tells_apart_is_chance_among_texts_of_one_length() -> None:
    random = np.random.default_rng(0)
    words = np.repeat([2, 8, 40], 400)
    positive = random.random(1200) < np.repeat([0.1, 0.5, 0.9], 400)
    scores = words + random.normal(0, 0.1, 1200)
    found = measured(
        labelled({"x": positive}, np.arange(1200), words), {"pair": np.stack([scores, -scores], 1)}, [PAIR]
    )
    mine = found["x; pair: bad"]
    assert (mine.auc.value or 0) > 0.75
    assert abs((mine.same_length.value or 0) - 0.5) < 0.07
    assert found[f"x; {WORDS}"].same_length.value == 0.5


def test_a_class_called_as_a_label_is_measured_on_it_alone() -> None:
    three = Classifier(name="three", classes={"a": ["A."], "b": ["B."], "c": ["C."]})
    columns = {"three": np.arange(18.0).reshape(6, 3) % 5}
    groups, words = np.arange(6), np.arange(1, 7)
    own = measured(labelled({"b": [0, 1, 0, 1, 0, 1], "z": [1, 0, 1, 0, 1, 0]}, groups, words), columns, [three])
    assert [name for name in own if "three" in name] == ["b; three: own class"]
    assert own["b; three: own class"].auc.value == metrics.roc_auc_score([0, 1, 0, 1, 0, 1], columns["three"][:, 1])
    every = measured(labelled({"z": [1, 0, 1, 0, 1, 0]}, groups, words), columns, [three])
    assert [name for name in every if "three" in name] == ["z; three: a", "z; three: b", "z; three: c"]


def test_what_is_not_defined_says_why() -> None:
    data = labelled(
        {"x": [1, 0, 1, 0], "ones": [1, 1, 1, 1], "zeros": [0, 0, math.nan, math.nan]},
        np.zeros(4, int),
        np.array([1, 9, 99, 999]),
    )
    found = measured(data, {"pair": np.array([[1.0, 0], [0, 1], [1, 0], [0, 1]])}, [PAIR])
    perfect = found["x; pair: bad"]
    assert (perfect.auc.value, perfect.auc.interval, perfect.groups) == (1, None, 1)  # one group: nothing to resample
    assert perfect.same_length.undefined == "no two texts of one length to compare"
    assert found[f"x; {PROBE}"].auc.undefined == "too few groups to learn from"
    assert found["ones; pair: bad"].auc.undefined == "no text has 0"
    assert found["zeros; pair: bad"].auc.undefined == "no text has 1"


# -- the command ------------------------------------------------------------------------------------------

Run = Callable[..., tuple[int, str, str]]


def application() -> typer.Typer:
    made = typer.Typer(pretty_exceptions_enable=False)
    made.command("classify", epilog=EXAMPLES)(classify_command)
    return made


def label_rows(n: int = 24) -> list[dict[str, Any]]:
    words = ["rain", "sun", "cat", "umbrella", "sad"]
    return [
        {
            "text": " ".join(words[(i * j) % 5] for j in range(1, 3 + i % 4)) + f" {i}.",
            "labels": {"Cliche": int(i % 3 == 0), "odd": i % 2},
            "group": f"g{i // 2}",
        }
        for i in range(n)
    ]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, model_folder: Path) -> Run:
    """Runs ``carp classify WORDS...`` in a folder with stories, labels and a model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    rows = [{"story_id": f"s{i}", "story": text} for i, text in enumerate(TEXTS)]
    write_labels(tmp_path / "stories.jsonl", rows)
    write_labels(tmp_path / "labels.jsonl", label_rows())
    (tmp_path / "single.yaml").write_text("name: single\nclasses:\n  dull: [Yawn.]\n")

    def start(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["carp classify", *words])
        with pytest.raises(SystemExit) as caught:
            run(application())
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return start


BOTH = ("-c", "sentiment", "-c", "single.yaml", "-m", "model")


def test_stories_are_classified_as_json(cli: Run, model: CarpModel) -> None:
    code, out, err = cli("stories.jsonl", *BOTH, "--json")
    assert (code, err) == (0, "")
    found = [json.loads(line) for line in out.splitlines()]
    assert [(row["story_id"], row["classifier"]) for row in found[:2]] == [("s0", "sentiment"), ("s0", "single")]
    expected = classify(TEXTS, load_classifiers(["sentiment"]), model)["sentiment"]
    assert list(found[2]["scores"].values()) == pytest.approx(expected[1].tolist(), abs=2e-6)
    assert found[2]["class"] == ["positive", "negative"][int(expected[1].argmax())]
    assert found[3]["class"] is None


def test_stories_are_classified_as_csv_and_as_tables(cli: Run, tmp_path: Path) -> None:
    code, out, _ = cli("stories.jsonl", *BOTH, "--csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert (code, len(rows)) == (0, 9)
    assert {row["best"] for row in rows if row["classifier"] == "single"} == {""}
    for name in ("s0", "s1", "s2"):
        of_story = [row for row in rows if row["story_id"] == name and row["classifier"] == "sentiment"]
        best = max(of_story, key=lambda row: float(row["score"]))
        assert [row["best"] for row in of_story] == [str(int(row is best)) for row in of_story]
    (tmp_path / "rain.txt").write_text(TEXTS[0])
    code, out, _ = cli("rain.txt", *BOTH)
    assert code == 0
    assert "rain" in out
    shown = re.findall(r"(positive|negative|dull)\W+([+-]\d\.\d{3})", out)
    values = {row["class"]: f"{float(row['score']):+.3f}" for row in rows[:3]}
    assert dict(shown) == values
    assert float(shown[0][1]) >= float(shown[1][1])  # the best class first


MEASURE = ("--labels", "labels.jsonl", "-c", "faults", "-c", "sentiment", "-m", "model", "--resamples", "100", "--out")


def test_labels_are_measured(cli: Run, model: CarpModel, tmp_path: Path) -> None:
    code, out, err = cli(*MEASURE, "results")
    assert (code, err) == (0, "report: results/README.md\n")
    folder = tmp_path / "results"
    assert sorted(os.listdir(folder)) == ["README.md", "auc.png", "measures.csv", "measures.json"]
    assert (folder / "auc.png").read_bytes().startswith(PNG)
    found = json.loads((folder / "measures.json").read_text())
    measures = {(one["label"], one["signal"]): one for one in found["measures"]}
    faults = {("Cliche", "faults: own class")}  # a class called as one label: the other label has none
    common = {(label, signal) for label in ("Cliche", "odd") for signal in (WORDS, PROBE, "sentiment: positive")}
    assert set(measures) == faults | common
    rows = label_rows()
    expected = classify([row["text"] for row in rows], load_classifiers(["sentiment"]), model)["sentiment"][:, 0]
    odd = [row["labels"]["odd"] for row in rows]
    assert measures["odd", "sentiment: positive"]["auc"]["value"] == pytest.approx(metrics.roc_auc_score(odd, expected))
    assert measures["odd", "sentiment: positive"]["groups"] == found["groups"] == 12
    assert "model.safetensors" in found["made"]["models"]["model"]
    assert found["made"]["options"] == {"resamples": 100, "seed": 0}
    assert [one["name"] for one in found["classifiers"]] == ["faults", "sentiment"]
    with (folder / "measures.csv").open() as file:
        table = {(row["label"], row["signal"]): row for row in csv.DictReader(file)}
    assert float(table["odd", PROBE]["auc_low"]) == measures["odd", PROBE]["auc"]["interval"][0]
    assert table["odd", WORDS]["above_words"] == ""
    value = measures["Cliche", "faults: own class"]["auc"]["value"]
    page = (folder / "README.md").read_text()
    assert "| Cliche | 8 / 16 | 12 |" in page
    assert page.count(f"{value:.2f} [") >= 1
    assert "24 texts in 12 groups" in page
    assert f"Cliche; faults: own class: AUC {value:.2f} [" in out

    assert cli(*MEASURE, "again")[0] == 0
    for name in os.listdir(folder):
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_several_models_stand_side_by_side(cli: Run, model: CarpModel, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path / "other")
    code, out, _ = cli(*MEASURE, "results", "-m", "other")
    assert code == 0
    found = json.loads((tmp_path / "results" / "measures.json").read_text())["measures"]
    of_models = {name: [one["auc"] for one in found if one["model"] == name] for name in ("model", "other")}
    assert of_models["model"] == of_models["other"]
    assert len(of_models["model"]) == 5
    assert "probe (other)" in (tmp_path / "results" / "README.md").read_text()
    assert "odd; probe (model): AUC" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give stories or --labels, one of the two"),
        (["stories.jsonl", "--labels", "labels.jsonl"], "give stories or --labels, one of the two"),
        (["stories.jsonl", "-m", "model"], "--classifier: name one, e.g. sentiment, or a YAML file"),
        (
            ["stories.jsonl", "-c", "moods", "-m", "model"],
            "--classifier moods: no such file, and no bundled definition",
        ),
        (
            ["stories.jsonl", *BOTH, "--json", "--csv"],
            "stories: give one --model, --json or --csv but not both, and no",
        ),
        (["stories.jsonl", *BOTH, "-m", "other"], "stories: give one --model, --json or --csv but not both, and no"),
        (["stories.jsonl", *BOTH, "-o", "results"], "stories: give one --model, --json or --csv but not both, and no"),
        (["missing.txt", *BOTH], "missing.txt: no such file"),
        (
            ["--labels", "labels.jsonl", *BOTH],
            "--labels: writes a folder; name it with --out, and leave --json and --csv",
        ),
        ([*MEASURE, "results", "--json"], "--labels: writes a folder; name it with --out, and leave --json and --csv"),
        ([*MEASURE, "full"], "--out full: exists already; name a new folder"),
        ([*MEASURE, "results", "-m", "model"], "--model model: given twice; leave one out"),
        ([*MEASURE, "results", "-m", "nowhere"], "nowhere: no such folder"),
        ([*MEASURE, "results", "--resamples", "9"], "--resamples 9: give at least 100"),
        ([*MEASURE, "results", "--seed", "-1"], "--seed -1: give a number from 0"),
        ([*MEASURE, "results", "--labels", "missing.jsonl"], "missing.jsonl: no such file"),
        ([*MEASURE, "results", "--labels", "bad.jsonl"], "bad.jsonl, row 2: label 'x' is 'yes'; write 1, 0, or null"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(cli: Run, tmp_path: Path, words: list[str], message: str) -> None:
    rows = [{"text": "a", "labels": {"x": 1}}, {"text": "b", "labels": {"x": "yes"}}]
    write_labels(tmp_path / "bad.jsonl", rows)
    (tmp_path / "full").mkdir()
    before = sorted(os.listdir(tmp_path))
    code, out, err = cli(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"carp: {message}")
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    "words",
    [
        ["stories.jsonl", "-c", "sentiment"],
        ["--labels", "labels.jsonl", "-c", "faults", "-o", "results"],
    ],
)
def test_no_model_at_all_is_one_line(cli: Run, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.setattr(bundled, "DEFAULT_MODEL", "none")
    code, out, err = cli(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("carp: no model is named: give a folder or Hub id (--model), or set CARP_MODEL")


def test_a_run_that_breaks_off_while_writing_leaves_nothing(
    cli: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full_disk(*arguments: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report, "page", full_disk)
    before = sorted(os.listdir(tmp_path))
    code, _, err = cli(*MEASURE, "results")
    assert (code, err) == (1, "carp: No space left on device: while writing\n")
    assert sorted(os.listdir(tmp_path)) == before


# -- documentation ----------------------------------------------------------------------------------------

PAGE = (REPOSITORY / "docs" / "classifiers.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("line", "".join(blocks("bash")).replace("\\\n", " ").splitlines())
def test_a_documented_command_parses(line: str) -> None:
    program, *words = shlex.split(line)
    if program == "python":
        compile(words[1], line, "exec")
        return
    command: Any = typer.main.get_command(application())
    parsed = command.make_context("classify", words[1:]).params
    assert bool(parsed["stories"]) != bool(parsed["labels"])
    assert all(name in BUNDLED or name == "mine.yaml" for name in parsed["classifier"])


def test_the_documented_definition_is_one() -> None:
    (block,) = blocks("yaml")
    found = Classifier.model_validate(yaml.safe_load(block))
    assert list(found.classes) == ["slow", "fast"]


# -- real data --------------------------------------------------------------------------------------------


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of labels that the documented block makes."""
    source = shared_data("spans.jsonl.gz").parent
    shared_data("critiques.jsonl.gz")
    (block,) = blocks("python")
    monkeypatch.chdir(tmp_path)
    exec(compile(block.replace("../shared/data", str(source)), "classifiers.md", "exec"), {})
    return tmp_path


def test_the_documented_labels_of_real_spans_and_verdicts(recipe: Path) -> None:
    unmarked, others, ttcw = (
        read_labels(str(recipe / f"{name}.jsonl")) for name in ("spans_unmarked", "spans_others", "ttcw")
    )
    categories = set(load_classifiers(["faults"])[0].classes) - {"fine"}
    assert set(unmarked.labels) == set(others.labels) == categories
    clean = [text for text, value in zip(unmarked.texts, unmarked.labels["Cliche"], strict=True) if value == 0]
    assert not set(clean) & set(others.texts)  # what nobody touched has no fault
    assert len(clean) > 100
    for column in others.labels.values():
        assert not np.isnan(column).any()
    assert np.max(list(others.labels.values()), axis=0).min() == 1  # every sentence has a fault
    assert (len(ttcw.texts), len(set(ttcw.texts)), len(ttcw.labels)) == (24 * 42, 24, 14)
    assert all((~np.isnan(column)).sum() == 72 for column in ttcw.labels.values())
    assert np.nansum(ttcw.labels["fails Narrative Ending"]) == 56


def test_the_number_of_words_is_a_real_rival(recipe: Path) -> None:
    data = read_labels(str(recipe / "spans_unmarked.jsonl"))
    nothing = Scored(np.zeros((len(data.texts), 1), np.float32), {})
    found = {one.label: one for one in measure(data, {"none": nothing}, [], FEW) if one.signal == WORDS}
    structure = asdict(found["Poor Sentence Structure"])
    assert structure["auc"]["interval"][0] > 0.5
    assert abs(structure["same_length"]["value"] - 0.5) < 0.1
