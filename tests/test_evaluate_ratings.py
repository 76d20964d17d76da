"""``carp evaluate --ratings``: correlations against scipy, the ceiling, reviews of items, the command, bad input."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
import yaml
from conftest import REPOSITORY, shared_data

import carp
from carp.cli.evaluate import EXAMPLES, evaluate_command
from carp.cli.main import run
from carp.errors import InputError
from carp.evaluation.correlating import measuring, report
from carp.evaluation.correlating.candidates import WORDS, Candidate, word_counts
from carp.evaluation.correlating.coefficients import COEFFICIENTS, correlations
from carp.evaluation.correlating.items import Items, load_items
from carp.evaluation.correlating.measuring import PEOPLE, Correlation, correlate
from carp.evaluation.correlating.people import LEVELLED, STORIES, SYSTEMS, Rated, levels, points, rated
from carp.evaluation.correlating.reading import read_people, read_texts
from carp.evaluation.evaluators import Floats
from carp.evaluation.ratings.intervals import resampled_counts
from carp.evaluation.ratings.table import Ratings
from carp.evaluation.resampling import Resampling
from carp.model.carp_model import CarpModel
from carp.reviews import REVIEWS

stats = pytest.importorskip("scipy.stats", reason="correlations need scipy (extra eval)")

PNG = b"\x89PNG\r\n\x1a\n"
FEW = Resampling(resamples=100)
SCIPY = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}
Row = Sequence[Any]


def write_rows(path: Path, rows: Sequence[Row], header: str = "story_id,rater,warmth") -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header.split(","), *rows])
    return str(path)


def write_stories(path: Path, rows: Sequence[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


# -- coefficients -----------------------------------------------------------------------------------------


def test_coefficients_are_those_of_scipy_on_resampled_points() -> None:
    random = np.random.default_rng(0)
    x, y = random.integers(0, 8, 40) / 3, random.normal(size=40).round(1)
    y = (y + 0.4 * x).round(9)  # scipy takes rounding errors for differences
    weights = np.vstack([np.ones(40), resampled_counts(40, 20, 1)])
    found = correlations(x, y, weights)
    for row, drawn in enumerate(weights):
        left, right = np.repeat(x, drawn.astype(int)), np.repeat(y, drawn.astype(int))
        for name, value in zip(COEFFICIENTS, found[:, row], strict=True):
            assert value == pytest.approx(SCIPY[name](left, right).statistic, abs=1e-9), name


def test_coefficients_of_a_constant_are_not_defined() -> None:
    weights = np.array([[1.0, 1, 1, 1], [2, 2, 0, 0]])
    found = correlations(np.array([1.0, 1, 2, 3]), np.array([1.0, 2, 3, 4]), weights)
    assert not np.isnan(found[:, 0]).any()
    assert np.isnan(found[:, 1]).all()  # the resample has equal points only
    assert np.isnan(correlations(np.full(4, 1e6) + 1e-9, np.arange(4.0), weights)).all()


def test_rounding_makes_no_ties_and_breaks_none() -> None:
    thirds = np.array([11 / 3, (5 + 3 + 3) / 3, 3.0, 1.0])
    noisy = thirds + np.array([0, 1e-15, 0, 0])
    exact = correlations(thirds, np.arange(4.0), np.ones((1, 4)))
    np.testing.assert_allclose(correlations(noisy, np.arange(4.0), np.ones((1, 4))), exact)


# -- people -----------------------------------------------------------------------------------------------


def people(folder: Path, rows: Sequence[Row], header: str = "story_id,rater,warmth") -> Ratings:
    return read_people(write_rows(folder / "ratings.csv", rows, header))


def test_means_and_levelled_means_by_hand(tmp_path: Path) -> None:
    rows = [("a", "ann", 1), ("b", "ann", 3), ("a", "bob", 7), ("b", "bob", 9), ("c", "bob", 8), ("c", "cem", "")]
    ratings = people(tmp_path, rows)
    column = ratings.values["warmth"]
    np.testing.assert_allclose(rated(ratings, column, levelled=False).means(), [4, 6, 8])
    # ann's mean is 2, bob's 8, that of all five ratings 5.6
    np.testing.assert_allclose(rated(ratings, column, levelled=True).means(), [4.6, 6.6, 5.6])


def test_one_rater_is_drawn_and_the_others_averaged() -> None:
    found = Rated(np.array([1.0, 2, 6, 5, 9, 4]), np.array([0, 0, 0, 1, 2, 2]), 4)
    random = np.random.default_rng(0)
    seen = set()
    for _ in range(60):
        one, others = found.one_and_the_others(random)
        assert np.isnan([one[1], others[1], one[3], others[3]]).all()  # one rater; nobody
        assert others[0] == pytest.approx((9 - one[0]) / 2)
        assert others[2] == 13 - one[2]
        seen |= {one[0], 10 * one[2]}
    assert seen == {1, 2, 6, 90, 40}


def test_systems_are_means_of_their_stories(tmp_path: Path) -> None:
    rows = [("a", "x", 1, "s"), ("b", "x", 1, "t"), ("c", "x", 1, "s"), ("d", "x", 1, "u"), ("a", "y", 1, "s")]
    ratings = people(tmp_path, rows, "story_id,rater,warmth,system")
    assert levels(ratings) == [STORIES, LEVELLED, SYSTEMS]
    left, right = points(ratings, SYSTEMS, np.array([1.0, 5, 3, math.nan]), np.array([10.0, 20, 40, 0]))
    assert (left.tolist(), right.tolist()) == ([2, 5], [25, 20])
    assert points(ratings, STORIES, np.array([1.0, 5, 3, math.nan]))[0].tolist() == [1, 5, 3]


# -- reviews of items -------------------------------------------------------------------------------------


def test_praise_minus_blame_by_hand() -> None:
    items = Items(name="i", items={"a": {"praise": ["P.", "Q."], "blame": ["R."]}, "b": {"blame": ["P."]}})
    assert items.reviews == ["P.", "Q.", "R."]
    found = items.scores(np.array([[0.2, 0.4, 0.1], [0.0, 0.0, 0.5]]), items.reviews)
    np.testing.assert_allclose(found["a"], [0.2, -0.5])
    np.testing.assert_allclose(found["b"], [-0.2, 0.0])


def test_the_bundled_rubric_praises_and_blames_each_item_alike() -> None:
    items = load_items("confederacy")
    assert list(items.items) == [f"item_{i}" for i in range(1, 11)]
    assert all(len(sides["praise"]) == len(sides["blame"]) == 3 for sides in items.items.values())
    assert len(items.reviews) == 60


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x", "items is missing"),
        ("name: x\nitems:\n  a: {}", "items.a: has no reviews; write some under praise, blame or both"),
        ("name: x\nitems:\n  a:\n    prais: [Good.]", "Input should be 'praise' or 'blame', not 'prais'"),
        ("name: x\nitems:\n  a:\n    praise: []", "items.a.praise: "),
        (
            "name: x\nitems:\n  a:\n    praise: [Fine.]\n    blame: [Fine.]",
            "items.a: 'Fine.' is praise and blame; leave it to one",
        ),
        ("name: x\nitems:\n  a: Good.", "items.a: "),
        (
            "name: x\nscales: 1\nitems:\n  a:\n    praise: [Good.]",
            "unknown key scales; known ones are name, source, items",
        ),
    ],
)
def test_faulty_items_are_told_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "own.yaml").write_text(text)
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        load_items(str(tmp_path / "own.yaml"))
    assert "\n" not in str(caught.value)


# -- reading ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"), [("story_id", "story"), ("story", "text"), ("id", "text"), ("text_id", "story"), ("id", "story")]
)
def test_texts_are_found_under_several_names(tmp_path: Path, name: str, text: str) -> None:
    ratings = people(tmp_path, [("b", "x", 1), ("a", "x", 2)])
    rows = [{name: story, text: f"Text of {story}.", "other": 1} for story in "abc"]
    found = read_texts(write_stories(tmp_path / "stories.jsonl", rows), ratings)
    assert found == ["Text of b.", "Text of a."]


# -- measuring --------------------------------------------------------------------------------------------


def matrix_rows(matrix: Floats, systems: int = 0) -> list[Row]:
    """One row per rating of [stories, raters], NaN as an empty cell."""
    return [
        (f"s{i:02}", f"r{j}", "" if np.isnan(value) else value, *([f"system{i % systems}"] if systems else []))
        for i, row in enumerate(matrix)
        for j, value in enumerate(row)
    ]


def simulated(folder: Path, stories: int = 30, systems: int = 6) -> tuple[Ratings, Floats]:
    """Ratings by three people of different strictness, and the merit of stories."""
    random = np.random.default_rng(7)
    merit = random.normal(size=stories) + random.normal(size=systems)[np.arange(stories) % systems]
    noisy = merit[:, None] + random.normal(0, 0.8, (stories, 3)) + np.array([0, 2, -1])
    header = "story_id,rater,warmth" + (",system" if systems else "")
    return people(folder, matrix_rows(noisy.round(1), systems), header), merit


def by_name(found: Sequence[Correlation]) -> dict[tuple[str, str, str], Correlation]:
    return {(one.level, one.scale, one.candidate): one for one in found}


def test_intervals_resample_stories_or_systems_and_differences_are_paired(tmp_path: Path) -> None:
    ratings, merit = simulated(tmp_path)
    words = Candidate(WORDS, {"warmth": np.arange(30.0)})
    found = by_name(correlate(ratings, words, [Candidate("mine", {"warmth": merit})], FEW))
    means = np.array([ratings.values["warmth"][ratings.story == i].mean() for i in range(30)]).round(9)
    of_systems = [np.array([column[i::6].mean() for i in range(6)]) for column in (merit, means, np.arange(30.0))]
    for level, (x, y, length) in {STORIES: (merit, means, np.arange(30.0)), SYSTEMS: tuple(of_systems)}.items():
        mine = found[level, "warmth", "mine"]
        assert mine.n == len(x)
        drawn = [np.repeat(np.arange(len(x)), row.astype(int)) for row in resampled_counts(len(x), 100, 0)]
        for name, function in SCIPY.items():
            estimate, above = mine.coefficients[name], mine.above_words[name]
            assert estimate.value == pytest.approx(function(x, y).statistic)
            replicates = np.array([[function(side[d], y[d]).statistic for side in (x, length)] for d in drawn])
            assert estimate.interval == pytest.approx(np.percentile(replicates[:, 0], [2.5, 97.5]), abs=1e-9)
            assert above.interval == pytest.approx(np.percentile(-np.diff(replicates), [2.5, 97.5]), abs=1e-9)
    assert found[STORIES, "warmth", WORDS].above_words == {}


def test_the_ceiling_is_one_rater_against_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ratings, _ = simulated(tmp_path)
    monkeypatch.setattr(measuring, "DRAWS", 7)
    words = Candidate(WORDS, {"warmth": np.arange(30.0)})
    found = by_name(correlate(ratings, words, [], FEW))
    whole = rated(ratings, ratings.values["warmth"], levelled=False)
    random = np.random.default_rng([0, 1])
    expected = [stats.spearmanr(*np.round(whole.one_and_the_others(random), 9)).statistic for _ in range(7)]
    ceiling = found[STORIES, "warmth", PEOPLE]
    assert ceiling.coefficients["spearman"].value == pytest.approx(np.mean(expected))
    interval = ceiling.coefficients["spearman"].interval
    assert interval is not None
    assert interval[0] < np.mean(expected) < interval[1]
    # Without strictness, people agree better.
    levelled = found[LEVELLED, "warmth", PEOPLE].coefficients["spearman"].value
    assert (levelled or 0) > np.mean(expected)


def test_people_who_agree_have_a_ceiling_of_one(tmp_path: Path) -> None:
    ratings = people(tmp_path, matrix_rows(np.repeat(np.arange(8.0)[:, None], 3, axis=1)))
    assert levels(ratings) == [STORIES, LEVELLED]
    found = by_name(correlate(ratings, word_counts(["w " * (9 - i) for i in range(8)], ratings), [], FEW))
    for name in COEFFICIENTS:
        assert found[STORIES, "warmth", PEOPLE].coefficients[name].value == pytest.approx(1)
        assert found[STORIES, "warmth", WORDS].coefficients[name].value == pytest.approx(-1)


def reason(found: dict[tuple[str, str, str], Correlation], level: str, candidate: str) -> str:
    return found[level, "warmth", candidate].coefficients["pearson"].undefined


def test_what_is_not_defined_says_why(tmp_path: Path) -> None:
    nan = math.nan
    cases = {
        "one rater": np.array([[1.0], [2], [4], [3]]),
        "constant": np.full((4, 2), 5.0),
        "few": np.array([[1.0, 2], [2, 3]]),
        "missing": np.array([[1.0, nan], [2, nan], [4, 4], [3, nan], [nan, nan]]),
    }
    found = {}
    for name, matrix in cases.items():
        ratings = people(tmp_path, matrix_rows(matrix))
        scores = {"uniform": np.zeros(len(matrix)), "partly": np.where(np.arange(len(matrix)) < 2, nan, 1.0)}
        words = Candidate(WORDS, {"warmth": np.arange(float(len(matrix)))})
        candidates = [Candidate(key, {"warmth": value}) for key, value in scores.items()]
        found[name] = by_name(correlate(ratings, words, candidates, FEW))
    assert reason(found["one rater"], STORIES, PEOPLE) == "fewer than three stories with two raters"
    assert found["one rater"][STORIES, "warmth", WORDS].coefficients["pearson"].value == pytest.approx(0.8)
    assert reason(found["constant"], STORIES, WORDS) == "all ratings are equal"
    assert reason(found["constant"], STORIES, PEOPLE) == "one rater's ratings are all equal"
    assert reason(found["few"], STORIES, WORDS) == "fewer than three stories"
    assert reason(found["missing"], STORIES, "uniform") == "all scores are equal"
    assert reason(found["missing"], STORIES, "partly") == "fewer than three stories"
    assert found["missing"][STORIES, "warmth", WORDS].n == 4
    assert reason(found["missing"], STORIES, PEOPLE) == "fewer than three stories with two raters"


def test_too_many_stories_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "MAX_POINTS", 5)
    ratings, merit = simulated(tmp_path)
    with pytest.raises(InputError, match=r"30 stories; 5 is the most, give fewer"):
        correlate(ratings, Candidate(WORDS, {"warmth": merit}), [], FEW)


# -- the command ------------------------------------------------------------------------------------------

Run = Callable[..., tuple[int, str, str]]
TEXTS = ["It rained.", "She laughed and laughed.", "He ran.", "A cat sat on the mat, and sat.", "Bang! It fell."]
RATINGS = [
    (i, rater, i + j, (3 * i + j) % 5, f"sys{i % 4}") for i in range(5) for j, rater in enumerate(("ann", "bob"))
]
HEADER = "story_id,rater,warmth,wit,system"
ITEMS = """\
name: own
items:
  warmth:
    praise: [How warm!, Lovely.]
    blame: [Cold.]
  wit:
    blame: [Not funny.]
