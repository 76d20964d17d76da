"""Finetune a language model on story-critique pairs, on one process or on many: the baseline of CARP, section 4.1.

accelerate launch scripts/finetune_lm.py data.train=pairs.parquet train.output=runs/finetune_gptj
"""

import os
from typing import Annotated

import typer

from carp.cli.main import run

EXAMPLES = """
Examples:

  accelerate launch scripts/finetune_lm.py data.train=pairs.parquet

  accelerate launch --config_file configs/accelerate_zero2.yaml --num_processes 8 scripts/finetune_lm.py
  data.train=pairs.parquet train.output=runs/gptj

  python scripts/finetune_lm.py data.train=pairs.jsonl --lora 16 train.lr=1e-4

  python scripts/finetune_lm.py model.checkpoint=openai-community/gpt2 data.train=sample train.precision=no
  --context 512 train.batch_size=4 train.steps=20 train.output=runs/gpt2

By default the model is EleutherAI/gpt-j-6b, with the settings of configs/finetune_gptj.yaml. train.batch_size counts
windows of --context tokens; train.tokens_per_chunk says how many tokens each process computes at once; the rest is
accumulated. All keys:  carp train --keys
"""


def finetune_command(
    options: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", show_default=False)] = None,
    config: Annotated[
        str, typer.Option("--config", "-c", help="A YAML file, or a preset: finetune_gptj.")
    ] = "finetune_gptj",
    context: Annotated[int | None, typer.Option(help="Tokens of a window; by default the model's context.")] = None,
    lora: Annotated[int, typer.Option(help="Train LoRA adapters of this rank; 0: all weights.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue where the output folder stops.")] = False,
) -> None:
    """Finetune a causal language model on story-critique pairs; options are written section.key=value."""
    from carp.evaluation.language.training_config import load_finetune_config

    overrides = [*(options or []), *(["train.resume=auto"] if resume else [])]
    resolved = load_finetune_config(config, overrides, context, lora)

    from carp.evaluation.language.finetuning import finetune

    output = finetune(resolved)
    if int(os.environ.get("RANK", 0)) == 0:
        print(f"done: {output} is a language model; try  carp generate STORY.txt --model {output}")


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode="rich")
    app.command(epilog=EXAMPLES)(finetune_command)
    run(app)
