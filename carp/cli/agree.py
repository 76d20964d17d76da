"""``carp agree``: ratings by several raters: means, agreement, tests, as a page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from carp.evaluation.ratings.report import Report

EXAMPLES = """
Examples:

  carp agree ratings.csv --out agreement

  carp agree ratings.csv --out agreement --reference human --range 1 10

  carp agree survey.csv --out agreement --story text --rater who --system none --scales "cohesion,likab*"

The file has one row per story and rater, one column per scale. The page is README.md in the folder that --out names;
agreement.json holds all figures.
"""
SCALES_HELP = "Names or globs between commas. Default: item_*, else all columns left."
REFERENCE_HELP = "Test all systems against this one. Default: human, if there is one."


def agree_command(
    ratings: Annotated[Path, typer.Argument(metavar="RATINGS", help="CSV, JSON Lines or Parquet.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder to write; must be new.")],
    story: Annotated[str, typer.Option(help="The column of the story. Default: by its name.")] = "",
    rater: Annotated[str, typer.Option(help="The column of the rater. Default: by its name.")] = "",
    system: Annotated[str, typer.Option(help="The column of who wrote the story, or none.")] = "",
    group: Annotated[str, typer.Option(help="Agreement also by this column, or none. Default: group.")] = "",
    scales: Annotated[str, typer.Option(help=SCALES_HELP)] = "",
    overall: Annotated[str, typer.Option(help="A column, sum or mean. Default: overall, else sum.")] = "",
    reference: Annotated[str, typer.Option(metavar="SYSTEM", help=REFERENCE_HELP)] = "",
    limits: Annotated[
        tuple[float, float] | None, typer.Option("--range", metavar="LOW HIGH", help="What the scales allow.")
    ] = None,
    resamples: Annotated[int, typer.Option(help="Of the bootstrap.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
) -> None:
    """Describe ratings: means by system, agreement of the raters, tests against a reference system."""
    from carp.evaluation.ratings.columns import Wanted
    from carp.evaluation.ratings.report import Options, write_agreement

    columns = Wanted(story=story, rater=rater, system=system, group=group, scales=scales, overall=overall)
    report = write_agreement(ratings, out, Options(columns, reference, limits, resamples, seed))
    print("\n".join(_lines(report)))
    print(f"report: {out / 'README.md'}", file=sys.stderr)


def _lines(report: Report) -> list[str]:
    from carp.evaluation.ratings.formats import with_interval
    from carp.evaluation.ratings.tables import COEFFICIENTS

    counts = report.counts
    lines = [f"{counts['rows']:,} ratings of {counts['stories']:,} stories by {counts['raters']:,} raters"]
    for measure in report.main_measures:
        for name in ("kappa_quadratic", "alpha_ordinal", "pearson"):
            found = report.agreement[measure][name]
            text = f"undefined: {found.undefined}" if found.undefined else with_interval(found.value, found.bootstrap)
            lines.append(f"{measure}: {COEFFICIENTS[name]} {text}")
    return lines
