"""The folder that ``carp judge`` writes: answers, ratings, tables."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from carp.data.records import read_records
from carp.errors import InputError
from carp.evaluation.judging.counts import Prices, Usage, Yield, usage, yields
from carp.evaluation.judging.run import Answer, Judgement
from carp.evaluation.judging.table import Correlation, Row, compare_groups, correlate, make_rows, rows_by_group
from carp.evaluation.ratings.columns import RATER, STORY, Wanted
from carp.evaluation.ratings.comparison import Comparison
from carp.evaluation.ratings.intervals import scipy_stats
from carp.evaluation.ratings.table import Ratings, read_ratings
from carp.files import written_folder
from carp.versions import versions

RATINGS = "ratings.csv"


@dataclass(frozen=True)
class Results:
    """All figures of a run."""

    judgement: Judgement
    people: str  # the file of their ratings; empty without one
    rows: list[Row]
    tests: dict[str, list[Comparison]]
    correlations: list[Correlation]
    yields: dict[str, Yield]
    total: Usage
    asked_now: Usage
    prices: Prices | None
    versions: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Everything, in plain types."""
        judgement, options = self.judgement, self.judgement.options
        queries = {scale.name: judgement.rubric.query(scale) for scale in judgement.scales}
        times = [answer.reply.asked for answer in judgement.answers]
        return {
            "judge": judgement.backend,
            "models": sorted({answer.reply.model for answer in judgement.answers if answer.reply.model}),
            "asked": {"first": min(times), "last": max(times)},
            "options": {key: value for key, value in asdict(options).items() if key != "cache"},
            "rubric": {"name": judgement.rubric.name, "source": judgement.rubric.source, "queries": queries},
            "stories": len(judgement.stories),
            "answers": {name: asdict(found) for name, found in self.yields.items()},
            "usage": {"total": asdict(self.total), "this run": asdict(self.asked_now)},
            "prices per million tokens": asdict(self.prices) if self.prices else None,
            "table": [asdict(row) for row in self.rows],
            "tests": {kind: [asdict(test) for test in tests] for kind, tests in self.tests.items()},
            "kendall with people": [asdict(found) for found in self.correlations],
            "people": self.people or None,
            "versions": self.versions,
        }


def check_output(out: str | Path) -> Path:
    """The folder that will be written.

    Raises:
        InputError: if it exists, or the statistics cannot be computed.
    """
    scipy_stats()  # what is missing is said before a model has worked for hours
    target = Path(out)
    if target.exists() or target.is_symlink():
        raise InputError(f"--out {out}: exists already; name a new folder (answers that were asked for are kept)")
    return target


def read_people(source: str | Path, scales: Sequence[str], stories: Sequence[str]) -> Ratings:
    """People's ratings, on those of the scales that the file has.

    Args:
        source: CSV, JSON Lines or Parquet: one row per story and rater, one column per scale.
        scales: of the judge.
        stories: ids of the judge's stories.

    Raises:
        InputError: names the file, the row, the column and the mend.
    """
    header = next((list(record) for _, record in read_records(source)), [])
    for what, names in (("the story", STORY), ("the rater", RATER)):
        if not set(names) & set(header):
            raise InputError(f"--people {source}: no column for {what}; name one of them {names[0]}, as in ratings.csv")
    shared = [name for name in scales if name in header]
    if not shared:
        raise InputError(
            f"--people {source}: no column of a scale ({', '.join(scales)}); name its columns as the scales"
        )
    people = read_ratings(source, Wanted(system="none", group="none", scales=",".join(shared), overall="mean"))
    if not set(people.stories) & set(stories):
        raise InputError(
            f"--people {source}: rates none of the stories (its first one is {people.stories[0]!r}, the judge's "
            f"{stories[0]!r}); give both the same ids"
        )
    return people


def write_results(
    judgement: Judgement, out: str | Path, people: Ratings | None = None, prices: Prices | None = None
) -> Results:
    """Write ``answers.jsonl``, ``ratings.csv``, ``summary.json`` and ``README.md`` into a new folder.

    Raises:
        InputError: if the folder exists.
    """
    from carp.evaluation.judging.page import page

    with written_folder(check_output(out)) as draft:
        write_answers(judgement, draft / "answers.jsonl")
        write_ratings(judgement, draft / RATINGS)
        results = _results(judgement, draft / RATINGS, people, prices)
        text = json.dumps(_plain(results.to_json()), indent=2, ensure_ascii=False, allow_nan=False)
        (draft / "summary.json").write_text(text + "\n", encoding="utf-8")
        (draft / "README.md").write_text(page(results), encoding="utf-8")
    return results


def write_answers(judgement: Judgement, path: Path) -> None:
    """Every answer as it came, with the rating in it or the reason why there is none."""
    with path.open("w", encoding="utf-8") as file:
        for answer in judgement.answers:
            file.write(json.dumps(_record(answer), ensure_ascii=False) + "\n")


def _record(answer: Answer) -> dict[str, Any]:
    group = {} if answer.story.group is None else {"group": answer.story.group}
    return {
        "story_id": answer.story.story_id,
        **group,
        "scale": answer.scale.name,
        "rater": _rater(answer),
        "rating": answer.reading.rating,
        "unparsed": answer.reading.reason or None,
        "seed": answer.question.seed,
        **asdict(answer.reply),
    }


def write_ratings(judgement: Judgement, path: Path) -> None:
    """One row per story and rater, one column per scale; an answer without a rating is an empty cell."""
    grouped = judgement.stories[0].group is not None
    head = ["story_id", "rater", *(["group"] if grouped else []), *(scale.name for scale in judgement.scales)]
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for answer in sorted(judgement.answers, key=lambda answer: answer.number):
        story, rater = answer.story, _rater(answer)
        row = rows.setdefault((story.story_id, rater), {"story_id": story.story_id, "rater": rater})
        row[answer.scale.name] = "" if answer.reading.rating is None else f"{answer.reading.rating:g}"
        if grouped:
            row["group"] = story.group
    order = {story.story_id: i for i, story in enumerate(judgement.stories)}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, head, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows.values(), key=lambda row: order[row["story_id"]]))


def _rater(answer: Answer) -> str:
    return f"answer-{answer.number}"


def _results(judgement: Judgement, ratings: Path, people: Ratings | None, prices: Prices | None) -> Results:
    scales = ",".join(scale.name for scale in judgement.scales)
    wanted = Wanted(story="story_id", rater="rater", system="none", group="none", scales=scales, overall="mean")
    judged = read_ratings(ratings, wanted)
    seed = judgement.options.seed
    group_of = {story.story_id: story.group for story in judgement.stories}
    groups = rows_by_group(judged, group_of)
    rows = make_rows("judge", judged, groups, seed)
    if people is not None:
        rows += make_rows("people", people, rows_by_group(people, group_of), seed)
    return Results(
        judgement=judgement,
        people=people.source if people is not None else "",
        rows=rows,
        tests=compare_groups(judged, groups),
        correlations=correlate(judged, people, groups, seed) if people is not None else [],
        yields=yields(judgement),
        total=usage(judgement.replies, prices),
        asked_now=usage([answer for answer in judgement.replies if answer.fresh], prices),
        prices=prices,
        versions=versions(),
    )


def _plain(value: Any) -> Any:
    """The same in what JSON knows, numbers to six digits behind the point."""
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
