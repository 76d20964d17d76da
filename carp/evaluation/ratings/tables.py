"""The tables of a report on ratings: means, agreement, tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from carp.evaluation.ratings.agreement import Estimate
from carp.evaluation.ratings.comparison import WHAT, Comparison
from carp.evaluation.ratings.formats import (
    ABSENT,
    Cell,
    Table,
    bounds,
    number,
    p_value,
    plus_minus,
    with_interval,
)
from carp.evaluation.ratings.summaries import Summary

Agreements = Mapping[str, Mapping[str, Estimate]]  # measure -> coefficient -> estimate
COEFFICIENTS = {
    "exact": "equal pairs",
    "all_equal": "all raters equal",
    "kappa_unweighted": "Cohen's κ, unweighted",
    "kappa_linear": "Cohen's κ, linear",
    "kappa_quadratic": "Cohen's κ, quadratic",
    "alpha_nominal": "Krippendorff's α, nominal",
    "alpha_ordinal": "Krippendorff's α, ordinal",
    "alpha_interval": "Krippendorff's α, interval",
    "icc_1": "ICC(1)",
    "icc_1k": "ICC(1, k)",
    "pearson": "Pearson's r",
    "pearson_by_raters": "Pearson's r, mean of rater pairs",
    "kendall": "Kendall's τ-b",
    "kendall_by_raters": "Kendall's τ-b, mean of rater pairs",
}
IN_GROUPS = ("all_equal", "kappa_quadratic", "alpha_ordinal", "alpha_interval", "icc_1", "pearson")
SIGNIFICANT = 0.05
FEW = 4  # coefficients that are named one by one
WIDE = 5  # a scale on which one decimal of a mean is enough


def decimals(everything: Mapping[str, Summary]) -> dict[str, int]:
    """How many decimals the means of each scale get: one, as in the paper, or two where ratings span less than 5."""
    return {
        scale: 1 if found.maximum is not None and found.maximum - (found.minimum or 0) >= WIDE else 2
        for scale, found in everything.items()
    }


def means_table(systems: Mapping[str, Mapping[str, Summary]], everything: Mapping[str, Summary]) -> Table:
    """Mean ± standard deviation by system and scale, as table 2 of "A Confederacy of Models"."""
    digits = decimals(everything)
    columns = {scale: [of[scale] for of in systems.values()] for scale in everything}
    rows: list[list[Cell]] = []
    caption = "Mean and standard deviation (n - 1) of the ratings"
    if len(systems) > 1:
        best = {scale: _best(column) for scale, column in columns.items()}
        for system, of in systems.items():
            rows.append([Cell(system), *(_mean_cell(of[scale], best[scale], digits[scale]) for scale in columns)])
        averages = [_average(column, digits[scale]) for scale, column in columns.items()]
        rows.append([Cell("average"), *map(Cell, averages)])
        caption += (
            ", systems by mean overall score. The row 'average' averages the rows above it, each system alike; the row "
            "'all ratings' takes the ratings as one sample"
        )
    rows.append([Cell("all ratings"), *(_mean_cell(everything[scale], None, digits[scale]) for scale in columns)])
    return Table(
        name="means",
        caption=f"{caption}.",
        head=["", *columns],
        rows=rows,
        records=[asdict(summary) for of in systems.values() for summary in of.values()],
    )


def _best(column: Sequence[Summary]) -> float | None:
    return max((summary.mean for summary in column if summary.mean is not None), default=None)


def _mean_cell(summary: Summary, best: float | None, digits: int) -> Cell:
    bold = summary.mean is not None and summary.mean == best
    return Cell(plus_minus(summary.mean, summary.std, digits), bold)


def _average(column: Sequence[Summary], digits: int) -> str:
    means = [summary.mean for summary in column if summary.mean is not None]
    spreads = [summary.std for summary in column if summary.std is not None]
    return plus_minus(fmean(means) if means else None, fmean(spreads) if spreads else None, digits)


def summary_table(name: str, caption: str, summaries: Mapping[str, Summary], digits: Mapping[str, int]) -> Table:
    """One row per system, or per scale: numbers of cases, mean with interval, spread."""
    return Table(
        name=name,
        caption=caption,
        head=["", "ratings", "stories", "mean, 95 % interval", "std", "lowest", "median", "highest"],
        rows=[
            [
                Cell(label),
                Cell(str(found.n)),
                Cell(str(found.stories)),
                Cell(with_interval(found.mean, found.interval, digits[found.scale])),
                Cell(number(found.std, digits[found.scale])),
                *(Cell(ABSENT if v is None else f"{v:g}") for v in (found.minimum, found.median, found.maximum)),
            ]
            for label, found in summaries.items()
        ],
        records=[asdict(summary) for summary in summaries.values()],
    )


def coefficient_table(agreements: Agreements, measures: Sequence[str]) -> Table:
    """Every coefficient, one row each, for a few measures."""
    head = ["", *(f"{measure}: {what}" for measure in measures for what in ("value", "bootstrap", "asymptotic", "n"))]
    return Table(
        name="agreement",
        caption="Agreement of raters, with 95 % intervals: bootstrap over stories; asymptotic, for independent pairs.",
        head=head,
        rows=[
            [Cell(label), *(cell for measure in measures for cell in _estimate_cells(agreements[measure][name]))]
            for name, label in COEFFICIENTS.items()
        ],
        records=list(_records(agreements)),
    )


def _estimate_cells(found: Estimate) -> Iterable[Cell]:
    texts = (number(found.value), bounds(found.bootstrap), bounds(found.asymptotic), str(found.n))
    return map(Cell, texts)


def _records(agreements: Agreements, **more: Any) -> Iterable[dict[str, Any]]:
    for measure, estimates in agreements.items():
        for name, estimate in estimates.items():
            yield {**more, "scale": measure, "coefficient": name, **asdict(estimate)}


def scale_table(agreements: Agreements, kappas: bool) -> Table:
    """Agreement of each scale, one row each: shares and kappas, or the other coefficients."""
    of_kappas = ("exact", "kappa_unweighted", "kappa_linear", "kappa_quadratic")
    skipped = ("all_equal", "icc_1k", "pearson_by_raters", "kendall_by_raters")
    names = [name for name in COEFFICIENTS if (name in of_kappas) == kappas and name not in skipped]
    return Table(
        name="agreement_kappas" if kappas else "agreement_correlations",
        caption="Agreement of raters on each scale, with 95 % bootstrap intervals over stories.",
        head=["", "stories", *(COEFFICIENTS[name] for name in names)],
        rows=[
            [Cell(measure), Cell(str(estimates["exact"].stories)), *(_short(estimates[name]) for name in names)]
            for measure, estimates in agreements.items()
        ],
        records=[record for record in _records(agreements) if record["coefficient"] in names],
    )


def _short(found: Estimate) -> Cell:
    return Cell(with_interval(found.value, found.bootstrap))


def group_table(
    groups: Mapping[str, Agreements], summaries: Mapping[str, Mapping[str, Summary]], digits: Mapping[str, int]
) -> Table:
    """Agreement on the stories of each group, scale by scale, as table 1 of the paper on LLM evaluation."""
    rows = []
    for group, agreements in groups.items():
        for measure, estimates in agreements.items():
            summary = summaries[group].get(measure)
            means = plus_minus(summary.mean, summary.std, digits[measure]) if summary else ABSENT
            cells = [str(estimates["exact"].stories), means, *(_short(estimates[name]).text for name in IN_GROUPS)]
            rows.append([Cell(group), Cell(measure), *map(Cell, cells)])
    return Table(
        name="groups",
        caption="Agreement of raters on the stories of each group, with 95 % bootstrap intervals over stories.",
        head=["group", "scale", "stories", "mean ± std", *(COEFFICIENTS[name] for name in IN_GROUPS)],
        rows=rows,
        records=[record for group, found in groups.items() for record in _records(found, group=group)],
        names=2,
    )


def comparison_table(scores: str, tests: Sequence[Comparison]) -> Table:
    """Every system against the reference on one kind of scores."""
    reference = tests[0].reference
    return Table(
        name=f"tests_{scores.replace(' ', '_')}",
        caption=f"Systems against {reference}: {WHAT[scores]}. Holm: corrected for the {len(tests)} tests.",
        head=["", "n", f"n {reference}", "difference, 95 % interval", "t", "df", "p", "p, Holm"],
        rows=[
            [
                Cell(test.system),
                Cell(str(test.n)),
                Cell(str(test.n_reference)),
                Cell(with_interval(test.difference, test.interval)),
                *(Cell(text) for text in (number(test.t), number(test.degrees, 1), p_value(test.p))),
                Cell(p_value(test.p_holm)),
            ]
            for test in tests
        ],
        records=[asdict(test) for test in tests],
    )


def scale_comparison_table(tests: Mapping[str, Sequence[Comparison]], digits: Mapping[str, int]) -> Table:
    """Every system against the reference on every scale; one mark where p is small, two where Holm's is."""
    scales, columns = list(tests), list(tests.values())
    reference = columns[0][0].reference
    return Table(
        name="tests_scales",
        caption=f"Difference of the mean rating from that of {reference}, by Welch's t-test: * p below 0.05; ** also "
        "with Holm's correction for the tests of the scale.",
        head=["", *scales],
        rows=[
            [Cell(row[0].system), *(Cell(_marked(test, digits[test.scores])) for test in row)]
            for row in zip(*columns, strict=True)
        ],
        records=[asdict(test) for column in columns for test in column],
    )


def _marked(test: Comparison, digits: int) -> str:
    if test.p is None or test.p_holm is None:
        return ABSENT
    stars = "**" if test.p_holm < SIGNIFICANT else "*" if test.p < SIGNIFICANT else ""
    return number(test.difference, digits) + stars


def reasons(agreements: Agreements) -> list[str]:
    """Why coefficients are not defined: ``item_3: all ratings are equal``, with their names where they are few."""
    lines = []
    for measure, estimates in agreements.items():
        found: dict[str, list[str]] = {}
        for name, estimate in estimates.items():
            if estimate.undefined:
                found.setdefault(estimate.undefined, []).append(COEFFICIENTS[name])
        for why, names in found.items():
            which = f" ({'; '.join(names)})" if len(names) <= FEW else ""
            lines.append(f"{measure}{which}: {why}")
    return lines
