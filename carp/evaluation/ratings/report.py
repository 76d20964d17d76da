"""``carp agree``: means, agreement and tests of ratings, as a folder of tables and pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from carp.errors import InputError
from carp.evaluation.ratings import tables
from carp.evaluation.ratings.agreement import Estimate, agreement
from carp.evaluation.ratings.columns import Wanted
from carp.evaluation.ratings.comparison import WHAT, Comparison, choose_reference, compare
from carp.evaluation.ratings.figures import draw_figures
from carp.evaluation.ratings.formats import Table, comma_separated, latex, markdown
from carp.evaluation.ratings.intervals import CONFIDENCE, scipy_stats
from carp.evaluation.ratings.samples import main_measures, measures, sample
from carp.evaluation.ratings.summaries import ALL, Summary, scores, summaries, summarise
from carp.evaluation.ratings.table import Integers, Ratings, read_ratings
from carp.files import written_folder
from carp.versions import versions

LIBRARIES = ("numpy", "scipy", "matplotlib")
MIN_RESAMPLES = 100
Agreements = dict[str, dict[str, Estimate]]


@dataclass(frozen=True)
class Options:
    """How ratings are described.

    Raises:
        InputError: names the option that is out of range.
    """

    columns: Wanted = field(default_factory=Wanted)
    reference: str = ""  # the system to compare with; people where they are one
    limits: tuple[float, float] | None = None  # of the scales
    resamples: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.resamples < MIN_RESAMPLES:
            raise InputError(f"--resamples {self.resamples}: give at least {MIN_RESAMPLES}")
        if self.seed < 0:
            raise InputError(f"--seed {self.seed}: give a number from 0")
        if self.limits and not self.limits[0] < self.limits[1]:
            raise InputError(f"--range {self.limits[0]:g} {self.limits[1]:g}: give the lowest rating, then the highest")


@dataclass(frozen=True)
class Report:
    """Everything that was found, and how."""

    ratings: Ratings
    options: Options
    systems: dict[str, dict[str, Summary]]
    everything: dict[str, Summary]  # of all ratings, by scale
    agreement: Agreements
    groups: dict[str, Agreements]
    tests: dict[str, list[Comparison]]
    reference: str | None
    tables: dict[str, Table]
    versions: dict[str, str]

    @property
    def main_measures(self) -> list[str]:
        """All scales pooled, where there are several, and the overall score."""
        return main_measures(self.ratings)

    @property
    def counts(self) -> dict[str, int]:
        """Sizes of the file of ratings."""
        ratings = self.ratings
        return {
            "rows": len(ratings.story),
            "stories": len(ratings.stories),
            "stories_with_two_raters": int((np.bincount(ratings.story) >= 2).sum()),
            "raters": len(ratings.raters),
            "systems": len(ratings.systems),
            "groups": len(ratings.groups),
            "scales": len(ratings.values),
            "missing": int(sum(np.isnan(column).sum() for column in ratings.values.values())),
        }

    def to_json(self) -> dict[str, Any]:
        """Everything in plain types; the same data, options and versions give the same."""
        return {
            "source": self.ratings.source,
            "sha256": self.ratings.sha256,
            "columns": asdict(self.ratings.columns),
            "counts": self.counts,
            "systems": _plain(self.systems),
            "all": _plain(self.everything),
            "agreement": _plain(self.agreement),
            "groups": _plain(self.groups),
            "reference": self.reference,
            "tests": _plain(self.tests),
            "made": {
                "confidence": CONFIDENCE,
                "bootstrap": "percentiles over resampled stories",
                "resamples": self.options.resamples,
                "seed": self.options.seed,
                "range": self.options.limits,
                "versions": self.versions,
            },
        }


def write_agreement(source: str | Path, output: str | Path, options: Options = Options()) -> Report:
    """Write ``README.md``, ``agreement.json``, ``tables/`` and ``figures/`` into a new folder.

    Args:
        source: ratings in CSV, JSON Lines or Parquet, one row per story and rater, one column per scale.
        output: the folder; must not exist.
        options: columns, reference system, resamples.

    Raises:
        InputError: names the file, the row, the column and the mend; nothing is written then.
    """
    from carp.evaluation.ratings.page import page

    target = Path(output)
    if target.exists() or target.is_symlink():
        raise InputError(f"--out {output}: exists already; name a new folder")
    scipy_stats()  # what is missing is said before any work is done
    report = analyse(read_ratings(source, options.columns, options.limits), options)
    with written_folder(target) as draft:
        for folder in ("tables", "figures"):
            (draft / folder).mkdir()
        draw_figures(report.ratings, draft / "figures")
        for table in report.tables.values():
            for kind, written in (("md", markdown), ("tex", latex), ("csv", comma_separated)):
                (draft / "tables" / f"{table.name}.{kind}").write_text(written(table), encoding="utf-8")
        text = json.dumps(report.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
        (draft / "agreement.json").write_text(text + "\n", encoding="utf-8")
        (draft / "README.md").write_text(page(report), encoding="utf-8")
    return report


def analyse(ratings: Ratings, options: Options = Options()) -> Report:
    """Compute everything.

    Raises:
        InputError: the reference is no system of the file.
    """
    reference = choose_reference(ratings, options.reference)
    rows = {name: np.flatnonzero(ratings.group == i) for i, name in enumerate(ratings.groups)}
    systems, everything = summaries(ratings), _summaries(ratings, np.arange(len(ratings.story)))
    agreements = _agreement(ratings, None, options)
    groups = {name: _agreement(ratings, chosen, options) for name, chosen in rows.items()}
    tests = compare(ratings, reference) if reference and len(ratings.systems) > 1 else {}
    digits = tables.decimals(everything)
    found = [
        tables.means_table(systems, everything),
        tables.summary_table("scales", "All ratings, scale by scale.", everything, digits),
        tables.coefficient_table(agreements, main_measures(ratings)),
        tables.scale_table(agreements, kappas=True),
        tables.scale_table(agreements, kappas=False),
    ]
    if len(systems) > 1:
        overall = {name: of[ratings.overall_name] for name, of in systems.items()}
        caption = "Overall score by system. The interval of the mean takes each story for one case."
        found.append(tables.summary_table("systems", caption, overall, digits))
    if groups:
        of_groups = {name: _summaries(ratings, chosen) for name, chosen in rows.items()}
        found.append(tables.group_table(groups, of_groups, digits))
    if tests:
        found += [tables.comparison_table(kind, tests[kind]) for kind in WHAT if kind in tests]
        if of_scales := {scale: tests[scale] for scale in ratings.values if scale in tests}:
            found.append(tables.scale_comparison_table(of_scales, digits))
    named = {table.name: table for table in found}
    return Report(ratings, options, systems, everything, agreements, groups, tests, reference, named, _versions())


def _agreement(ratings: Ratings, rows: Integers | None, options: Options) -> Agreements:
    return {
        name: agreement(sample(ratings, columns, rows), options.resamples, options.seed)
        for name, columns in measures(ratings).items()
    }


def _summaries(ratings: Ratings, rows: Integers) -> dict[str, Summary]:
    return {name: summarise(ALL, name, values[rows], ratings.story[rows]) for name, values in scores(ratings).items()}


def _versions() -> dict[str, str]:
    return {**versions(), **{name: version(name) for name in LIBRARIES}}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return _plain(asdict(value)) if hasattr(value, "__dataclass_fields__") else value
