"""``carp evaluate``: automatic evaluators against people."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from carp.evaluation.correlating.measuring import Correlation
    from carp.evaluation.votes.evaluation import Evaluation

EXAMPLES = """
Examples:

  carp evaluate --votes votes.csv --stories stories.jsonl --evaluator carp:runs/mine --out results

  carp evaluate --votes form.csv --stories stories.jsonl --evaluator carp:runs/a --evaluator carp:runs/b --out results

  carp evaluate --votes votes.csv --stories stories.jsonl --evaluator scores:others.csv --human shares --out results

  carp evaluate --ratings ratings.csv --stories stories.jsonl --evaluator carp:runs/mine
  --reviews-of-items confederacy --out results

The page is README.md in the folder that --out names, a plot lies beside it; a JSON file holds all figures.
"""
VOTES_HELP = "CSV with story_id, participant, review, one row per vote; or a filled form of  carp votes new."
RATINGS_HELP = "CSV, JSON Lines or Parquet: one row per story and rater, one column per scale."
EVALUATOR_HELP = (
    "carp:MODEL, prompt:LM, multiple-choice:LM, finetuned:LM, scores:FILE (columns story_id, review, score), uniform, "
    "or, with --ratings, ratings:FILE (of carp judge); may be repeated."
)
ITEMS_HELP = "With --ratings: the reviews that praise and blame each scale: confederacy, or a YAML file."
SCALES_HELP = "With --ratings: names or globs between commas. Default: item_*, else all columns left."
HUMAN_HELP = "With --votes: softmax of the counts, as in the paper (the default), or shares of the votes."
TEMPERATURE_HELP = "With --votes: divides evaluators' scores before the softmax; the paper has none."


def evaluate_command(
    stories: Annotated[str, typer.Option(help="JSON Lines with story_id and story.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder to write; must be new.")],
    votes: Annotated[str, typer.Option(metavar="FILE", help=VOTES_HELP)] = "",
    ratings: Annotated[str, typer.Option(metavar="FILE", help=RATINGS_HELP)] = "",
    evaluator: Annotated[list[str] | None, typer.Option("--evaluator", "-e", help=EVALUATOR_HELP)] = None,
    reviews: Annotated[str, typer.Option(help="A text file with one review per line; default: the paper's nine.")] = "",
    reviews_of_items: Annotated[str, typer.Option(metavar="NAME|FILE", help=ITEMS_HELP)] = "",
    scales: Annotated[str, typer.Option(help=SCALES_HELP)] = "",
    system: Annotated[str, typer.Option(help="With --ratings: the column of who wrote the story, or none.")] = "",
    human: Annotated[str, typer.Option(help=HUMAN_HELP)] = "",
    temperature: Annotated[float | None, typer.Option(help=TEMPERATURE_HELP)] = None,
    paraphrases: Annotated[str, typer.Option(help="Average CARP's reviews over them: bundled or pegasus.")] = "",
    resamples: Annotated[int, typer.Option(help="Of the bootstrap.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
) -> None:
    """Compare evaluators with people's votes or ratings: which one is nearest, and by how much?"""
    of_ratings = {"--reviews-of-items": bool(reviews_of_items), "--scales": bool(scales), "--system": bool(system)}
    _check_options(votes, ratings, of_ratings, {"--human": bool(human), "--temperature": temperature is not None})
    evaluators, show = evaluator or [], sys.stderr.isatty()
    if votes:
        from carp.evaluation.votes.evaluation import Options
        from carp.evaluation.votes.report import write_evaluation

        chosen: Any = human or "softmax"  # Options says what can be chosen
        options = Options(chosen, 1.0 if temperature is None else temperature, resamples, seed)
        _print_evaluation(
            write_evaluation(votes, stories, evaluators, out, _reviews(reviews), paraphrases, options, show)
        )
    else:
        from carp.evaluation.correlating.report import write_correlations
        from carp.evaluation.resampling import Resampling

        what = _reviews(reviews, reviews_of_items)
        resampling = Resampling(resamples, seed)
        for found in write_correlations(
            ratings, stories, evaluators, out, what, scales, system, paraphrases, resampling, show
        ):
            if line := _correlation_line(found):
                print(line)
    print(f"report: {out / 'README.md'}", file=sys.stderr)


def _check_options(votes: str, ratings: str, of_ratings: dict[str, bool], of_votes: dict[str, bool]) -> None:
    from carp.errors import InputError

    if bool(votes) == bool(ratings):
        raise InputError("give --votes or --ratings, one of the two")
    for option, given in (of_ratings if votes else of_votes).items():
        if given:
            raise InputError(f"{option}: belongs to {'--ratings' if votes else '--votes'}; leave it out")


def _reviews(file: str, items: str = "") -> Any:
    from carp.errors import InputError
    from carp.evaluation.correlating.items import load_items
    from carp.reviews import REVIEWS
    from carp.scoring.stories import read_lines

    if file and items:
        raise InputError("--reviews and --reviews-of-items: give one of the two")
    return load_items(items) if items else read_lines(file, "reviews") if file else REVIEWS


def _print_evaluation(found: Evaluation) -> None:
    from carp.evaluation.votes.page import cell

    for agreement in (*found.results, found.people):
        estimates = agreement.estimates
        print(f"{agreement.name}: cosine {cell(estimates['cosine'])}; KL {cell(estimates['kl'])}")
    attendance = found.votes.attendance
    if attendance.checks:
        counts = f"{attendance.failed} who failed the attention check, {attendance.unanswered} who did not answer it"
        print(f"left out of {attendance.participants} participants: {counts}", file=sys.stderr)


def _correlation_line(found: Correlation) -> str:
    """The rank correlation over stories; nothing for other levels, which the page has."""
    from carp.evaluation.correlating.people import STORIES
    from carp.evaluation.ratings.formats import with_interval

    spearman = found.coefficients["spearman"]
    value = spearman.undefined or with_interval(spearman.value, spearman.interval)
    return f"{found.scale}; {found.candidate}: Spearman {value} (n = {found.n})" if found.level == STORIES else ""