"""


def application() -> typer.Typer:
    made = typer.Typer(pretty_exceptions_enable=False)
    made.command("evaluate", epilog=EXAMPLES)(evaluate_command)
    return made


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs ``carp evaluate WORDS...`` in a folder with stories, ratings and items."""
    monkeypatch.chdir(tmp_path)
    write_stories(tmp_path / "stories.jsonl", [{"story_id": i, "story": text} for i, text in enumerate(TEXTS)])
    write_rows(tmp_path / "ratings.csv", RATINGS, HEADER)
    (tmp_path / "items.yaml").write_text(ITEMS)

    def start(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["carp evaluate", *words])
        with pytest.raises(SystemExit) as caught:
            run(application())
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return start


EVALUATE = ("--ratings", "ratings.csv", "--stories", "stories.jsonl", "--resamples", "100", "--out", "results")


def read_results(folder: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    found = json.loads((folder / "correlations.json").read_text())["correlations"]
    return {(one["level"], one["scale"], one["candidate"]): one for one in found}


def test_reviews_of_items_against_ratings(cli: Run, model: CarpModel, model_folder: Path, tmp_path: Path) -> None:
    words = (*EVALUATE[:-1], "results", "-e", "carp:model", "--reviews-of-items", "items.yaml")
    code, out, err = cli(*words)
    assert (code, err) == (0, "report: results/README.md\n")
    folder = tmp_path / "results"
    names = ["README.md", "correlations.csv", "correlations.json", "scores.csv", "spearman.png"]
    assert sorted(os.listdir(folder)) == names
    assert (folder / "spearman.png").read_bytes().startswith(PNG)
    cosines = carp.score(TEXTS, ["How warm!", "Lovely.", "Cold.", "Not funny."], model=model).astype(float)
    warmth, wit = cosines[:, :2].mean(1) - cosines[:, 2], -cosines[:, 3]
    ratings = {
        name: [np.mean([row[at] for row in RATINGS if row[0] == i]) for i in range(5)]
        for name, at in (("warmth", 2), ("wit", 3))
    }
    found = read_results(folder)
    expected = {
        "warmth": (warmth, ratings["warmth"]),
        "wit": (wit, ratings["wit"]),
        "overall": ((warmth + wit) / 2, np.add(ratings["warmth"], ratings["wit"])),
    }
    for scale, (x, y) in expected.items():
        one = found[STORIES, scale, "carp:model"]
        assert one["n"] == 5
        for name, function in SCIPY.items():
            assert one["coefficients"][name]["value"] == pytest.approx(function(x, y).statistic, abs=1e-4)
    assert found[SYSTEMS, "wit", "carp:model"]["n"] == 4
    assert {level for level, *_ in found} == {STORIES, LEVELLED, SYSTEMS}
    assert len(found) == 3 * 3 * 3  # levels, scales, candidates
    value = found[STORIES, "wit", "carp:model"]["coefficients"]["spearman"]["value"]
    assert f"wit; carp:model: Spearman {value:.2f} [" in out
    page = (folder / "README.md").read_text()
    assert "5 stories of 4 systems, 2 raters, 2 for each story" in page
    assert "| wit | carp:model | 5 |" in page
    with (folder / "scores.csv").open() as file:
        scores = {(row["story"], row["scale"], row["of"]): float(row["score"]) for row in csv.DictReader(file)}
    assert scores["3", "wit", "carp:model"] == pytest.approx(wit[3], abs=1e-6)
    assert scores["3", "wit", "people"] == ratings["wit"][3]
    assert scores["3", "wit", WORDS] == 8
    with (folder / "correlations.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 27 * 3
    made = json.loads((folder / "correlations.json").read_text())["made"]
    assert "model.safetensors" in made["evaluators"]["carp:model"]

    words = tuple("again" if word == "results" else word for word in words)
    assert cli(*words)[0] == 0
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_each_of_the_papers_reviews_against_each_scale(
    cli: Run, model: CarpModel, model_folder: Path, tmp_path: Path
) -> None:
    assert cli(*EVALUATE, "-e", "carp:model", "--scales", "wit", "--system", "none")[0] == 0
    found = read_results(tmp_path / "results")
    candidates = [*(f"carp:model, {review}" for review in REVIEWS), WORDS, PEOPLE]
    assert set(found) == {(level, "wit", name) for level in (STORIES, LEVELLED) for name in candidates}
    boring = carp.score(TEXTS, "This is boring.", model=model)[:, 0]
    wit = [np.mean([row[3] for row in RATINGS if row[0] == i]) for i in range(5)]
    value = found[STORIES, "wit", "carp:model, This is boring."]["coefficients"]["kendall"]["value"]
    assert value == pytest.approx(stats.kendalltau(boring, wit).statistic)


def test_a_judges_ratings_are_one_more_rater(cli: Run, tmp_path: Path) -> None:
    judged = [(i, f"answer-{j}", "" if (i, j) == (2, 1) else 5 - i + j, 9) for i in range(4) for j in (1, 2)]
    write_rows(tmp_path / "judge.csv", [*judged, ("unknown", "answer-1", 3, 9)], "story_id,rater,warmth,tone")
    code, out, _ = cli(*EVALUATE, "-e", "ratings:judge.csv")
    assert code == 0
    found = read_results(tmp_path / "results")
    one = found[STORIES, "warmth", "ratings:judge.csv"]
    means = [6.5, 5.5, 5, 3.5]  # of the third story one answer has no rating: 7 - 2
    assert one["n"] == 4
    assert one["coefficients"]["pearson"]["value"] == pytest.approx(
        stats.pearsonr(means, [0.5, 1.5, 2.5, 3.5]).statistic
    )
    assert (STORIES, "wit", "ratings:judge.csv") not in found
    assert "warmth; ratings:judge.csv: Spearman -1.00 [" in out


def test_a_scale_of_its_own_has_no_other_overall_score(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "wit.yaml").write_text("name: wit\nitems:\n  wit:\n    praise: [Ha!]\n")
    rows = [(i, "Ha!", i % 3) for i in range(5)]
    write_rows(tmp_path / "other.csv", rows, "story_id,review,score")
    words = (*EVALUATE, "-e", "scores:other.csv", "--scales", "wit", "--reviews-of-items", "wit.yaml")
    assert cli(*words)[0] == 0
    assert {scale for _, scale, _ in read_results(tmp_path / "results")} == {"wit"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--votes", "votes.csv"], "give --votes or --ratings, one of the two"),
        (["--ratings", ""], "give --votes or --ratings, one of the two"),
        (["--human", "shares"], "--human: belongs to --votes; leave it out"),
        (["--temperature", "1"], "--temperature: belongs to --votes; leave it out"),
        (["--ratings", "", "--votes", "v.csv", "--scales", "wit"], "--scales: belongs to --ratings; leave it out"),
        (["--ratings", "", "--votes", "v.csv", "--system", "none"], "--system: belongs to --ratings; leave it out"),
        (
            ["--ratings", "", "--votes", "v.csv", "--reviews-of-items", "items.yaml"],
            "--reviews-of-items: belongs to --ratings; leave it out",
        ),
        (
            ["--reviews", "twice.txt", "--reviews-of-items", "items.yaml"],
            "--reviews and --reviews-of-items: give one of the two",
        ),
        (["--reviews", "twice.txt"], "--reviews: 'Fine.' comes twice; leave one out"),
        (
            ["--reviews-of-items", "nowhere"],
            "--reviews-of-items nowhere: no such file, and no bundled definition; those a",
        ),
        (
            ["--reviews-of-items", "other.yaml"],
            "--reviews-of-items: other has the item 'warmht', which is no scale of ratings.csv (nearest: 'warmth') (",
        ),
        (["--ratings", "missing.csv"], "missing.csv: no such file"),
        (
            ["--ratings", "rater.csv"],
            "rater.csv: no column for the rater (columns: story_id, who, warmth); call one rater",
        ),
        (
            ["--ratings", "words.csv"],
            "words.csv, row 1, column 'warmth': 'warm' is not a number; write a number or leave",
        ),
        (["--ratings", "again.csv"], "again.csv, row 2: rater 'ann' rates story '0' as in row 1; keep one of them"),
        (
            ["--ratings", "mixed.csv"],
            "mixed.csv, row 2: story '0' has the system 't', but 's' in row 1; mend one of them",
        ),
        (
            ["--ratings", "strange.csv"],
            "stories.jsonl: no story '77', which strange.csv rates; add it or mend its name",
        ),
        (["--scales", "depth"], "--scales depth: ratings.csv has no such column"),
        (["--stories", "missing.jsonl"], "missing.jsonl: no such file"),
        (
            ["--stories", "columns.jsonl"],
            "columns.jsonl, row 1: no columns for a story's name and text (story_id, words); c",
        ),
        (["--stories", "blank.jsonl"], "blank.jsonl, row 1: nothing to read in 'story'; fill it in or remove the row"),
        (
            ["--stories", "names.jsonl"],
            "names.jsonl, row 2: the same name of a story as in names.jsonl, row 1; change or",
        ),
        (
            ["--stories", "texts.jsonl"],
            "texts.jsonl, row 2: the same text of a story as in texts.jsonl, row 1; change or",
        ),
        (["-e", "gpt:4"], "--evaluator gpt:4: no such evaluator; give "),
        (["-e", "uniform", "-e", "uniform"], "--evaluator uniform: given twice; leave one out"),
        (["-e", "carp:nowhere"], "nowhere: no such folder"),
        (["-e", "ratings:missing.csv"], "missing.csv: no such file"),
        (
            ["-e", "ratings:tone.csv"],
            "--evaluator ratings:tone.csv: has no column of a scale (warmth, wit); rename its c",
        ),
        (["-e", "scores:few.csv"], "few.csv: no score of story '0' for 'This kind of drags on.'; add a row with it"),
        (["--resamples", "5"], "--resamples 5: give at least 100"),
        (["--seed", "-1"], "--seed -1: give a number from 0"),
        (["--out", "full"], "--out full: exists already; name a new folder"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(cli: Run, tmp_path: Path, words: list[str], message: str) -> None:
    write_rows(tmp_path / "rater.csv", [(0, "ann", 1)], "story_id,who,warmth")
    write_rows(tmp_path / "words.csv", [(0, "ann", "warm")])
    write_rows(tmp_path / "again.csv", [(0, "ann", 1), (0, "ann", 2)])
    write_rows(tmp_path / "mixed.csv", [(0, "ann", 1, "s"), (0, "bob", 2, "t")], "story_id,rater,warmth,system")
    write_rows(tmp_path / "strange.csv", [(0, "ann", 1), (77, "ann", 2)])
    write_rows(tmp_path / "tone.csv", [(0, "ann", 1)], "story_id,rater,tone")
    write_rows(tmp_path / "few.csv", [(0, "Fine.", 1)], "story_id,review,score")
    for name, rows in {
        "columns": [{"story_id": 0, "words": "x"}],
        "blank": [{"story_id": 0, "story": " "}],
        "names": [{"story_id": 0, "story": "x"}, {"story_id": 0, "story": "y"}],
        "texts": [{"story_id": 0, "story": "x"}, {"story_id": 1, "story": "x"}],
    }.items():
        write_stories(tmp_path / f"{name}.jsonl", rows)
    (tmp_path / "twice.txt").write_text("Fine.\nBad.\nFine.\n")
    (tmp_path / "other.yaml").write_text("name: other\nitems:\n  warmht:\n    praise: [Lovely.]\n")
    (tmp_path / "full").mkdir()
    before = sorted(os.listdir(tmp_path))
    code, out, err = cli(*EVALUATE, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"carp: {message}")
    assert sorted(os.listdir(tmp_path)) == before


def test_a_run_that_breaks_off_while_writing_leaves_nothing(
    cli: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full_disk(*arguments: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report, "page", full_disk)
    before = sorted(os.listdir(tmp_path))
    code, _, err = cli(*EVALUATE)
    assert (code, err) == (1, "carp: No space left on device: while writing\n")
    assert sorted(os.listdir(tmp_path)) == before


# -- documentation ----------------------------------------------------------------------------------------

PAGE = (REPOSITORY / "docs" / "ratings-of-evaluators.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("line", "".join(blocks("bash")).replace("\\\n", " ").splitlines())
def test_a_documented_command_parses(line: str) -> None:
    command: Any = typer.main.get_command(application())
    assert command.make_context("evaluate", shlex.split(line)[2:]).params["ratings"]


def test_the_documented_items_are_some() -> None:
    (block,) = blocks("yaml")
    assert list(Items.model_validate(yaml.safe_load(block)).items) == ["warmth", "clarity"]


# -- real data --------------------------------------------------------------------------------------------


def test_the_ratings_of_the_confederacy(tmp_path: Path) -> None:
    ratings = read_people(str(shared_data("confederacy_ratings.csv")), scales="item_7")
    texts = read_texts(str(shared_data("confederacy_stories.jsonl.gz")), ratings)
    assert (len(texts), len(ratings.systems)) == (65, 13)
    found = by_name(correlate(ratings, word_counts(texts, ratings), [], FEW))
    overall = found[STORIES, "overall", PEOPLE].coefficients["pearson"]
    # Raters drawn without an order agree as the ICC says, 0.48; the paper's order of raters gives 0.58.
    assert overall.value == pytest.approx(0.48, abs=0.02)
    assert found[STORIES, "overall", PEOPLE].n == 65
    assert found[SYSTEMS, "overall", PEOPLE].n == 13
    assert (found[LEVELLED, "overall", PEOPLE].coefficients["pearson"].value or 0) > (overall.value or 0)
    assert (found[STORIES, "item_7", PEOPLE].coefficients["pearson"].value or 0) < (overall.value or 0)
