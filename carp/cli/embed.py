"""``carp embed``: embeddings of many texts into a file, to be scored later without embedding them again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from carp.cli.score import DEVICES_HELP, MODEL_HELP, PRECISION_HELP, load_model, split_devices, window_size

EXAMPLES = """
Examples:

  carp embed stories.jsonl --out stories.parquet --model runs/carp_mini

  carp score --embeddings stories.parquet -r "This is boring." --json

  carp embed reviews.txt --critiques --out reviews.parquet --devices cuda:0,cuda:1 --precision bfloat16
"""


def embed_command(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Stories as carp score takes them; critiques: text files, one a line."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Parquet file to write: columns id and embedding.")],
    critiques: Annotated[bool, typer.Option("--critiques", help="The files hold critiques, not stories.")] = False,
    model: Annotated[str, typer.Option("--model", "-m", help=MODEL_HELP)] = "",
    window: Annotated[
        str,
        typer.Option(help="Tokens per window of a long story; none: only its beginning.", metavar="N|none"),
    ] = "context",
    devices: Annotated[str, typer.Option(help=DEVICES_HELP)] = "",
    precision: Annotated[str, typer.Option(help=PRECISION_HELP)] = "float32",
) -> None:
    """Embed stories (or critiques) and keep their vectors in a file."""
    from carp.errors import InputError
    from carp.scoring.stories import read_lines, read_stories

    if out.is_dir():
        raise InputError(f"--out {out}: a folder; name a file")
    if critiques:
        texts = [line for file in files for line in read_lines(file, "critiques")]
        ids = texts
    else:
        stories = read_stories(files)
        texts, ids = [story.text for story in stories], [story.story_id for story in stories]

    from carp.scoring.embeddings import embed

    found = embed(
        texts,
        side="critique" if critiques else "passage",
        ids=ids,
        model=load_model(model, precision),
        window=window_size(window),
        devices=split_devices(devices),
        progress=sys.stderr.isatty(),
    )
    found.save(out)
    print(f"{len(found.ids)} embeddings of width {found.vectors.shape[1]}: {out}")
