"""Train a CARP model, on one process or on many:

accelerate launch scripts/train.py --config configs/carp_base.yaml data.train=pairs.parquet train.lr=1e-4
"""

import typer

from carp.cli.main import run
from carp.cli.train import EXAMPLES, train_command

if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode="rich")
    app.command(epilog=EXAMPLES)(train_command)
    run(app)
