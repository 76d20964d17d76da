"""``carp evaluate --votes``: from files to a folder with a page, a figure and all numbers."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from carp.errors import InputError
from carp.evaluation.evaluators import Evaluator, checked_scores, make_evaluator, origin, sha256
from carp.evaluation.votes.ceiling import REPEATS
from carp.evaluation.votes.data import read_votes
from carp.evaluation.votes.distributions import check_scipy
from carp.evaluation.votes.evaluation import Evaluation, Options, evaluate
from carp.evaluation.votes.figures import plot_figure4
from carp.evaluation.votes.page import page
from carp.evaluation.votes.stories import Stories, read_study
from carp.evaluation.votes.tables import TABLES, plain, to_json
from carp.files import written_folder
from carp.reviews import REVIEWS
from carp.versions import versions


def write_evaluation(
    votes: str,
    stories: str,
    evaluators: Sequence[str],
    output: str | Path,
    reviews: Sequence[str] = REVIEWS,
    paraphrases: str = "",
    options: Options | None = None,
    progress: bool = False,
) -> Evaluation:
    """Write ``README.md``, ``figure4.png``, ``evaluation.json`` and four CSV files into a new folder.

    Args:
        votes: see :func:`~carp.evaluation.votes.data.read_votes`.
        stories: see :func:`~carp.evaluation.votes.stories.read_study`.
        evaluators: words of :func:`~carp.evaluation.evaluators.make_evaluator`; the uniform baseline is added.
        output: the folder; must not exist.
        reviews: that people could choose.
        paraphrases: for CARP models; see :func:`~carp.evaluation.evaluators.make_evaluator`.
        options: how evaluators and people are compared.
        progress: show bars on stderr.

    Raises:
        InputError: names the file, the row, the field and the mend; nothing is written then.
    """
    check_scipy()
    target = Path(output)
    if target.exists() or target.is_symlink():
        raise InputError(f"--out {output}: exists already; name a new folder")
    if twice := [spec for place, spec in enumerate(evaluators) if spec in evaluators[:place]]:
        raise InputError(f"--evaluator {twice[0]}: given twice; leave one out")
    study = read_study(stories, reviews)
    cast = read_votes(votes, study, reviews)
    scores = {
        evaluator.name: checked_scores(evaluator, [story.text for story in study.studied], reviews, progress)
        for evaluator in _make_all(evaluators, study, paraphrases)
    }
    options = options or Options()
    found = evaluate(cast, scores, options)
    made = {
        "files": {"votes": _file(votes), "stories": _file(stories)},
        "evaluators": {spec: origin(spec) for spec in evaluators},
        "options": {**asdict(options), "paraphrases": paraphrases or "none", "splits": REPEATS},
        "versions": {**versions(), **{name: version(name) for name in ("numpy", "scipy")}},
    }
    with written_folder(target) as draft:
        _write(found, made, draft)
    return found


def _make_all(specs: Sequence[str], study: Stories, paraphrases: str) -> list[Evaluator]:
    """All evaluators, before the first one works: what is missing is said at once."""
    ids = {story.text: story.story_id for story in study.studied}
    return [make_evaluator(spec, ids, paraphrases) for spec in specs]


def _file(path: str) -> dict[str, str]:
    return {"path": path, "sha256": sha256(path) if Path(path).is_file() else "not a single file"}


def _write(found: Evaluation, made: dict[str, Any], folder: Path) -> None:
    plot_figure4(found, folder / "figure4.png")
    (folder / "README.md").write_text(page(found, made), encoding="utf-8")
    text = json.dumps(to_json(found, made), indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "evaluation.json").write_text(text + "\n", encoding="utf-8")
    for name, rows in TABLES.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(plain(row) for row in rows(found))
