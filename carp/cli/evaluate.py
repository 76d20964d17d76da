"""``carp evaluate``: automatic evaluators against people."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from carp.evaluation.votes.evaluation import Agreement

EXAMPLES = """
Examples:

  carp evaluate --votes votes.csv --stories stories.jsonl --evaluator carp:runs/mine --out results

  carp evaluate --votes form.csv --stories stories.jsonl --evaluator carp:runs/a --evaluator carp:runs/b --out results

  carp evaluate --votes votes.csv --stories stories.jsonl --evaluator scores:others.csv --human shares --out results

The page is README.md in the folder that --out names, the plot figure4.png; evaluation.json holds all figures.
"""
VOTES_HELP = "CSV with story_id, participant, review, one row per vote; or a filled form of  carp votes new."
EVALUATOR_HELP = "carp:MODEL, scores:FILE (columns story_id, review, score) or uniform; may be repeated."
HUMAN_HELP = "People's distribution: softmax of the counts, as in the paper, or shares of the votes."
TEMPERATURE_HELP = "Divides evaluators' scores before the softmax; the paper has none."


def evaluate_command(
    votes: Annotated[str, typer.Option(help=VOTES_HELP)],
    stories: Annotated[str, typer.Option(help="JSON Lines with story_id and story.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder to write; must be new.")],
    evaluator: Annotated[list[str] | None, typer.Option("--evaluator", "-e", help=EVALUATOR_HELP)] = None,
    reviews: Annotated[str, typer.Option(help="A text file with one review per line; default: the paper's nine.")] = "",
    human: Annotated[str, typer.Option(help=HUMAN_HELP)] = "softmax",
    temperature: Annotated[float, typer.Option(help=TEMPERATURE_HELP)] = 1.0,
    paraphrases: Annotated[str, typer.Option(help="Average CARP's reviews over them: bundled or pegasus.")] = "",
    resamples: Annotated[int, typer.Option(help="Of the bootstrap.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
) -> None:
    """Compare evaluators with people's votes: which one is nearest, and by how much?"""
    from carp.evaluation.votes.evaluation import Options
    from carp.evaluation.votes.report import write_evaluation
    from carp.reviews import REVIEWS
    from carp.scoring.stories import read_lines

    chosen: Any = human  # Options says what can be chosen
    options = Options(human=chosen, temperature=temperature, resamples=resamples, seed=seed)
    found = write_evaluation(
        votes,
        stories,
        evaluator or [],
        out,
        reviews=read_lines(reviews, "reviews") if reviews else REVIEWS,
        paraphrases=paraphrases,
        options=options,
        progress=sys.stderr.isatty(),
    )
    for agreement in (*found.results, found.people):
        print(_line(agreement))
    attendance = found.votes.attendance
    if attendance.checks:
        counts = f"{attendance.failed} who failed the attention check, {attendance.unanswered} who did not answer it"
        print(f"left out of {attendance.participants} participants: {counts}", file=sys.stderr)
    print(f"report: {out / 'README.md'}", file=sys.stderr)


def _line(found: Agreement) -> str:
    from carp.evaluation.votes.page import cell

    return f"{found.name}: cosine {cell(found.estimates['cosine'])}; KL {cell(found.estimates['kl'])}"
