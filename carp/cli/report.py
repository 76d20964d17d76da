"""``carp report``: the quality of a data set, as a page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from carp.constants import MINILM

if TYPE_CHECKING:
    from carp.data.report.report import DataSet

EXAMPLES = """
Examples:

  carp report prepared --out quality

  carp report pairs.jsonl --compare other.parquet --out comparison

  carp report prepared --out quality --sample 2000 --sentiment-model vader --toxicity-model none

The page is README.md in the folder that --out names; report.json holds all figures.
"""
TOXICITY_HELP = "A folder, a Hub id, alt-profanity-check, or none; default: the best that can be had."


def report_command(
    source: Annotated[str, typer.Argument(metavar="DIR", help="A prepared folder, or any file of pairs.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="REPORT", help="The folder to write; must be new.")],
    compare: Annotated[str, typer.Option(metavar="OTHER", help="Show another data set beside the first.")] = "",
    tokenizer: Annotated[str, typer.Option(help="Counts the tokens: a folder or Hub id.")] = MINILM,
    sample: Annotated[int, typer.Option(help="Critiques for sentiment and toxicity, at most.")] = 20_000,
    leakage_pairs: Annotated[int, typer.Option(help="Pairs for the leakage check, at most.")] = 1000,
    threshold: Annotated[float, typer.Option(help="Of toxicity and insult (the paper, Table 1).")] = 0.01,
    sentiment_model: Annotated[
        str, typer.Option(help="A folder, a Hub id, or vader; default: the best that can be had.")
    ] = "",
    toxicity_model: Annotated[str, typer.Option(help=TOXICITY_HELP)] = "",
) -> None:
    """Describe a data set: lengths, sentiment, toxicity, vocabulary, duplicates, leakage."""
    from carp.data.report.report import Options, write_report

    options = Options(
        tokenizer=tokenizer,
        sample=sample,
        leakage_pairs=leakage_pairs,
        threshold=threshold,
        sentiment_model=sentiment_model,
        toxicity_model=toxicity_model,
    )
    report = write_report(source, out, compare or None, options, progress=sys.stderr.isatty())
    for data in report.data_sets:
        print(_line(data))
    print(f"report: {out / 'README.md'}", file=sys.stderr)


def _line(data: DataSet) -> str:
    from carp.data.report.markdown import percent

    overlap = f"; top 1 by word overlap {100 * data.leakage.top1.value:.1f} %" if data.leakage else ""
    return f"{data.name}: {data.sizes.pairs:,} pairs; negative {percent(data.sentiment.negative)}{overlap}"
