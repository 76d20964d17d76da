"""``carp votes``: collecting what people say of stories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """
Examples:

  carp votes new --stories stories.jsonl --out form.csv

  carp votes new --stories stories.jsonl --participants 40 --per-participant 5 --out form.csv

  carp evaluate --votes form.csv --stories stories.jsonl --out results     (once the form is filled)
"""

app = typer.Typer(help="Collect votes: which reviews do people find fitting?", no_args_is_help=True)


@app.callback()
def _votes() -> None:
    """Collect votes: which reviews do people find fitting?"""


@app.command("new", epilog=EXAMPLES)
def new_command(
    stories: Annotated[str, typer.Option(help="JSON Lines with story_id and story.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The form, a CSV file; must be new.")],
    participants: Annotated[int, typer.Option(help="How many people will be asked.")] = 200,
    per_participant: Annotated[int, typer.Option(help="Stories for each of them.")] = 3,
    reviews: Annotated[str, typer.Option(help="A text file with one review per line; default: the paper's nine.")] = "",
    seed: Annotated[int, typer.Option(help="Of the random order.")] = 0,
) -> None:
    """Write an empty form: stories divided evenly, reviews in random order, an attention check."""
    from carp.evaluation.votes.form import write_form
    from carp.reviews import REVIEWS
    from carp.scoring.stories import read_lines

    chosen = read_lines(reviews, "reviews") if reviews else REVIEWS
    form = write_form(stories, out, participants, per_participant, chosen, seed)
    fewest, most = form.ballots
    print(
        f"{form.participants} participants with {form.per_participant} of {form.stories} stories and "
        f"{form.checks} attention {'check' if form.checks == 1 else 'checks'} each; "
        f"{fewest if fewest == most else f'{fewest} or {most}'} participants per story: {out}"
    )
