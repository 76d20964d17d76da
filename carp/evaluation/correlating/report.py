"""``carp evaluate --ratings``: from files to a folder with a page, a figure and all numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from carp.errors import InputError
from carp.evaluation.correlating.candidates import Candidate, make_candidates, word_counts
from carp.evaluation.correlating.coefficients import COEFFICIENTS
from carp.evaluation.correlating.items import Items
from carp.evaluation.correlating.measuring import Correlation, correlate
from carp.evaluation.correlating.page import page
from carp.evaluation.correlating.people import STORIES, rated
from carp.evaluation.correlating.reading import read_people, read_texts
from carp.evaluation.definitions import repeated
from carp.evaluation.evaluators import origin, sha256
from carp.evaluation.panels import draw_panels
from carp.evaluation.ratings.formats import Table, comma_separated
from carp.evaluation.ratings.intervals import scipy_stats
from carp.evaluation.ratings.summaries import scores
from carp.evaluation.ratings.table import Ratings
from carp.evaluation.resampling import DEFAULT, Resampling, columns
from carp.files import written_folder
from carp.reviews import REVIEWS
from carp.versions import versions

AXIS = "Spearman's ρ over stories, 95 % interval; blue: does not hold 0"


def write_correlations(
    ratings: str,
    stories: str,
    evaluators: Sequence[str],
    output: str | Path,
    what: Items | Sequence[str] = REVIEWS,
    scales: str = "",
    system: str = "",
    paraphrases: str = "",
    resampling: Resampling = DEFAULT,
    progress: bool = False,
) -> list[Correlation]:
    """Write ``README.md``, ``spearman.png``, ``correlations.json`` and two CSV files into a new folder.

    Args:
        ratings, scales, system: see :func:`~carp.evaluation.correlating.reading.read_people`.
        stories: see :func:`~carp.evaluation.correlating.reading.read_texts`.
        evaluators, what, paraphrases: see :func:`~carp.evaluation.correlating.candidates.make_candidates`.
        output: the folder; must not exist.
        resampling: for the intervals.
        progress: show bars on stderr.

    Raises:
        InputError: names the file, the row, the field and the mend; nothing is written then.
    """
    target = Path(output)
    if target.exists() or target.is_symlink():
        raise InputError(f"--out {output}: exists already; name a new folder")
    if twice := repeated(evaluators):
        raise InputError(f"--evaluator {twice}: given twice; leave one out")
    scipy_stats()
    people = read_people(ratings, scales, system)
    texts = read_texts(stories, people)
    candidates = list(make_candidates(evaluators, people, texts, what, paraphrases)(progress))
    words = word_counts(texts, people)
    found = correlate(people, words, candidates, resampling)
    made = {
        "files": {"ratings": _file(ratings), "stories": _file(stories)},
        "evaluators": {spec: origin(spec) for spec in evaluators},
        "options": {**asdict(resampling), "paraphrases": paraphrases or "none"},
        "versions": {**versions(), **{name: version(name) for name in ("numpy", "scipy")}},
    }
    with written_folder(target) as draft:
        _write(found, people, (words, *candidates), what, made, draft)
    return found


def _file(path: str) -> dict[str, str]:
    return {"path": path, "sha256": sha256(path) if Path(path).is_file() else "not a single file"}


def _write(
    found: Sequence[Correlation],
    people: Ratings,
    candidates: Sequence[Candidate],
    what: Items | Sequence[str],
    made: dict[str, Any],
    folder: Path,
) -> None:
    draw_panels(_panels(found), list(scores(people)), 0, AXIS, folder / "spearman.png")
    (folder / "README.md").write_text(page(found, people, what, made), encoding="utf-8")
    everything = {
        "made": made,
        "reviews": what.model_dump() if isinstance(what, Items) else list(what),
        "correlations": [asdict(one) for one in found],
    }
    text = json.dumps(everything, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "correlations.json").write_text(text + "\n", encoding="utf-8")
    for name, records in (("correlations", _records(found)), ("scores", _scores(people, candidates))):
        (folder / f"{name}.csv").write_text(comma_separated(Table(name, "", [], [], records)), encoding="utf-8")


def _panels(found: Sequence[Correlation]) -> dict[str, dict[str, Any]]:
    panels: dict[str, dict[str, Any]] = {}
    for one in found:
        points = panels.setdefault(one.candidate, {})
        estimate = one.coefficients["spearman"]
        if one.level == STORIES and estimate.value is not None:
            points[one.scale] = (estimate.value, estimate.interval)
    return panels


def _records(found: Sequence[Correlation]) -> list[dict[str, Any]]:
    return [
        {
            **{part: getattr(one, part) for part in ("level", "scale", "candidate", "n")},
            "coefficient": name,
            **columns("value", one.coefficients[name]),
            **columns("above_words", one.above_words.get(name)),
            "undefined": one.coefficients[name].undefined,
        }
        for one in found
        for name in COEFFICIENTS
    ]


def _scores(people: Ratings, candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
    """People's mean rating and every candidate's score, of each story on each scale."""
    rows = []
    for scale, column in scores(people).items():
        means = rated(people, column, levelled=False).means()
        given = {one.name: one.values[scale] for one in candidates if scale in one.values}
        for index, story in enumerate(people.stories):
            of_story = {"people": means, **given}
            known = {name: float(values[index]) for name, values in of_story.items() if not np.isnan(values[index])}
            rows += [{"story": story, "scale": scale, "of": name, "score": value} for name, value in known.items()]
    return rows
