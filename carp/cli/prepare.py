"""``carp prepare``: raw stories with comments become clean pairs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """
Examples:

  carp prepare raw.jsonl.gz --out pairs

  carp train --config carp_mini data.train=pairs

  carp prepare a.jsonl b.jsonl --out pairs --recognizer hub:dslim/bert-base-NER --drop-off-topic

  carp prepare raw.jsonl --out plain --no-mask --no-anonymize --validation-pairs 200
"""


def prepare_command(
    raw: Annotated[
        list[str],
        typer.Argument(metavar="RAW...", help='JSON Lines: {"story", "comments": [{"text", "start"?, "end"?}]}.'),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write; an interrupted one is continued.")],
    align: Annotated[bool, typer.Option(help="Cut the passage that a comment is about.")] = True,
    budget: Annotated[int, typer.Option(help="Tokens of a passage.")] = 512,
    tokenizer: Annotated[
        str, typer.Option(help="Of the encoder; folder or Hub id.")
    ] = "sentence-transformers/all-MiniLM-L6-v2",
    mask: Annotated[bool, typer.Option(help="Replace quotes of the passage by [quote].")] = True,
    threshold: Annotated[int, typer.Option(help="Words that make a quote.")] = 4,
    anonymize: Annotated[bool, typer.Option(help="Replace names, addresses, user names and ids.")] = True,
    recognizer: Annotated[str, typer.Option(help="What finds names: spacy, spacy:PIPELINE, hub:MODEL.")] = "spacy",
    drop: Annotated[bool, typer.Option("--filter/--no-filter", help="Drop pairs under 8 characters.")] = True,
    drop_off_topic: Annotated[
        bool, typer.Option("--drop-off-topic", help="Drop critiques about the task, its prompt or its word count.")
    ] = False,
    near_duplicates: Annotated[
        float, typer.Option(help="Drop pairs that share so much with another one, e.g. 0.9; 0: keep them.")
    ] = 0.0,
    validation_pairs: Annotated[int, typer.Option(help="Pairs that are kept apart, by story.")] = 1000,
    pairs_per_shard: Annotated[int, typer.Option(help="Rows of an output file.")] = 100_000,
    processes: Annotated[int, typer.Option(help="Processes; 0: one for each core.")] = 0,
) -> None:
    """Cut passages, mask quotes, replace names, filter and split: raw stories become pairs to train on."""
    from carp.data.preparation.options import PreparationOptions
    from carp.data.preparation.pipeline import prepare

    options = PreparationOptions(
        align=align,
        budget=budget,
        tokenizer=tokenizer,
        mask=mask,
        threshold=threshold,
        anonymize=anonymize,
        recognizer=recognizer,
        filter=drop,
        drop_off_topic=drop_off_topic,
        near_duplicates=near_duplicates,
        validation_pairs=validation_pairs,
        pairs_per_shard=pairs_per_shard,
    )
    counts = prepare(raw, out, options, processes=processes or os.cpu_count() or 1, progress=sys.stderr.isatty())
    print(f"written: {out}: {counts['train pairs']} training and {counts['validation pairs']} validation pairs")
