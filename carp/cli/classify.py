"""``carp classify``: zero-shot classifiers from sets of critiques."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from carp.evaluation.classifying.definitions import Classifier
    from carp.evaluation.classifying.measuring import Measured
    from carp.evaluation.evaluators import Floats
    from carp.evaluation.resampling import Resampling

EXAMPLES = """
Examples:

  carp classify story.txt --classifier sentiment --model runs/mine

  carp classify stories.jsonl --classifier show-dont-tell --classifier mine.yaml --json > classes.jsonl

  carp classify --labels labels.jsonl --classifier faults --model runs/mine --model runs/bare --out results

Bundled classifiers: sentiment, wording, show-dont-tell, faults. Scores put stories into an order; they are no
probabilities.
"""
CLASSIFIER_HELP = "The name of a bundled one, or a YAML file; may be repeated."
LABELS_HELP = 'Measure classifiers: JSON Lines {"text", "labels": {name: 1, 0 or null}, "group"}.'
MODEL_HELP = "Folder or Hub id; default: $CARP_MODEL, else the bundled carp-mini. With --labels it may be repeated."


def classify_command(
    stories: Annotated[
        list[str] | None, typer.Argument(metavar="STORY...", help="Text or JSON Lines files; - for stdin.")
    ] = None,
    classifier: Annotated[list[str] | None, typer.Option("--classifier", "-c", help=CLASSIFIER_HELP)] = None,
    model: Annotated[list[str] | None, typer.Option("--model", "-m", help=MODEL_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON Lines instead of tables.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV instead of tables.")] = False,
    labels: Annotated[str, typer.Option(metavar="FILE", help=LABELS_HELP)] = "",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="With --labels: the folder to write; must be new.")
    ] = None,
    resamples: Annotated[int, typer.Option(help="With --labels: of the bootstrap.")] = 2000,
    seed: Annotated[int, typer.Option(help="With --labels: of the bootstrap and the probe.")] = 0,
) -> None:
    """Classify stories by which set of critiques fits them best, or measure classifiers on labels."""
    from carp.errors import InputError
    from carp.evaluation.resampling import Resampling
    from carp.model.bundled import default_model

    if bool(stories) == bool(labels):
        raise InputError("give stories or --labels, one of the two")
    if labels:
        models = model or [default_model()]
        if out is None or as_json or as_csv:
            raise InputError("--labels: writes a folder; name it with --out, and leave --json and --csv out")
        _measure(labels, classifier or [], models, out, Resampling(resamples, seed))
        return
    if out is not None or (as_json and as_csv) or len(model or []) > 1:
        raise InputError("stories: give one --model, --json or --csv but not both, and no --out")
    _classify(stories or [], classifier or [], (model or [""])[0], "json" if as_json else "csv" if as_csv else "")


def _classify(paths: list[str], names: list[str], model: str, form: str) -> None:
    from carp.cli.score import load_model
    from carp.evaluation.classifying.classifier import classify
    from carp.evaluation.classifying.definitions import load_classifiers
    from carp.scoring.stories import read_stories

    classifiers = load_classifiers(names)
    read = read_stories(paths)
    show = sys.stderr.isatty() and len(read) > 100
    found = classify([story.text for story in read], classifiers, load_model(model, "float32"), show)
    write = {"json": _print_json, "csv": _print_csv, "": _print_tables}[form]
    write([story.story_id for story in read], classifiers, found)


def _print_json(names: list[str], classifiers: list[Classifier], found: dict[str, Floats]) -> None:
    from carp.evaluation.classifying.classifier import best_class

    for row, name in enumerate(names):
        for one in classifiers:
            scores = found[one.name][row]
            shown = {label: round(float(value), 6) for label, value in zip(one.classes, scores, strict=True)}
            record = {"story_id": name, "classifier": one.name, "class": best_class(one, scores), "scores": shown}
            print(json.dumps(record, ensure_ascii=False))


def _print_csv(names: list[str], classifiers: list[Classifier], found: dict[str, Floats]) -> None:
    from carp.evaluation.classifying.classifier import best_class

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["story_id", "classifier", "class", "score", "best"])
    for row, name in enumerate(names):
        for one in classifiers:
            scores = found[one.name][row]
            best = best_class(one, scores)
            for label, value in zip(one.classes, scores, strict=True):
                chosen = "" if best is None else int(label == best)
                writer.writerow([name, one.name, label, round(float(value), 6), chosen])


def _print_tables(names: list[str], classifiers: list[Classifier], found: dict[str, Floats]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for row, name in enumerate(names):
        table = Table("classifier", "class", "score", title=Text(name), title_justify="left")
        table.columns[2].justify = "right"
        for one in classifiers:
            scores, labels = found[one.name][row], list(one.classes)
            for place, column in enumerate(scores.argsort()[::-1]):
                best = "bold" if place == 0 and len(labels) > 1 else ""
                title = Text(one.name if place == 0 else "")
                table.add_row(title, Text(labels[column], style=best), f"{scores[column]:+.3f}")
        console.print(table)


def _measure(labels: str, names: list[str], models: list[str], out: Path, resampling: Resampling) -> None:
    from carp.evaluation.classifying.report import write_measures

    measured = write_measures(labels, names, models, out, resampling, progress=sys.stderr.isatty())
    print("\n".join(_line(found, len(models)) for found in measured))
    print(f"report: {out / 'README.md'}", file=sys.stderr)


def _line(found: Measured, models: int) -> str:
    from carp.evaluation.classifying.page import title
    from carp.evaluation.ratings.formats import with_interval

    value = found.auc.undefined or f"AUC {with_interval(found.auc.value, found.auc.interval)}"
    cases = f"{found.positives:,} with, {found.negatives:,} without, {found.groups:,} groups"
    return f"{found.label}; {title(found, models)}: {value} ({cases})"
