"""The page on a probe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from carp.evaluation.origins import origin_section
from carp.evaluation.probing.measuring import Probe
from carp.evaluation.ratings.formats import Cell, Table, markdown, with_interval
from carp.evaluation.resampling import Estimate, beats

NOTES = """\
- Changes are counted in standard deviations of a remark's scores over the undamaged passages.
- "rise": of the fitting remarks, less the mean rise of the remarks on all other kinds of damage; "won": the share of
  passages in which they rise above that mean (chance: about 0.5). Bold: the interval lies above 0.
- Held-out kinds and all remarks and phrases used here are kept out of the training of this package's own models.
- 95 % intervals: bootstrap over groups of passages, percentiles."""


def page(probe: Probe, made: Mapping[str, Any]) -> str:
    """The page; ``made`` says how it was made."""
    passages = made["passages"]
    sections = [
        f"# What `{made['model']['name']}` makes of damaged passages",
        f"{passages['passages']:,} passages in {passages['groups']:,} groups of `{passages['source']}`.",
        "## Damage",
        _damages(probe),
        NOTES,
        "![The rise of the fitting remarks](rises.png)",
        "Which remarks rise with which damage:",
        "![Remarks against damage](matrix.png)",
        "## What should make no difference",
        "The mean absolute change of the nine reviews' scores; the smaller, the better.",
        _invariances(probe),
        "## Length alone",
        "The change where only the first half of a passage is left.",
        _length(probe),
        *origin_section(made, {}, {made["model"]["name"]: made["model"]["files"]}, ("probe.json",)),
    ]
    return "\n\n".join(section.rstrip("\n") for section in sections) + "\n"


def _damages(probe: Probe) -> str:
    rows = [
        [
            Cell(found.kind.title),
            Cell("held out" if found.kind.held_out else "trained"),
            Cell(f"{found.passages:,}"),
            Cell(_shown(found.rise), beats(found.rise)),
            Cell(_shown(found.won)),
        ]
        for found in probe.kinds
    ]
    return markdown(Table("damage", "", ["damage", "kind", "passages", "rise", "won"], rows, names=2))


def _invariances(probe: Probe) -> str:
    rows = [
        [Cell(found.change), Cell(f"{found.passages:,}"), Cell(_shown(found.distance))] for found in probe.invariances
    ]
    return markdown(Table("invariances", "", ["change", "passages", "moved"], rows))


def _length(probe: Probe) -> str:
    rows = [[Cell(found.review), Cell(_shown(found.change))] for found in probe.length]
    return markdown(Table("length", "", ["review", "change"], rows))


def _shown(estimate: Estimate) -> str:
    return estimate.undefined or with_interval(estimate.value, estimate.interval)
