"""``carp generate``: a language model writes critiques."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from carp.evaluation.language.generation import Critique

EXAMPLES = """
Examples:

  carp generate story.txt --model runs/finetune_gptj

  carp generate *.txt --model EleutherAI/gpt-j-6b --examples --number 5

  carp generate stories.jsonl --model runs/finetune_gptj --seed 1 --json > critiques.jsonl

A model is finetuned by  scripts/finetune_lm.py; any other one needs --examples. The perplexity is that of the critique
after its story, per byte: the lower, the surer the model was.
"""
MODEL_HELP = "A causal language model: folder, GGUF file or Hub id. The paper's: EleutherAI/gpt-j-6b, finetuned."
EXAMPLES_HELP = "Show the model the two examples of appendix B.1 first: for models that were not finetuned."


def generate_command(
    model: Annotated[str, typer.Option("--model", "-m", help=MODEL_HELP)],
    stories: Annotated[
        list[str] | None, typer.Argument(metavar="STORY...", help="Text or JSON Lines files; - for stdin.")
    ] = None,
    number: Annotated[int, typer.Option("--number", "-n", help="Critiques of each story.")] = 3,
    seed: Annotated[int, typer.Option(help="Another seed, other critiques.")] = 0,
    max_tokens: Annotated[int, typer.Option(help="Of a critique.")] = 128,
    examples: Annotated[bool, typer.Option("--examples", help=EXAMPLES_HELP)] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON Lines instead of tables.")] = False,
) -> None:
    """Let a language model write critiques (top-k 50, top-p 0.9, as the paper's appendix C)."""
    from carp.errors import InputError
    from carp.scoring.stories import read_stories

    read = read_stories(stories or [])
    if not read:
        raise InputError("give at least one story")

    from carp.evaluation.language.generation import generate_critiques
    from carp.evaluation.language.loading import load_language_model

    found = generate_critiques(
        load_language_model(model),
        [story.text for story in read],
        number,
        seed,
        max_tokens,
        examples,
        progress=sys.stderr.isatty(),
    )
    show = _print_json if as_json else _print_tables
    show([story.story_id for story in read], found)


def _print_json(names: list[str], found: list[list[Critique]]) -> None:
    for name, critiques in zip(names, found, strict=True):
        record = {"story_id": name, "critiques": [critique._asdict() for critique in critiques]}
        print(json.dumps(record, ensure_ascii=False))


def _print_tables(names: list[str], found: list[list[Critique]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for name, critiques in zip(names, found, strict=True):
        table = Table("perplexity", "critique", title=name, title_justify="left")
        table.columns[0].justify = "right"
        for critique in critiques:
            figure = "-" if critique.perplexity_per_byte is None else f"{critique.perplexity_per_byte:.3f}"
            table.add_row(figure, Text(critique.text + ("" if critique.finished else " ...")))
        console.print(table)
