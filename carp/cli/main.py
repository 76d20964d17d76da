"""The ``carp`` command."""

from __future__ import annotations

import logging
import os
import sys
import warnings

import typer

from carp import __version__
from carp.cli import (
    agree,
    checkpoints,
    classify,
    embed,
    evaluate,
    generate,
    judge,
    prepare,
    probe,
    report,
    score,
    train,
    votes,
)
from carp.errors import CarpError

app = typer.Typer(
    name="carp",
    help="Train and use contrastive story-critique models: score any story against any critique.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("score", epilog=score.EXAMPLES)(score.score_command)
app.command("embed", epilog=embed.EXAMPLES)(embed.embed_command)
app.command("train", epilog=train.EXAMPLES)(train.train_command)
app.command("prepare", epilog=prepare.EXAMPLES)(prepare.prepare_command)
app.command("report", epilog=report.EXAMPLES)(report.report_command)
app.command("agree", epilog=agree.EXAMPLES)(agree.agree_command)
app.command("evaluate", epilog=evaluate.EXAMPLES)(evaluate.evaluate_command)
app.add_typer(votes.app, name="votes")
app.command("judge", epilog=judge.EXAMPLES)(judge.judge_command)
app.command("classify", epilog=classify.EXAMPLES)(classify.classify_command)
app.command("probe", epilog=probe.EXAMPLES)(probe.probe_command)
app.command("generate", epilog=generate.EXAMPLES)(generate.generate_command)
app.command("info", epilog=checkpoints.INFO_EXAMPLES)(checkpoints.info_command)
app.command("convert", epilog=checkpoints.CONVERT_EXAMPLES)(checkpoints.convert_command)
app.command("push", epilog=checkpoints.PUSH_EXAMPLES)(checkpoints.push_command)


@app.callback(invoke_without_command=True)
def _options(version: bool = typer.Option(False, "--version", help="Show the version and exit.")) -> None:
    if version:
        print(f"carp {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command; what people can mend becomes one line and an exit code."""
    run(app)


def run(application: typer.Typer) -> None:
    """Run a typer application the way ``carp`` runs: no tracebacks for errors that a line explains."""
    quieten_libraries()
    try:
        application()
    except CarpError as error:
        print(f"carp: {error}", file=sys.stderr, flush=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("carp: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader, e.g. head, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:  # a full disk, a folder that may not be written
        print(f"carp: {error.strerror or error}: {error.filename or 'while writing'}", file=sys.stderr)
        sys.exit(1)


def quieten_libraries() -> None:
    """Keep the libraries' own bars and warnings off the terminal; errors come as carp's own lines."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=FutureWarning)
