"""The page on evaluators against people's ratings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from carp.data.report.markdown import escape
from carp.evaluation.correlating.candidates import WORDS
from carp.evaluation.correlating.coefficients import COEFFICIENTS
from carp.evaluation.correlating.items import Items
from carp.evaluation.correlating.measuring import DRAWS, PEOPLE, Correlation, undefined
from carp.evaluation.correlating.people import LEVELLED, STORIES, SYSTEMS
from carp.evaluation.origins import origin_section
from carp.evaluation.ratings.formats import Cell, Table, markdown, with_interval
from carp.evaluation.ratings.table import Ratings
from carp.evaluation.resampling import beats

NAMES = dict(zip(COEFFICIENTS, ("Pearson's r", "Spearman's ρ", "Kendall's τ-b"), strict=True))
WHAT = {
    STORIES: "A story is a case: its score, and the mean of people's ratings.",
    LEVELLED: "The same after each rater's mean has been taken away: a strict rater and a mild one then agree where "
    "they order stories alike. What differs between the stories that different raters read is taken away, too.",
    SYSTEMS: "A system is a case: the means over its stories.",
}
NOTES = f"""\
- 95 % intervals: bootstrap over the cases (stories; systems with their stories), percentiles.
- "{WORDS}" is the baseline that reads nothing: the longer, the better.
- "{PEOPLE}" is the ceiling: one rater of each story, drawn at random {DRAWS} times, against the mean of the others. An
  evaluator is held against the mean of all raters, which is less noisy: it can exceed the ceiling.
- \\* : the interval of the difference from "{WORDS}", on the same cases and resamples, lies above 0. Nothing is
  corrected for the number of cells: of forty that mean nothing, one will have a mark."""


def page(found: Sequence[Correlation], ratings: Ratings, what: Items | Sequence[str], made: Mapping[str, Any]) -> str:
    """The page; ``made`` says how it was made."""
    raters = np.bincount(np.unique(np.stack([ratings.story, ratings.rater]), axis=1)[0])
    systems = f" of {len(ratings.systems):,} systems" if ratings.systems else ""
    each = f"{raters.min()}" if raters.min() == raters.max() else f"{raters.min()} to {raters.max()}"
    sections = [
        "# Evaluators against people's ratings",
        f"{len(ratings.story):,} rows of ratings on {len(ratings.values):,} scales: {len(ratings.stories):,} stories"
        f"{systems}, {len(ratings.raters):,} raters, {each} for each story. {_signals(what)}",
        "![Spearman's correlation over stories](spearman.png)",
    ]
    for level in dict.fromkeys(one.level for one in found):
        of_level = [one for one in found if one.level == level]
        sections += [f"## {level.capitalize()}", WHAT[level], _table(of_level)]
    reasons = list(undefined(found))
    sections += [NOTES, *(["Not defined:\n\n" + "\n".join(f"- {escape(line)}" for line in reasons)] if reasons else [])]
    sections += [*_reviews(what), *_origin(made, ratings)]
    return "\n\n".join(section.rstrip("\n") for section in sections) + "\n"


def _signals(what: Items | Sequence[str]) -> str:
    if isinstance(what, Items):
        return (
            "An evaluator's score on a scale is the mean score of the reviews that praise a story for it, minus the "
            "mean score of those that blame it; its overall score is the mean over the scales."
        )
    return "Every review's score is held against every scale."


def _table(found: Sequence[Correlation]) -> str:
    rows = [
        [Cell(one.scale), Cell(one.candidate), Cell(f"{one.n:,}"), *(Cell(_cell(one, name)) for name in NAMES)]
        for one in found
    ]
    return markdown(Table("", "", ["scale", "evaluator", "n", *NAMES.values()], rows, names=2))


def _cell(found: Correlation, name: str) -> str:
    estimate = found.coefficients[name]
    return with_interval(estimate.value, estimate.interval) + (r" \*" if beats(found.above_words.get(name)) else "")


def _reviews(what: Items | Sequence[str]) -> list[str]:
    if not isinstance(what, Items):
        return []
    lines = [
        f"- **{escape(item)}**, {side}: {'; '.join(map(escape, reviews))}"
        for item, sides in what.items.items()
        for side, reviews in sides.items()
    ]
    source = f" ({escape(what.source)})" if what.source else ""
    return [f"## Reviews of the items: {escape(what.name)}{source}", "\n".join(lines)]


def _origin(made: Mapping[str, Any], ratings: Ratings) -> list[str]:
    overall = "its column" if ratings.columns.overall_is_column else f"the {ratings.columns.overall} of the scales"
    results = ("correlations.json", "correlations.csv", "scores.csv")
    return origin_section(made, made["files"], made["evaluators"], results, f"People's overall score: {overall}.")
