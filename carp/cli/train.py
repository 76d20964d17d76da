"""``carp train``: the same as ``scripts/train.py``, on one process."""

from __future__ import annotations

import os
from typing import Annotated

import typer

EXAMPLES = """
Examples:

  carp train --config carp_nano

  carp train --config carp_mini data.train=pairs.parquet train.batch_size=512

  accelerate launch scripts/train.py --config configs/carp_base.yaml data.train=pairs.parquet train.lr=1e-4

Every key, with its default, is in  carp train --keys.
"""


def train_command(
    options: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", show_default=False)] = None,
    config: Annotated[str, typer.Option("--config", "-c", help="A YAML file, or a preset such as carp_base.")] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Continue where the output folder stops.")] = False,
    keys: Annotated[bool, typer.Option("--keys", help="List every configuration key and exit.")] = False,
) -> None:
    """Train a model on story-critique pairs; options are written section.key=value."""
    from carp.config import load_config, preset_names
    from carp.errors import InputError

    if keys:
        _print_keys()
        return
    if not config:
        raise InputError(f"name a configuration with --config: a YAML file or one of {', '.join(preset_names())}")
    overrides = [*(options or []), *(["train.resume=auto"] if resume else [])]
    resolved = load_config(config, overrides)

    from carp.training.loop import train

    output = train(resolved)
    if int(os.environ.get("RANK", 0)) == 0:
        print(f"done: {output} is a checkpoint; try  carp score STORY.txt --model {output}")


def _print_keys() -> None:
    from rich.console import Console
    from rich.table import Table

    from carp.config import DataSettings, ModelSettings, TrainSettings

    table = Table("key", "default", "what")
    for section, settings in (("model", ModelSettings), ("data", DataSettings), ("train", TrainSettings)):
        for name, field in settings.model_fields.items():
            table.add_row(f"{section}.{name}", str(field.get_default(call_default_factory=True)), field.description)
    Console().print(table)
