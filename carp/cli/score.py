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

    from carp.model.carp_model import CarpModel

    Scores = NDArray[np.float32]

EXAMPLES = """
Examples:

  carp score story.txt --model runs/carp_nano

  carp score story.txt -r "This kind of drags on." -r "Show, don't tell!" --plot scores.png

  carp score *.txt --paraphrases bundled --json > scores.jsonl

  cat story.txt | carp score - --reviews my_reviews.txt

  carp score --embeddings stories.parquet -r "This is boring." --json     (see carp embed)
"""
BAR_WIDTH = 24
MODEL_HELP = "Folder or Hub id; default: $CARP_MODEL, else the bundled carp-mini."
DEVICES_HELP = "Embed on several devices, e.g. cuda:0,cuda:1 or cpu,cpu."
PRECISION_HELP = "float32, bfloat16, float16, or int8 (on a CPU)."


def score_command(
    stories: Annotated[
        list[str] | None, typer.Argument(metavar="STORY...", help="Text or JSON Lines files; - for stdin.")
    ] = None,
    review: Annotated[list[str] | None, typer.Option("--review", "-r", help="A review; may be repeated.")] = None,
    reviews: Annotated[str, typer.Option(help="A text file with one review per line.")] = "",
    model: Annotated[str, typer.Option("--model", "-m", help=MODEL_HELP)] = "",
    paraphrases: Annotated[
        str,
        typer.Option(help="Average over paraphrases: bundled, pegasus, or a JSON file {review: [phrases]}."),
    ] = "",
    window: Annotated[
        str,
        typer.Option(help="Tokens per window of a long story; none: only its beginning.", metavar="N|none"),
    ] = "context",
    embeddings: Annotated[Path | None, typer.Option(help="Stories that  carp embed  has embedded.")] = None,
    devices: Annotated[str, typer.Option(help=DEVICES_HELP)] = "",
    precision: Annotated[str, typer.Option(help=PRECISION_HELP)] = "float32",
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON Lines instead of a table.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Also draw the scores into this PNG file.")] = None,
) -> None:
    """Score stories against reviews (by default the nine of the paper): how well does each fit?

    Percentiles say how many of the passages that the model was calibrated with fit a review less well.
    """
    from carp.errors import InputError
    from carp.scoring.plots import MAX_STORIES, plot_scores
    from carp.scoring.stories import read_stories

    if bool(stories) == (embeddings is not None):
        raise InputError("give stories or --embeddings, one of the two")
    if plot is not None and plot.is_dir():
        raise InputError(f"--plot {plot}: a folder; name a PNG file")
    if plot is not None and not plot.absolute().parent.is_dir():
        raise InputError(f"--plot {plot}: there is no folder {plot.absolute().parent}")
    read = read_stories(stories or [])
    phrases = _reviews(review, reviews)

    from carp.scoring.embeddings import Embeddings
    from carp.scoring.score import scores_and_percentiles

    embedded = Embeddings.load(embeddings) if embeddings else None
    names = embedded.ids if embedded else [story.story_id for story in read]
    if plot is not None and len(names) > MAX_STORIES:
        raise InputError(f"--plot draws {MAX_STORIES} stories at most, not {len(names)}: plot fewer")
    scores, ranks = scores_and_percentiles(
        embedded or [story.text for story in read],
        phrases,
        model=load_model(model, precision),
        paraphrases=_paraphrases(paraphrases),
        window=window_size(window),
        devices=split_devices(devices),
        progress=sys.stderr.isatty() and len(names) + len(phrases) > 100,
    )
    _print_json(names, phrases, scores, ranks) if as_json else _print_tables(names, phrases, scores, ranks)
    if plot is not None:
        plot_scores(ranks if len(ranks) else scores, names, phrases, plot, calibrated=len(ranks) > 0)
        print(f"plot: {plot}", file=sys.stderr)


def load_model(name: str, precision: str) -> CarpModel:
    """The model that ``--model`` and ``--precision`` name."""
    from carp.scoring.loading import load

    return load(name or None, precision=precision)  # type: ignore[arg-type]  # load says what can be chosen


def split_devices(text: str) -> list[str]:
    """The devices that ``--devices`` names."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _reviews(given: list[str] | None, file: str) -> list[str]:
    from carp.reviews import REVIEWS
    from carp.scoring.stories import read_lines

    return [*(given or []), *(read_lines(file, "reviews") if file else [])] or list(REVIEWS)


def window_size(text: str) -> Any:
    """What ``--window`` asks for."""
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


def _print_json(names: list[str], reviews: list[str], scores: Scores, ranks: Scores) -> None:
    columns = {"scores": (scores, 6), "percentiles": (ranks, 1)} if len(ranks) else {"scores": (scores, 6)}
    for i, name in enumerate(names):
        found = {
            column: {review: round(float(value), digits) for review, value in zip(reviews, values[i], strict=True)}
            for column, (values, digits) in columns.items()
        }
        print(json.dumps({"story_id": name, **found}, ensure_ascii=False))


def _print_tables(names: list[str], reviews: list[str], scores: Scores, ranks: Scores) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    # One scale for all tables: bars of different stories can be compared.
    shown = ranks if len(ranks) else scores
    order = [sorted(range(len(reviews)), key=lambda k: (-shown[i, k], -scores[i, k])) for i in range(len(names))]
    low, high = (0.0, 100.0) if len(ranks) else (float(scores.min()), float(scores.max()))
    for i, name in enumerate(names):
        head = ["percentile", "", "score"] if len(ranks) else ["score", ""]
        table = Table(*head, "review", title=name, title_justify="left")
        for column in (0, 2)[: len(head) - 1]:
            table.columns[column].justify = "right"
        for k in order[i]:
            share = (float(shown[i, k]) - low) / (high - low) if high > low else 1.0
            bar = "█" * max(1, round(share * BAR_WIDTH))
            cosine = f"{scores[i, k]:+.3f}"
            cells = [f"{ranks[i, k]:.0f}", bar, cosine] if len(ranks) else [cosine, bar]
            table.add_row(*cells, Text(reviews[k]))
        console.print(table)
