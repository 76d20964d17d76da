"""``carp votes new`` and ``carp evaluate --votes``: files of votes, attention checks, forms, the commands."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from conftest import REPOSITORY, shared_data
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes

import carp
from carp.cli import evaluate as evaluate_cli
from carp.cli import votes as votes_cli
from carp.cli.main import run
from carp.errors import CarpError, InputError
from carp.evaluation import evaluators
from carp.evaluation.evaluators import KINDS, UniformEvaluator, checked_scores, make_evaluator, origin, sha256
from carp.evaluation.votes import report
from carp.evaluation.votes.data import Attendance, Votes, read_votes
from carp.evaluation.votes.distributions import check_scipy
from carp.evaluation.votes.evaluation import PEOPLE, Options, evaluate
from carp.evaluation.votes.figures import plain_name, plot_figure4
from carp.evaluation.votes.form import COLUMNS, assign, write_form
from carp.evaluation.votes.measures import MEASURES
from carp.evaluation.votes.stories import BUNDLED_CHECK, read_study
from carp.model.carp_model import CarpModel
from carp.reviews import REVIEWS

scipy_stats = pytest.importorskip("scipy.stats", reason="comparing with people needs scipy (extra eval)")

PNG = b"\x89PNG\r\n\x1a\n"
DRAGS, SHORT, CHEERY, DEPRESSING, EXCITING, BORING = REVIEWS[:6]
CHECK_ID = BUNDLED_CHECK.story.story_id
STORIES = {"rain": "It was raining. John took an umbrella.", "party": "She laughed and laughed and laughed."}
VOTES = [  # story, participant, review
    *[("rain", "ann", DRAGS), ("rain", "ann", BORING), ("rain", "bob", BORING), ("rain", "cem", SHORT)],
    *[("party", "ann", CHEERY), ("party", "bob", CHEERY), ("party", "bob", SHORT)],
]
Row = tuple[str, str, str]


def write_stories(path: Path, stories: dict[str, str] = STORIES, **more: Any) -> str:
    rows = [{"story_id": name, "story": text, **more.get(name, {})} for name, text in stories.items()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def write_votes(path: Path, votes: Sequence[Row] = VOTES, header: str = "story_id,participant,review") -> str:
    path.write_text("\n".join([header, *map(",".join, votes)]) + "\n", encoding="utf-8")
    return str(path)


def read(folder: Path, votes: Sequence[Row], stories: dict[str, str] = STORIES, **more: Any) -> Votes:
    study = read_study(write_stories(folder / "stories.jsonl", stories, **more), REVIEWS)
    return read_votes(write_votes(folder / "votes.csv", votes), study, REVIEWS)


# -- reading ----------------------------------------------------------------------------------------------


def test_votes_are_counted_per_story_and_review(tmp_path: Path) -> None:
    votes = read(tmp_path, VOTES)
    assert [story.story_id for story in votes.stories] == ["rain", "party"]
    assert votes.participants == ("ann", "bob", "cem")
    expected = [[1, 1, 0, 0, 0, 2, 0, 0, 0], [0, 1, 2, 0, 0, 0, 0, 0, 0]]
    assert votes.counts().tolist() == expected
    assert len(votes.choices) == 5
    assert votes.attendance == Attendance(3, (), 0, 0)
    twice = votes.counts(np.where(votes.participant == 0, 2.0, 0.0)[None])  # ann twice, nobody else
    assert twice.tolist() == [[[2, 0, 0, 0, 0, 2, 0, 0, 0], [0, 0, 2, 0, 0, 0, 0, 0, 0]]]


def test_the_order_and_the_format_of_the_file_change_nothing(tmp_path: Path) -> None:
    study = read_study(write_stories(tmp_path / "stories.jsonl"), REVIEWS)
    lines = [dict(zip(("story_id", "participant", "review"), vote, strict=True)) for vote in VOTES]
    (tmp_path / "votes.jsonl").write_text("".join(json.dumps({**line, "time": 3}) + "\n" for line in lines))
    marked = [("story_id", "participant", "review", "vote"), *((*vote, "X") for vote in VOTES)]
    blank = ("rain", "cem", DRAGS, " ")
    (tmp_path / "form.csv").write_text("\n".join(map(",".join, [*marked, blank])))
    first = read_votes(write_votes(tmp_path / "votes.csv", VOTES[::-1]), study, REVIEWS)
    for name in ("votes.jsonl", "form.csv"):
        found = read_votes(str(tmp_path / name), study, REVIEWS)
        assert found.choices.tolist() == first.choices.tolist()
        assert (found.story.tolist(), found.participant.tolist()) == (first.story.tolist(), first.participant.tolist())


def test_who_fails_the_check_or_does_not_answer_it_is_left_out_and_counted(tmp_path: Path) -> None:
    checks = [
        *[(CHECK_ID, "ann", DEPRESSING), (CHECK_ID, "ann", DRAGS), (CHECK_ID, "bob", DEPRESSING)],
        *[(CHECK_ID, "dan", review) for review in REVIEWS],  # ticks everything
        (CHECK_ID, "eve", EXCITING),
    ]
    more = [("rain", "dan", EXCITING), ("rain", "eve", EXCITING)]
    votes = read(tmp_path, [*VOTES, *checks, *more])
    assert votes.attendance == Attendance(5, (CHECK_ID,), failed=2, unanswered=1)  # cem
    assert votes.participants == ("ann", "bob")
    assert votes.counts()[0].tolist() == [1, 0, 0, 0, 0, 2, 0, 0, 0]


def test_a_study_has_checks_of_its_own(tmp_path: Path) -> None:
    own = {"fun": {"attention": {"fits": CHEERY, "contradicts": [DEPRESSING, BORING]}}}
    stories = {**STORIES, "fun": "Hooray, hooray, hooray!"}
    checks = [("fun", "ann", CHEERY), ("fun", "bob", CHEERY), ("fun", "bob", BORING)]
    votes = read(tmp_path, [*VOTES, *checks], stories, **own)
    assert [story.story_id for story in votes.stories] == ["rain", "party"]
    assert votes.attendance == Attendance(3, ("fun",), failed=1, unanswered=1)
    assert votes.participants == ("ann",)
    with pytest.raises(InputError, match=f"no story '{CHECK_ID}' in the study; correct it"):
        read(tmp_path, [*VOTES, (CHECK_ID, "ann", DEPRESSING)], stories, **own)


# -- evaluators -------------------------------------------------------------------------------------------


def test_an_unknown_evaluator_is_told_the_kinds() -> None:
    for spec in ("gpt", "carp", "carp:", "scores:", "uniform:1"):
        with pytest.raises(InputError, match=re.escape(f"--evaluator {spec}: no such evaluator; give ")) as caught:
            make_evaluator(spec, {})
        assert all(kind in str(caught.value) for kind in KINDS)


def test_scores_that_are_none_are_refused() -> None:
    class Broken(UniformEvaluator):
        def scores(self, stories: Sequence[str], reviews: Sequence[str], progress: bool) -> evaluators.Floats:
            return np.array([[0.0, np.nan]])

    with pytest.raises(CarpError, match=r"uniform: gave nan for story 1, 'b'"):
        checked_scores(Broken(), ["s"], ["a", "b"])
    with pytest.raises(CarpError, match=r"uniform: gave scores of shape \(1, 2\) for 2 x 2"):
        checked_scores(Broken(), ["s", "t"], ["a", "b"])


def test_what_an_evaluator_was_is_recorded(model_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("story_id,review,score\n")
    assert origin(f"scores:{tmp_path / 's.csv'}") == {"s.csv": sha256(tmp_path / "s.csv")}
    assert origin(f"carp:{model_folder}")["model.safetensors"] == sha256(model_folder / "model.safetensors")
    assert origin("uniform") == {}
    assert origin("carp:nobody/nothing") == {}


def test_scipy_is_asked_for_by_the_name_of_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(InputError, match=re.escape("pip install 'carp-critic[eval]'")):
        check_scipy()


# -- forms ------------------------------------------------------------------------------------------------


@given(stories=st.integers(1, 9), people=st.integers(1, 30), data=st.data())
def test_stories_are_assigned_evenly(stories: int, people: int, data: st.DataObject) -> None:
    each = data.draw(st.integers(1, stories))
    found = assign(stories, people, each, np.random.default_rng(data.draw(st.integers(0, 99))))
    assert all(len(set(row)) == each for row in found.tolist())
    counts = np.bincount(found.ravel(), minlength=stories)
    assert counts.max() - counts.min() <= 1


def form_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_form_shows_every_review_on_every_page(tmp_path: Path) -> None:
    stories = write_stories(tmp_path / "stories.jsonl", {f"s{i}": f"Story {i}\nends, here." for i in range(5)})
    form = write_form(stories, tmp_path / "form.csv", participants=12, per_participant=2)
    assert (form.ballots, form.checks) == ((4, 5), 1)
    rows = form_rows(tmp_path / "form.csv")
    assert tuple(rows[0]) == COLUMNS
    pages = [rows[i : i + 9] for i in range(0, len(rows), 9)]
    assert len(pages) == 12 * 3
    for page in pages:
        assert sorted(row["review"] for row in page) == sorted(REVIEWS)
        assert [row["position"] for row in page] == list("123456789")
        assert len({(row["participant"], row["page"], row["story_id"]) for row in page}) == 1
        assert [bool(row["story"]) for row in page] == [bool(row["question"]) for row in page] == [True, *[False] * 8]
    assert Counter(page[0]["story_id"] for page in pages)[CHECK_ID] == 12
    assert {page[0]["page"] for page in pages if page[0]["story_id"] == CHECK_ID} == {"1", "2", "3"}
    orders = {tuple(row["review"] for row in page) for page in pages}
    assert len(orders) > 30  # nearly every page has its own
    assert pages[0][0]["participant"] == "p01"
    assert not any(row["vote"] for row in rows)


def test_the_same_seed_gives_the_same_form(tmp_path: Path) -> None:
    stories = write_stories(tmp_path / "stories.jsonl")
    for name, seed in (("a", 4), ("b", 4), ("c", 5)):
        write_form(stories, tmp_path / name, participants=5, per_participant=2, seed=seed)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() != (tmp_path / "c").read_bytes()


def fill(path: Path, fits: dict[str, set[str]], careless: Sequence[str] = ()) -> None:
    """Everybody marks what fits; the careless find misery cheery."""
    rows = form_rows(path)
    for row in rows:
        inattentive = row["participant"] in careless and row["story_id"] == CHECK_ID
        fitting = {CHEERY} if inattentive else fits[row["story_id"]]
        row["vote"] = "x" if row["review"] in fitting else ""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


# -- the commands -----------------------------------------------------------------------------------------

Run = Callable[..., tuple[int, str, str]]


def application() -> typer.Typer:
    made = typer.Typer()
    made.command("evaluate", epilog=evaluate_cli.EXAMPLES)(evaluate_cli.evaluate_command)
    made.add_typer(votes_cli.app, name="votes")
    return made


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs ``carp WORDS...`` in a folder with stories and votes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    write_stories(tmp_path / "stories.jsonl")
    write_votes(tmp_path / "votes.csv")

    def start(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["carp", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            run(application())
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return start


EVALUATE = ("evaluate", "--votes", "votes.csv", "--stories", "stories.jsonl", "--resamples", "100", "--out", "results")


def write_scores(path: Path, scores: evaluators.Floats, stories: Sequence[str] = tuple(STORIES)) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["story_id", "review", "score"])
        for story, row in zip(stories, scores, strict=True):
            writer.writerows([story, review, float(score)] for review, score in zip(REVIEWS, row, strict=True))


def test_a_form_is_written_filled_and_evaluated(cli: Run, model: CarpModel, model_folder: Path, tmp_path: Path) -> None:
    new = ("votes", "new", "--stories", "stories.jsonl", "--out", "form.csv")
    code, out, err = cli(*new, "--participants", "9", "--per-participant", "2")
    assert (code, err) == (0, "")
    assert out.startswith("9 participants with 2 of 2 stories and 1 attention check each; 9 participants per story")
    fits = {"rain": {DRAGS, BORING}, "party": {CHEERY, SHORT}, CHECK_ID: {DEPRESSING, DRAGS}}
    fill(tmp_path / "form.csv", fits, careless=["p2", "p7"])
    scores = np.random.default_rng(0).normal(size=(2, 9))
    write_scores(tmp_path / "other.csv", scores)
    words = ["evaluate", "--votes", "form.csv", "--stories", "stories.jsonl", "--resamples", "100", "--out"]
    evaluators = ["--evaluator", "carp:model", "-e", "scores:other.csv"]
    code, out, err = cli(*words, "results", *evaluators)
    assert code == 0
    expected = "left out of 9 participants: 2 who failed the attention check, 0 who did not answer it\n"
    assert err.endswith(f"{expected}report: results/README.md\n")
    assert [line.split(": cosine ")[0] for line in out.splitlines()] == [
        "carp:model",
        "scores:other.csv",
        "uniform",
        PEOPLE,
    ]

    folder = tmp_path / "results"
    names = ["README.md", "comparisons.csv", "distributions.csv", "evaluation.json", "figure4.png", "stories.csv"]
    assert sorted(os.listdir(folder)) == [*names, "summary.csv"]
    assert (folder / "figure4.png").read_bytes().startswith(PNG)
    found = json.loads((folder / "evaluation.json").read_text())
    human = np.exp([7.0 * (review in fits["rain"]) for review in REVIEWS])
    cosines = carp.score(list(STORIES.values()), model=model)[0].astype(float)
    mine = found["stories"]["rain"]["evaluators"]["carp:model"]
    assert list(mine["scores"].values()) == pytest.approx(cosines.tolist(), abs=1e-6)
    p, q = human / human.sum(), np.exp(cosines) / np.exp(cosines).sum()
    assert mine["kl"] == pytest.approx(scipy_stats.entropy(p, q), abs=1e-5)
    assert mine["cosine"] == pytest.approx(p @ q / np.linalg.norm(p) / np.linalg.norm(q), abs=1e-5)
    assert list(found["stories"]["party"]["evaluators"]["scores:other.csv"]["scores"].values()) == scores[1].tolist()
    assert found["votes"]["attention"] == {"participants": 9, "checks": [CHECK_ID], "failed": 2, "unanswered": 0}
    assert found["summary"]["uniform"]["spearman"]["value"] is None
    assert found["made"]["files"]["votes"]["sha256"] == sha256(tmp_path / "form.csv")
    assert found["made"]["evaluators"]["scores:other.csv"] == {"other.csv": sha256(tmp_path / "other.csv")}

    page = (folder / "README.md").read_text()
    assert "failed it, 2 (22.2 % [6.3, 54.7]), and who did not answer it, 0 (0.0 %" in page
    assert "uniform: Spearman is undefined for 2 stories" in page
    with (folder / "summary.csv").open() as file:
        summary = {(row["evaluator"], row["measure"]): row for row in csv.DictReader(file)}
    assert float(summary["carp:model", "kl"]["mean"]) == found["summary"]["carp:model"]["kl"]["value"]
    assert summary["uniform", "spearman"]["mean"] == ""
    rows = {name: len((folder / f"{name}.csv").read_text().splitlines()) - 1 for name in ("stories", "distributions")}
    assert rows == {"stories": 2 * 4, "distributions": 2 * 9 * 4}
    assert len((folder / "comparisons.csv").read_text().splitlines()) == 1 + len(MEASURES) * 3

    assert cli(*words, "again", *evaluators)[0] == 0
    for name in os.listdir(folder):
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_paraphrases_change_the_scores_of_carp(cli: Run, model_folder: Path, model: CarpModel, tmp_path: Path) -> None:
    assert cli(*EVALUATE, "-e", "carp:model", "--paraphrases", "bundled")[0] == 0
    found = json.loads((tmp_path / "results" / "evaluation.json").read_text())
    expected = carp.score(STORIES["rain"], model=model, paraphrases="bundled")
    scores = found["stories"]["rain"]["evaluators"]["carp:model"]["scores"]
    assert list(scores.values()) == pytest.approx(expected.tolist(), abs=1e-6)
    assert found["made"]["options"]["paraphrases"] == "bundled"


def test_one_story_read_by_one_person(cli: Run, tmp_path: Path) -> None:
    write_stories(tmp_path / "stories.jsonl", {"rain": STORIES["rain"]})
    write_votes(tmp_path / "votes.csv", VOTES[:2])
    code, out, _ = cli(*EVALUATE)
    assert (code, out.splitlines()[1]) == (0, f"{PEOPLE}: cosine undefined; KL undefined")
    page = (tmp_path / "results" / "README.md").read_text()
    assert "With one story, intervals are over participants alone" in page
    assert "There is no ceiling for 1 story, with a single participant." in page
    assert "NaN" not in (tmp_path / "results" / "evaluation.json").read_text()


def test_the_figure_has_cosines_on_top_and_divergences_below(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drawn: list[Any] = []
    boxplot = Axes.boxplot

    def record(axis: Axes, values: Any, **more: Any) -> Any:
        drawn.append(values)
        return boxplot(axis, values, **more)

    monkeypatch.setattr(Axes, "boxplot", record)
    scores = np.random.default_rng(0).normal(size=(2, 9))
    found = evaluate(read(tmp_path, VOTES), {"mine": scores}, Options(resamples=100))
    plot_figure4(found, tmp_path / "figure.png")
    for boxes, measure in zip(drawn, (0, 1), strict=True):
        everyone = [result.values[measure] for result in (*found.results, found.people)]
        assert [box.tolist() for box in boxes] == [values.tolist() for values in everyone]
    assert list(MEASURES)[:2] == ["cosine", "kl"]


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


def test_names_are_no_formulas_and_keep_their_end() -> None:
    assert plain_name("carp:runs/$a") == r"carp:runs/\$a"
    assert plain_name("carp:/a/very/long/folder/of/runs/mine_2").endswith("runs/mine_2")
    assert len(plain_name("scores:" + "x" * 90)) <= 30


BAD_FILES = {
    "review.csv": [*VOTES, ("rain", "dan", "This is borring.")],
    "story.csv": [*VOTES, ("rains", "dan", BORING)],
    "twice.csv": [*VOTES, VOTES[2]],
    "silent.csv": [vote for vote in VOTES if vote[0] == "rain"],
    "nobody.csv": [*VOTES, ("rain", " ", BORING)],
    "none.csv": [],
    "careless.csv": [(CHECK_ID, "ann", CHEERY), *VOTES[:2]],
    "deserted.csv": [*VOTES, *((CHECK_ID, name, DEPRESSING) for name in ("cem", "dan"))],
}
BAD_STORIES: dict[str, list[dict[str, Any]]] = {
    "ids.jsonl": [{"story_id": "a", "story": "x"}, {"story_id": "a", "story": "y"}],
    "texts.jsonl": [{"story_id": "a", "story": "x"}, {"story_id": "b", "story": " x"}],
    "untold.jsonl": [{"story_id": "a"}],
    "blank.jsonl": [{"story_id": "a", "story": " "}],
    "check.jsonl": [{"story_id": "a", "story": "x", "attention": "sad"}],
    "fits.jsonl": [{"story_id": "a", "story": "x", "attention": {"fits": "This is too chery."}}],
    "checks.jsonl": [{"story_id": "a", "story": "x", "attention": {"fits": CHEERY}}],
}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--votes", "review.csv"],
            "review.csv, row 8: no review 'This is borring.' in the study (nearest: 'This is b",
        ),
        (["--votes", "story.csv"], "story.csv, row 8: no story 'rains' in the study (nearest: 'rain'); correct it or"),
        (
            ["--votes", "twice.csv"],
            "twice.csv, row 8: 'bob' voted for 'This is boring.' of story 'rain' before, in twi",
        ),
        (
            ["--votes", "silent.csv"],
            "stories.jsonl, row 2: story 'party' has no votes in silent.csv; collect some or r",
        ),
        (
            ["--votes", "nobody.csv"],
            "nobody.csv, row 8: nothing to read in 'participant'; fill it in or remove the row",
        ),
        (["--votes", "none.csv"], "none.csv: holds no votes; write one row per vote"),
        (["--votes", "careless.csv"], "careless.csv: all 1 participants failed the attention check; ask others"),
        (
            ["--votes", "deserted.csv"],
            "stories.jsonl, row 2: story 'party' has no votes of participants who passed the",
        ),
        (
            ["--votes", "column.csv"],
            "column.csv, row 1: no column 'participant' (columns: story_id, person, review); a",
        ),
        (["--votes", "mark.csv"], "mark.csv, row 1: 'maybe' in 'vote' is no mark; write x, or leave it empty"),
        (["--votes", "missing.csv"], "missing.csv: no such file"),
        (["--stories", "ids.jsonl"], "ids.jsonl, row 2: the id 'a' is also that of ids.jsonl, row 1; change one"),
        (["--stories", "texts.jsonl"], "texts.jsonl, row 2: the same text as texts.jsonl, row 1; remove one"),
        (["--stories", "untold.jsonl"], "untold.jsonl, row 1: no column 'story' (columns: story_id); add it or rename"),
        (["--stories", "blank.jsonl"], "blank.jsonl, row 1: nothing to read in 'story'; fill it in or remove the row"),
        (
            ["--stories", "check.jsonl"],
            'check.jsonl, row 1: write \'attention\' as {"fits": a review, "contradicts": [',
        ),
        (
            ["--stories", "fits.jsonl"],
            "fits.jsonl, row 1: 'attention' names no review of the study: 'This is too chery",
        ),
        (["--stories", "checks.jsonl"], "checks.jsonl: holds no stories to judge; give it one"),
        (["--reviews", "one.txt"], "--reviews: people need something to choose from; give at least two"),
        (["--reviews", "same.txt"], "--reviews: 'Fine.' comes twice; leave one out"),
        (
            ["--evaluator", "gpt:4"],
            "--evaluator gpt:4: no such evaluator; give carp:MODEL, prompt:LM, "
            "multiple-choice:LM, finetuned:LM, scores:FILE or uniform",
        ),
        (["-e", "uniform", "-e", "uniform"], "--evaluator uniform: given twice; leave one out"),
        (["-e", "carp:nowhere"], "nowhere: no such folder"),
        (["-e", "scores:missing.csv"], "missing.csv: no such file"),
        (
            ["-e", "scores:few.csv"],
            "few.csv: no score of story 'rain' for 'This is a bit too short.'; add a row with it",
        ),
        (["-e", "scores:words.csv"], "words.csv, row 1: the score 'high' is no finite number; write one"),
        (
            ["-e", "scores:again.csv"],
            "again.csv, row 2: a second score of story 'rain' for 'This kind of drags on.'; r",
        ),
        (
            ["-e", "scores:votes.csv"],
            "votes.csv, row 1: no column 'score' (columns: story_id, participant, review); ad",
        ),
        (["--human", "mean"], "--human mean: choose softmax or shares"),
        (["--temperature", "0"], "--temperature 0.0: give a number above 0"),
        (["--temperature", "nan"], "--temperature nan: give a number above 0"),
        (["--resamples", "5"], "--resamples 5: give at least 100, or the intervals mean nothing"),
        (["--seed", "-1"], "--seed -1: give 0 or more"),
        (["--out", "full"], "--out full: exists already; name a new folder"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(cli: Run, tmp_path: Path, words: list[str], message: str) -> None:
    for name, votes in BAD_FILES.items():
        write_votes(tmp_path / name, votes)
    for name, rows in BAD_STORIES.items():
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_votes(tmp_path / "column.csv", header="story_id,person,review")
    write_votes(tmp_path / "mark.csv", [("rain,ann", "maybe", BORING)], "story_id,participant,vote,review")
    for name, scores in {"few": ["1"], "words": ["high"], "again": ["1", "2"]}.items():
        lines = [f"rain,{DRAGS},{score}" for score in scores]
        (tmp_path / f"{name}.csv").write_text("\n".join(["story_id,review,score", *lines]))
    (tmp_path / "one.txt").write_text("Fine.\n")
    (tmp_path / "same.txt").write_text("Fine.\nBad.\nFine.\n")
    (tmp_path / "full").mkdir()
    before = sorted(os.listdir(tmp_path))
    code, out, err = cli(*EVALUATE, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"carp: {message}")
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--per-participant", "3"], "--per-participant 3: give 1 to 2, the number of stories"),
        (["--per-participant", "0"], "--per-participant 0: give 1 to 2, the number of stories"),
        (["--per-participant", "1", "--participants", "1"], "--participants 1: give at least 2, or some story has no"),
        (["--participants", "0"], "--participants 0: give at least 1, or some story has no reader"),
        (["--out", "votes.csv"], "--out votes.csv: exists already, and may hold votes; name a new file"),
        (["--out", "no/form.csv"], "--out no/form.csv: there is no folder "),
        (["--seed", "-1"], "--seed -1: give 0 or more"),
        (
            ["--reviews", "own.txt"],
            "stories.jsonl: no attention check, and the bundled one needs other reviews; give o",
        ),
        (["--stories", "missing.jsonl"], "missing.jsonl: no such file"),
    ],
)
def test_a_form_that_cannot_be_is_refused(cli: Run, tmp_path: Path, words: list[str], message: str) -> None:
    (tmp_path / "own.txt").write_text("Good.\nBad.\n")
    before = sorted(os.listdir(tmp_path))
    default = ["votes", "new", "--stories", "stories.jsonl", "--per-participant", "2", "--out", "form.csv"]
    code, out, err = cli(*default, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"carp: {message}")
    assert sorted(os.listdir(tmp_path)) == before


# -- documentation -----------------------------------------------------------------------------------------

PAGE = (REPOSITORY / "docs" / "votes.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("line", "".join(blocks("bash")).replace("\\\n", " ").splitlines())
def test_a_documented_command_parses(line: str) -> None:
    words = shlex.split(line)[1:]
    command: Any = typer.main.get_command(application())
    while words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    assert command.make_context(command.name, words).params["out"]


# -- real data --------------------------------------------------------------------------------------------


def test_the_votes_of_real_experts_as_documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = shared_data("critiques.jsonl.gz")
    block = blocks("python")[0].replace("../shared/data/critiques.jsonl.gz", str(source))
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "votes.md", "exec"), {})
    reviews = (tmp_path / "reviews.txt").read_text(encoding="utf-8").splitlines()
    votes = read_votes("votes.csv", read_study("stories.jsonl", reviews), reviews)
    assert (len(votes.stories), len(reviews), len(votes.choices)) == (24, 14, 72)
    found = evaluate(votes, {}, Options(human="shares", resamples=200))
    rank = found.people.estimates["spearman"]
    assert rank.low is not None
    assert 0 < rank.low < (rank.value or 0) < 0.6  # experts agree, if weakly
