"""``carp score``: stories against reviews, in the terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from carp.scoring.stories import Story

EXAMPLES = """
Examples:

  carp score story.txt --model runs/carp_nano

  carp score story.txt -r "This kind of drags on." -r "Show, don't tell!" --plot scores.png

  carp score *.txt --paraphrases bundled --json > scores.jsonl

  cat story.txt | carp score - --reviews my_reviews.txt
"""
BAR_WIDTH = 24


def score_command(
    stories: Annotated[list[str], typer.Argument(metavar="STORY...", help="Text or JSON Lines files; - for stdin.")],
    review: Annotated[list[str] | None, typer.Option("--review", "-r", help="A review; may be repeated.")] = None,
    reviews: Annotated[str, typer.Option(help="A text file with one review per line.")] = "",
    model: Annotated[str, typer.Option("--model", "-m", help="Folder or Hub id; default: $CARP_MODEL.")] = "",
    paraphrases: Annotated[
        str,
        typer.Option(help="Average over paraphrases: bundled, pegasus, or a JSON file {review: [phrases]}."),
    ] = "",
    window: Annotated[
        str,
        typer.Option(help="Tokens per window of a long story; none: only its beginning.", metavar="N|none"),
    ] = "context",
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON Lines instead of a table.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Also draw the scores into this PNG file.")] = None,
) -> None:
    """Score stories against reviews (by default the nine of the paper): how well does each fit?"""
    from carp.errors import InputError
    from carp.scoring.plots import MAX_STORIES, plot_scores
    from carp.scoring.stories import read_stories

    if plot is not None and plot.is_dir():
        raise InputError(f"--plot {plot}: a folder; name a PNG file")
    if plot is not None and not plot.absolute().parent.is_dir():
        raise InputError(f"--plot {plot}: there is no folder {plot.absolute().parent}")
    read = read_stories(stories)
    if plot is not None and len(read) > MAX_STORIES:
        raise InputError(f"--plot draws {MAX_STORIES} stories at most, not {len(read)}: plot fewer")
    phrases = _reviews(review, reviews)

    from carp.scoring.loading import load
    from carp.scoring.score import score

    scores = score(
        [story.text for story in read],
        phrases,
        model=load(model or None),
        paraphrases=_paraphrases(paraphrases),
        window=_window(window),
        progress=sys.stderr.isatty() and len(read) + len(phrases) > 100,
    )
    _print_json(read, phrases, scores) if as_json else _print_tables(read, phrases, scores)
    if plot is not None:
        plot_scores(scores, [story.story_id for story in read], phrases, plot)
        print(f"plot: {plot}", file=sys.stderr)


def _reviews(given: list[str] | None, file: str) -> list[str]:
    from carp.reviews import REVIEWS
    from carp.scoring.stories import read_text

    lines = [line.strip() for line in read_text(file, "reviews").splitlines() if line.strip()] if file else []
    return [*(given or []), *lines] or list(REVIEWS)


def _window(text: str) -> Any:
    from carp.errors import InputError

    if text in ("context", "none"):
        return None if text == "none" else text
    if not text.isdecimal() or len(text) > 9:
        raise InputError(f"--window {text}: give a number of tokens, or none")
    return int(text)


def _paraphrases(text: str) -> Any:
    from carp.errors import InputError
    from carp.scoring.stories import read_text

    if text in ("", "bundled", "pegasus"):
        return text or None
    try:
        mapping = json.loads(read_text(text, "paraphrases"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{text}: not valid JSON ({error}); write {{review: [paraphrases]}}") from error
    if not isinstance(mapping, dict) or not all(
        isinstance(phrases, list) and all(isinstance(phrase, str) for phrase in phrases) for phrases in mapping.values()
    ):
        raise InputError(f"{text}: expected an object that maps each review to a list of paraphrases")
    return mapping


def _print_json(stories: list[Story], reviews: list[str], scores: NDArray[np.float32]) -> None:
    for story, row in zip(stories, scores, strict=True):
        found = {review: round(float(value), 6) for review, value in zip(reviews, row, strict=True)}
        print(json.dumps({"story_id": story.story_id, "scores": found}, ensure_ascii=False))


def _print_tables(stories: list[Story], reviews: list[str], scores: NDArray[np.float32]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    # One scale for all tables: bars of different stories can be compared.
    low, high = float(scores.min()), float(scores.max())
    for story, row in zip(stories, scores, strict=True):
        table = Table("score", "", "review", title=story.story_id, title_justify="left")
        table.columns[0].justify = "right"
        for i in row.argsort()[::-1]:
            share = (float(row[i]) - low) / (high - low) if high > low else 1.0
            table.add_row(f"{row[i]:+.3f}", "█" * max(1, round(share * BAR_WIDTH)), Text(reviews[i]))
        console.print(table)
