"""``carp info``, ``carp convert`` and ``carp push``: looking at models and moving them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

INFO_EXAMPLES = """
Examples:

  carp info carp_base

  carp info runs/carp_nano
"""
CONVERT_EXAMPLES = """
Examples:

  carp convert CARP_L.pt carp-large --tokenizer roberta-large
"""
PUSH_EXAMPLES = """
Examples:

  carp push runs/carp_mini my-name/my-carp --private
"""


def info_command(
    name: Annotated[str, typer.Argument(metavar="PRESET_OR_CHECKPOINT", help="E.g. carp_base, a folder, a Hub id.")],
) -> None:
    """Show the architecture and the number of parameters, without allocating them."""
    from rich.console import Console

    from carp.training.information import describe_model

    Console().print(describe_model(name))


def convert_command(
    old: Annotated[Path, typer.Argument(metavar="OLD.pt", help="State dict of the paper's own code.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
    tokenizer: Annotated[str, typer.Option(help="Tokenizer of the encoders: folder or Hub id.")] = "roberta-large",
) -> None:
    """Turn a checkpoint of the paper's own code into one of this package."""
    from carp.errors import InputError
    from carp.files import written_folder
    from carp.model.convert import convert_checkpoint

    if out.exists():
        raise InputError(f"{out} exists already: name a new folder")
    model = convert_checkpoint(old, tokenizer)
    with written_folder(out) as draft:
        model.save_pretrained(draft)
    print(f"written: {out}")


def push_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A checkpoint, e.g. a finished run.")],
    repository: Annotated[str, typer.Argument(metavar="ORGANISATION/NAME")],
    private: Annotated[bool, typer.Option("--private", help="Create a private repository.")] = False,
    revision: Annotated[str, typer.Option(help="Branch to push to.")] = "main",
    message: Annotated[str, typer.Option("--message", help="Commit message.")] = "Upload CARP model",
) -> None:
    """Upload a checkpoint with its model card to the Hub (log in with `hf auth login` first)."""
    from carp.model.hub import push_folder

    print(f"pushed: {push_folder(folder, repository, private=private, revision=revision, message=message)}")
