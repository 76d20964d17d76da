"""``carp probe``: damage, invariances and length, on scorers whose answers are known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from carp.cli.main import app
from carp.data.damage.kinds import KINDS
from carp.errors import InputError
from carp.evaluation.evaluators import Floats
from carp.evaluation.probing.changes import INVARIANCES, first_half, other_names, other_paragraphs, other_quotes
from carp.evaluation.probing.measuring import probe
from carp.evaluation.probing.passages import read_passages
from carp.evaluation.resampling import Resampling

SHOUTING = next(kind for kind in KINDS if kind.name == "shouting")
RESAMPLING = Resampling(200)


def exclamations(texts: Sequence[str], reviews: Sequence[str]) -> Floats:
    """A judge that sees nothing but exclamation marks, and the length for all other reviews."""
    marks = set(SHOUTING.remarks("probe"))
    loud = np.array([text.count("!") + len(text) / 1e4 for text in texts])
    length = np.array([len(text) / 1e4 for text in texts])
    return np.stack([loud if review in marks else length for review in reviews], 1)


def test_the_remark_that_fits_rises_and_the_others_do_not() -> None:
    passages = read_passages("sample", 60, seed=0)
    found = {one.kind.name: one for one in probe(passages, exclamations, RESAMPLING).kinds}
    shouting = found["shouting"]
    assert shouting.rise.value is not None
    assert shouting.rise.value > 1
    assert shouting.rise.interval is not None
    assert shouting.rise.interval[0] > 0
    assert shouting.won.value == 1
    assert max(shouting.rises, key=shouting.rises.__getitem__) == "shouting"
    assert found["spelling"].rise.value == pytest.approx(0, abs=0.2)
    assert found["spelling"].groups <= found["spelling"].passages <= 60


def test_rises_are_counted_by_hand() -> None:
    passages = read_passages("sample", 20, seed=1)
    rng = np.random.default_rng(0)
    columns = [remark for kind in KINDS for remark in kind.remarks("probe")]
    known = {}

    def scored(texts: Sequence[str], reviews: Sequence[str]) -> Floats:
        for text in texts:
            for review in reviews:
                known.setdefault((text, review), rng.normal())
        return np.array([[known[text, review] for review in reviews] for text in texts])

    kind = KINDS[3]
    found = probe(passages, scored, RESAMPLING).kinds[3]
    clean = scored(passages.texts, columns)
    rises = []
    for text in passages.texts:
        if (other := kind.damaged(text, "probe")) is not None:
            change = (scored([other], columns)[0] - scored([text], columns)[0]) / clean.std(0)
            of_kind = {one.name: np.mean([change[columns.index(r)] for r in one.remarks("probe")]) for one in KINDS}
            rises.append(of_kind[kind.name] - np.mean([v for name, v in of_kind.items() if name != kind.name]))
    assert found.passages == len(rises)
    assert found.rise.value == pytest.approx(np.mean(rises))
    assert found.won.value == pytest.approx(np.mean(np.array(rises) > 0))


def test_what_makes_no_difference_moves_nothing() -> None:
    passages = read_passages("sample", 30, seed=0)

    def words(texts: Sequence[str], reviews: Sequence[str]) -> Floats:
        return np.array([[float(len(text.split()))] * len(reviews) for text in texts])

    found = probe(passages, words, RESAMPLING)
    for moved in found.invariances:
        assert moved.distance.value == 0
        assert moved.passages > 0
    assert all(one.change.value is not None and one.change.value < -1 for one in found.length)


def test_passages_that_all_score_the_same_are_refused() -> None:
    with pytest.raises(InputError, match="same score"):
        probe(read_passages("sample", 10, 0), lambda texts, reviews: np.zeros((len(texts), len(reviews))), RESAMPLING)


TEXT = 'Anna met Bo. "It\'s Bo," said Anna.\n\nThe rain went on. Nobody met Anna there. They left.'


def test_changes_that_mean_nothing() -> None:
    assert other_names("We saw Mara. Then Mara left.") == "We saw Marek. Then Marek left."
    assert other_quotes(TEXT).count("“") == other_quotes(TEXT).count("”") == 1
    assert "It’s" in other_quotes(TEXT)
    assert other_quotes(other_quotes(TEXT)) == TEXT
    assert "\n" not in other_paragraphs(TEXT)
    assert "\n\n" in other_paragraphs(other_paragraphs(TEXT))
    assert TEXT.startswith(first_half(TEXT))
    for change in INVARIANCES.values():
        assert len(change(TEXT).split()) == len(TEXT.split())


def test_only_long_passages_of_several_groups_are_used(tmp_path: Path) -> None:
    long = " ".join(["word"] * 70)
    rows = [{"passage": long, "critique": "This drags on."}, {"passage": "short", "critique": "This drags on."}]
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    with pytest.raises(InputError, match="fewer than two passages of 60 words"):
        read_passages(str(path), 10, 0)
    many = read_passages("sample", 25, 3)
    assert len(many.texts) == 25
    assert list(many.texts) == list(read_passages("sample", 25, 3).texts)
    assert list(many.texts) != list(read_passages("sample", 25, 4).texts)


def test_the_command_writes_page_pictures_and_figures(model_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = CliRunner().invoke(
        app, ["probe", str(model_folder), "--out", str(out), "--limit", "12", "--resamples", "100"]
    )
    assert done.exit_code == 0, done.output
    assert {file.name for file in out.iterdir()} == {"README.md", "probe.json", "rises.png", "matrix.png"}
    found = json.loads((out / "probe.json").read_text())
    assert [kind["name"] for kind in found["damage"]] == [kind.name for kind in KINDS]
    assert found["made"]["passages"]["passages"] == 12
    page = (out / "README.md").read_text()
    for kind in KINDS:
        assert kind.title in page
    assert "never trained on" in done.output
