"""A report on ratings as a Markdown page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from carp.data.report.markdown import escape
from carp.evaluation.ratings.figures import figure_names
from carp.evaluation.ratings.formats import Table, markdown
from carp.evaluation.ratings.summaries import scores
from carp.evaluation.ratings.tables import reasons

if TYPE_CHECKING:
    from carp.evaluation.ratings.report import Report

AGREEMENT = """\
- Pairs are two ratings of one story on one scale, the first by the rater who comes first in natural order (2 before
  10). κ, r and τ depend on who is first; α and ICC do not, and suit raters without roles.
- κ weighs disagreements by 0 or 1 (unweighted), their distance (linear), or its square (quadratic).
- α and ICC take all ratings of a story, not pairs, and count differences of the raters' levels as disagreement.
  ICC(1) is of one rating, for stories that have different raters; ICC(1, k) of the mean of a story's ratings.
- "Mean of rater pairs" correlates within each two raters that share five stories or more, and averages: the raters'
  own levels make no difference there.
- "pooled" takes each story on each scale as a case. Raters then agree also by knowing that one scale is rated lower
  than another. Asymptotic intervals take the scales of a story for independent, and are too narrow there.
- A value without a bootstrap interval is not defined in a tenth of the resamples or more.
- n counts pairs for shares of equal pairs, κ, r and τ, else stories (pooled: stories on scales)."""
TESTS = """\
Two-sided t-tests with unequal variances (Welch). Ratings of one story, and scales of one rating, are no independent
cases, so tests of single ratings find differences too easily; those of story means do not, but have few cases."""


def page(report: Report) -> str:
    """The page; its tables and pictures lie in the folders ``tables`` and ``figures``."""
    overall, pictures = report.ratings.overall_name, figure_names(list(scores(report.ratings)))
    sections = [
        f"# Ratings: {escape(Path(report.ratings.source).name)}",
        _counts(report),
        "## Means",
        *_table(report.tables["means"]),
        _picture(overall, pictures),
        *(_table(report.tables["systems"]) if "systems" in report.tables else []),
        *_table(report.tables["scales"]),
        *_agreement(report),
        *_groups(report),
        *_tests(report),
        *(["## The distribution on each scale"] if len(pictures) > 1 else []),
        *(_picture(scale, pictures) for scale in report.ratings.values if scale != overall),
        *_origin(report),
    ]
    return "\n\n".join(section.rstrip("\n") for section in sections) + "\n"


def _counts(report: Report) -> str:
    counts = report.counts
    systems = f" of {counts['systems']} systems" if counts["systems"] else ""
    missing = f" Missing: {counts['missing']:,} ratings on a scale." if counts["missing"] else ""
    return (
        f"{counts['rows']:,} rows: {counts['stories']:,} stories{systems}, rated by {counts['raters']:,} raters on "
        f"{counts['scales']} scales; {counts['stories_with_two_raters']:,} stories have two raters or more.{missing} "
        f"{_overall(report)}"
    )


def _overall(report: Report) -> str:
    ratings = report.ratings
    if ratings.single:
        return "The only scale is the overall score, too."
    if not ratings.columns.overall_is_column:
        return f"The overall score is the {ratings.columns.overall} of the scales; a missing rating leaves none."
    sums = np.stack(list(ratings.values.values())).sum(0)
    given = ~np.isnan(ratings.overall)
    equal = int(np.isclose(sums, ratings.overall)[given].sum())
    return (
        f"The overall score is the column {escape(ratings.columns.overall)}; it equals the sum of the scales in "
        f"{equal:,} of {int(given.sum()):,} rows."
    )


def _table(table: Table) -> list[str]:
    files = ", ".join(f"[{kind}](tables/{table.name}.{kind})" for kind in ("csv", "tex", "md"))
    return [markdown(table), f"{escape(table.caption)} ({files})"]


def _picture(scale: str, pictures: Mapping[str, str]) -> str:
    return f"![Box plot of {escape(scale)}](figures/{pictures[scale]})"


def _agreement(report: Report) -> list[str]:
    return [
        "## Agreement of the raters",
        *_table(report.tables["agreement"]),
        *_table(report.tables["agreement_kappas"]),
        *_table(report.tables["agreement_correlations"]),
        *_notes(reasons(report.agreement)),
        AGREEMENT,
    ]


def _notes(lines: Sequence[str]) -> list[str]:
    return ["Not defined: " + "; ".join(escape(line) for line in lines) + "."] if lines else []


def _groups(report: Report) -> list[str]:
    if not report.groups:
        return []
    notes = [f"{group}, {line}" for group, found in report.groups.items() for line in reasons(found)]
    folded = ["<details><summary>Agreement within each group</summary>", *_table(report.tables["groups"]), "</details>"]
    return ["## Groups of stories", *folded, *_notes(notes)]


def _tests(report: Report) -> list[str]:
    if not report.tests:
        why = "no system to compare with: name one with --reference" if report.counts["systems"] > 1 else "one system"
        return ["## Tests", f"None: {why}."]
    tables: Mapping[str, Table] = {name: table for name, table in report.tables.items() if name.startswith("tests_")}
    undefined = {
        f"{test.system}, {scores}: {test.undefined}": None
        for scores, tests in report.tests.items()
        for test in tests
        if test.undefined
    }
    return [
        f"## Tests against {escape(report.reference or '')}",
        TESTS,
        *(line for table in tables.values() for line in _table(table)),
        *_notes(list(undefined)),
    ]


def _origin(report: Report) -> list[str]:
    ratings, options = report.ratings, report.options
    made = ", ".join(f"{name} {number}" for name, number in report.versions.items())
    columns = {name: getattr(ratings.columns, name) for name in ("story", "rater", "system", "group", "overall")}
    columns["scales"] = ", ".join(ratings.columns.scales)
    return [
        "## How this was made",
        f"File `{ratings.source}`, SHA-256 `{ratings.sha256}`. Columns: "
        + "; ".join(f"{part}: {escape(name)}" for part, name in columns.items() if name)
        + f". Bootstrap: {options.resamples:,} resamples of the stories, percentiles, seed {options.seed}.",
        f"Versions: {made}.",
        "All figures: [agreement.json](agreement.json).",
    ]
