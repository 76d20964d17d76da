"""``carp probe``: does the fitting remark rise when a passage is damaged?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from carp.evaluation.resampling import Estimate

EXAMPLES = """
Examples:

  carp probe runs/mine --out probed

  carp probe runs/mine --passages pairs/validation --limit 400 --out probed

No labels are needed. The page is README.md in the folder that --out names; probe.json holds all figures.
"""


def probe_command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder or Hub id.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder to write; must be new.")],
    passages: Annotated[
        str, typer.Option(help="Pairs or raw stories whose passages are damaged; sample: the bundled ones.")
    ] = "sample",
    limit: Annotated[int, typer.Option(min=2, help="Passages, at most.")] = 200,
    resamples: Annotated[int, typer.Option(help="Of the bootstrap.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of the damage and the bootstrap.")] = 0,
) -> None:
    """Damage passages in known ways: by how much does the fitting remark rise over the others?"""
    from carp.evaluation.probing.report import write_probe
    from carp.evaluation.resampling import Resampling

    found = write_probe(model, out, passages, limit, Resampling(resamples, seed), progress=sys.stderr.isatty())
    for kind in found.kinds:
        note = ", never trained on" if kind.kind.held_out else ""
        print(f"{kind.kind.title}: rise {_shown(kind.rise)}, won {_shown(kind.won)} ({kind.passages:,} passages{note})")
    for moved in found.invariances:
        print(f"{moved.change}: moved {_shown(moved.distance)} ({moved.passages:,} passages)")
    print(f"report: {out / 'README.md'}", file=sys.stderr)


def _shown(estimate: Estimate) -> str:
    from carp.evaluation.ratings.formats import with_interval

    return estimate.undefined or with_interval(estimate.value, estimate.interval)
