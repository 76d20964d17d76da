"""``carp agree``: the paper's table from its data, each statistic against another computation, bad input."""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from conftest import shared_data
from matplotlib.axes import Axes

from carp.cli.agree import EXAMPLES, agree_command
from carp.cli.main import run
from carp.errors import InputError
from carp.evaluation.ratings.agreement import Estimate, agreement
from carp.evaluation.ratings.coefficients import KAPPA_POWERS, kappa, kappa_error
from carp.evaluation.ratings.columns import Wanted
from carp.evaluation.ratings.comparison import OVERALL, POOLED, RATERS, STORIES, compare, holm, welch
from carp.evaluation.ratings.figures import figure_names
from carp.evaluation.ratings.formats import Cell, Table, comma_separated, latex, markdown, p_value
from carp.evaluation.ratings.intervals import percentile_interval, resampled_counts
from carp.evaluation.ratings.report import Options, Report, analyse, write_agreement
from carp.evaluation.ratings.resampling import coefficients, pairs_of_raters
from carp.evaluation.ratings.samples import Sample, measures, sample
from carp.evaluation.ratings.table import Ratings, read_ratings
from carp.evaluation.ratings.tables import reasons

stats = pytest.importorskip("scipy.stats", reason="the statistics need scipy (extra eval)")
PNG = b"\x89PNG\r\n\x1a\n"
FEW = Options(resamples=100)

# "A Confederacy of Models", table 2, as printed: items 1 to 10, then the overall score.
TABLE_2 = """
chatgpt-gpt4 8.7±0.8 8.7±0.7 8.4±1.3 8.3±0.7 7.6±1 8.0±1.2 8.1±1.4 8.5±0.8 7.9±1.6 6.0±2.8 80.2±7.3
claude12 8.0±1.7 8.0±1.6 8.1±1.2 7.9±1.8 7.1±2.3 7.5±2 6.4±2.2 7.5±1.8 7.4±2.5 6.5±2.5 74.4±15.9
human 7.3±2.3 7.8±1.8 7.3±1.7 7.2±1.8 8.0±2 7.2±2.4 4.9±2.1 6.3±2.2 7.7±2.1 6.4±3.4 70.1±17.4
bing 7.8±2 7.5±2.2 7.9±1.7 7.4±2.1 7.0±1.6 6.8±2.4 5.3±2.9 6.2±2.1 7.4±2.2 6.2±2.6 69.5±18.4
chatgpt-gpt35 7.5±2 6.5±2.4 8.1±1.3 7.0±2.2 5.4±2.5 5.3±2.4 6.8±1.5 7.6±1.2 5.5±2.5 3.3±2.8 63.0±15.4
koala 7.5±2.5 6.7±2.2 8.2±1.2 6.8±2.6 5.8±2.3 4.8±2.7 5.8±2.4 5.5±2.3 5.5±2.3 3.4±3.2 60.0±19.2
vicuna 7.9±1.7 6.7±1.6 8.1±1.3 7.0±1.6 5.1±1.9 4.6±2.3 5.7±2.3 6.1±1.9 5.4±2.7 2.4±1.9 59.0±13.8
oa 7.2±2.2 5.8±2.4 7.2±2.5 6.2±2.6 4.9±2.1 3.9±2.4 5.8±2.4 6.5±2.2 4.3±2.3 2.9±3.1 54.7±18
bard 6.5±2.5 4.9±2.1 6.8±1.9 5.5±2.7 3.9±2.1 3.8±2.5 4.7±2.6 4.6±2.7 5.0±2.4 2.5±2 48.2±20.1
gpt4all 6.5±2.2 5.4±1.7 7.2±1.7 6.5±2.1 4.1±2.2 2.4±2.2 5.4±2.5 5.6±2.4 2.5±1.4 1.2±0.8 46.8±13.1
stablelm 5.5±1.8 5.0±2.5 6.6±1.9 3.8±2 3.2±1.5 2.1±2.2 4.4±1.9 3.8±2 2.9±2.6 1.4±1.5 38.7±17.2
dolly 4.6±2.2 5.0±2.2 5.6±2.5 3.2±1.9 4.2±2.8 3.1±2.2 4.4±1.9 3.3±1.8 3.0±2 1.5±1.5 37.9±13.6
alpaca 5.2±3.1 3.1±1.4 4.9±3 4.2±1.9 1.9±1 2.0±1.4 3.7±3 3.9±2.8 2.1±1.5 1.1±0.6 32.1±15.7
average 6.9±2.1 6.2±1.9 7.3±1.8 6.2±2 5.2±2 4.7±2.2 5.5±2.3 5.8±2 5.1±2.2 3.4±2.2 56.6±15.8
"""
PRINTED = {
    name: [tuple(map(float, cell.split("±"))) for cell in cells]
    for name, *cells in map(str.split, TABLE_2.strip().splitlines())
}

Row = Sequence[Any]
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a CSV file of rows under a header."""

    def make(rows: Sequence[Row], header: str = "story,rater,a", name: str = "ratings.csv") -> Path:
        path = tmp_path / name
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header.split(","), *rows])
        return path

    return make


@pytest.fixture(scope="module")
def confederacy() -> Report:
    ratings = read_ratings(shared_data("confederacy_ratings.csv"), Wanted(group="none"))
    return analyse(ratings, Options(resamples=500))


def of_matrix(matrix: Sequence[Sequence[float]]) -> Sample:
    """A sample of one scale: [stories, raters], NaN where a rating is missing."""
    values = np.array(matrix, float)
    story, rater = np.nonzero(np.ones_like(values))
    names = [str(i) for i in range(max(values.shape))]
    n = len(story)
    none = np.zeros(n, np.int64)
    ratings = Ratings("", "", None, names, names, [], [], story, rater, none, none, {}, none)  # type: ignore[arg-type]
    return sample(ratings, [values.ravel()])


def random_matrix(seed: int, stories: int = 30, raters: int = 3, missing: float = 0.2) -> np.ndarray:
    random = np.random.default_rng(seed)
    merit = random.normal(0, 1.5, stories)[:, None]
    values = np.clip(np.round(3 + merit + random.normal(0, 1, (stories, raters))), 1, 6)
    return np.where(random.random(values.shape) < missing, np.nan, values)


def value(found: Estimate) -> float:
    assert found.value is not None, found.undefined
    return found.value


def to_digits(numbers: Sequence[float], digits: int) -> tuple[float, ...]:
    return tuple(round(number, digits) for number in numbers)


# -- the paper's numbers from its data ---------------------------------------------------------------------


def test_every_mean_and_standard_deviation_of_table_2(confederacy: Report) -> None:
    systems = [name for name in PRINTED if name != "average"]
    assert list(confederacy.systems) == systems  # sorted as printed
    compared = 0
    for system in systems:
        for summary, (mean, std) in zip(confederacy.systems[system].values(), PRINTED[system], strict=True):
            assert (f"{summary.mean:.1f}", f"{summary.std:.1f}") == (f"{mean:.1f}", f"{std:.1f}"), summary
            compared += 1
    assert compared == 143


def test_the_bottom_row_of_table_2_averages_means_and_deviations(confederacy: Report) -> None:
    (row,) = (row for row in confederacy.tables["means"].rows if row[0].text == "average")
    printed = [f"{mean:.1f} ± {std:.1f}" for mean, std in PRINTED["average"]]
    assert [cell.text for cell in row[1:-1]] == printed[:-1]
    assert (row[-1].text, printed[-1]) == ("56.5 ± 15.8", "56.6 ± 15.8")  # the paper's 56.6 does not follow
    assert confederacy.everything["overall"].mean == pytest.approx(56.5077, abs=1e-4)
    assert confederacy.everything["overall"].std == pytest.approx(21.114, abs=1e-3)


def test_the_linearly_weighted_kappa_of_the_paper_is_the_quadratic_one(confederacy: Report) -> None:
    found = confederacy.agreement["pooled"]
    quadratic, linear = found["kappa_quadratic"], found["kappa_linear"]
    assert (quadratic.n, quadratic.stories) == (650, 65)
    assert to_digits([value(quadratic), *(quadratic.asymptotic or ())], 2) == (0.48, 0.43, 0.54)
    assert to_digits([value(linear), *(linear.asymptotic or ())], 2) == (0.33, 0.29, 0.38)
    # The items of a story are not independent: over stories, the interval is nearly twice as wide.
    assert quadratic.bootstrap == pytest.approx((0.375, 0.588), abs=0.02)


def test_the_correlation_hangs_on_which_rater_of_a_pair_comes_first(confederacy: Report) -> None:
    found = confederacy.agreement["overall"]["pearson"]
    assert (found.n, round(value(found), 2)) == (65, 0.58)
    assert found.p is not None
    assert found.p < 0.00001
    pairs = sample(confederacy.ratings, [confederacy.ratings.overall]).pairs
    groups = pairs.raters[:, 0] // 2
    swapped = [np.isin(groups, chosen) for size in range(6) for chosen in itertools.combinations(range(5), size)]
    others = [
        np.corrcoef(np.where(swap, pairs.second, pairs.first), np.where(swap, pairs.first, pairs.second))[0, 1]
        for swap in swapped
    ]
    assert (len(others), round(min(others), 2), round(max(others), 2)) == (32, 0.48, 0.68)
    assert round(value(confederacy.agreement["overall"]["icc_1"]), 2) == 0.48
    assert round(value(confederacy.agreement["overall"]["pearson_by_raters"]), 2) == 0.69


def test_gpt_4_against_people_and_the_bottom_models(confederacy: Report) -> None:
    def below(scores: str, limit: float = 0.05, corrected: bool = False) -> set[str]:
        tests = confederacy.tests[scores]
        return {test.system for test in tests if (test.p_holm if corrected else test.p or 1) < limit}  # type: ignore[operator]

    pooled = {test.system: test for test in confederacy.tests[POOLED]}
    assert (pooled["chatgpt-gpt4"].n, p_value(pooled["chatgpt-gpt4"].p)) == (100, "0.00031")
    assert set(pooled) - below(POOLED) == {"claude12", "bing"}
    five = {"bard", "gpt4all", "stablelm", "dolly", "alpaca"}
    assert below(OVERALL) == five  # the paper says six
    assert {test.system: round(test.p or 0, 3) for test in confederacy.tests[OVERALL]}["oa"] == 0.068
    assert below(OVERALL, corrected=True) == five - {"bard"}
    assert below(STORIES, corrected=True) == {"dolly", "alpaca"}
    assert below(RATERS) == five | {"oa", "vicuna"}
    assert below("item_7") == {"chatgpt-gpt4", "chatgpt-gpt35"}
    assert below("item_7", corrected=True) == {"chatgpt-gpt4"}


def test_humour_does_not_divide_quite_as_the_paper_says(confederacy: Report) -> None:
    systems = list(confederacy.systems)
    first, second = systems[:4], systems[4:]
    unclear = {}
    for reference in first:
        for test in compare(confederacy.ratings, reference)["item_10"]:
            if test.system in second and test.p is not None and test.p >= 0.05:
                unclear[reference, test.system] = p_value(test.p)
    assert unclear == {("human", "koala"): "0.056", ("chatgpt-gpt4", "koala"): "0.067"}


def test_the_figures_show_what_the_paper_describes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drawn: list[tuple[str, list[float], dict[str, Any], list[str]]] = []
    draw, ticks = Axes.boxplot, Axes.set_xticks

    def spy(self: Axes, boxes: list[np.ndarray], **how: Any) -> Any:
        drawn.append((self.get_title(), [float(box.mean()) for box in boxes], how, []))
        return draw(self, boxes, **how)

    def spy_ticks(self: Axes, places: Any, labels: Any = None, **how: Any) -> Any:
        if labels is not None:
            drawn[-1][3].extend(labels)
        return ticks(self, places, labels, **how)

    monkeypatch.setattr(Axes, "boxplot", spy)
    monkeypatch.setattr(Axes, "set_xticks", spy_ticks)
    write_agreement(
        shared_data("confederacy_ratings.csv"), tmp_path / "out", replace(FEW, columns=Wanted(group="none"))
    )
    names = [name for name in PRINTED if name != "average"]
    assert len(drawn) == 11
    for i, (_, means, how, labels) in enumerate(drawn):
        assert labels == names
        assert means == pytest.approx([PRINTED[name][i][0] for name in names])
        assert (how["whis"], how["showmeans"], how["meanprops"]["markerfacecolor"]) == (1.5, True, "red")
    files = sorted(os.listdir(tmp_path / "out" / "figures"))
    assert files == sorted(["overall.png", *(f"item_{i}.png" for i in range(1, 11))])
    assert all((tmp_path / "out" / "figures" / file).read_bytes().startswith(PNG) for file in files)


# -- coefficients against other computations ---------------------------------------------------------------


def test_kappas_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is the reference (extra eval)")
    pairs = of_matrix(random_matrix(0)).pairs
    found = agreement(of_matrix(random_matrix(0)), 100, 0)
    labels = list(range(1, 7))
    for name, weights in (("kappa_unweighted", None), ("kappa_linear", "linear"), ("kappa_quadratic", "quadratic")):
        expected = metrics.cohen_kappa_score(pairs.first, pairs.second, labels=labels, weights=weights)
        assert value(found[name]) == pytest.approx(expected, abs=1e-12)


def test_a_rating_that_nobody_gave_widens_the_gap() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is the reference (extra eval)")
    matrix = [[1, 1], [1, 2], [2, 10], [10, 10], [2, 2]]
    first, second = zip(*matrix, strict=True)
    expected = metrics.cohen_kappa_score(first, second, labels=list(range(1, 11)), weights="linear")
    assert value(agreement(of_matrix(matrix), 100, 0)["kappa_linear"]) == pytest.approx(expected, abs=1e-12)


def test_the_error_of_kappa_is_that_of_a_textbook() -> None:
    # Fleiss, Statistical Methods for Rates and Proportions (1981), chapter 13; its 0.51 to 0.85 is of rounded numbers.
    table, grades = np.array([[75.0, 1, 4], [5, 4, 1], [0, 0, 10]]), np.arange(3.0)
    estimate, error = float(kappa(table, grades, 0)), kappa_error(table, grades, 0)
    assert to_digits([estimate, error, estimate - 1.96 * error, estimate + 1.96 * error], 2) == (0.68, 0.09, 0.5, 0.85)


@pytest.mark.parametrize("power", KAPPA_POWERS.values(), ids=KAPPA_POWERS)
def test_the_error_of_kappa_is_that_of_the_delta_method(power: int) -> None:
    random = np.random.default_rng(1)
    table, values = random.integers(1, 20, (4, 4)).astype(float), np.array([1.0, 2, 4, 7])
    n, step, gradient = table.sum(), 1e-5, np.zeros((4, 4))
    for cell in np.ndindex(4, 4):
        moved = np.zeros((4, 4))
        moved[cell] = step
        up, down = (float(kappa(table / n + sign * moved, values, power)) for sign in (1, -1))
        gradient[cell] = (up - down) / (2 * step)
    shares = table / n
    variance = ((shares * gradient**2).sum() - (shares * gradient).sum() ** 2) / n
    assert kappa_error(table, values, power) == pytest.approx(math.sqrt(variance), rel=1e-6)


def test_alpha_of_krippendorffs_own_example() -> None:
    # Krippendorff (2011), Computing Krippendorff's alpha-reliability; dots are missing ratings.
    observers = ["123321412...", "1233224125.3", ".3332342251.", "12332441251."]
    matrix = [[math.nan if mark == "." else float(mark) for mark in row] for row in observers]
    found = agreement(of_matrix(np.array(matrix).T), 100, 0)
    names = ("alpha_nominal", "alpha_ordinal", "alpha_interval")
    assert to_digits([value(found[name]) for name in names], 3) == (0.743, 0.815, 0.849)
    assert found["alpha_nominal"].n == 11  # the unit with one rating cannot agree


def test_icc_of_shrout_and_fleiss() -> None:
    # Shrout and Fleiss (1979), tables 2 and 4: ICC(1,1) = .17, ICC(1,4) = .44.
    matrix = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    found = agreement(of_matrix(matrix), 100, 0)
    assert to_digits([value(found["icc_1"]), value(found["icc_1k"])], 2) == (0.17, 0.44)
    assert to_digits(found["icc_1"].asymptotic or (), 3) == (-0.133, 0.723)
    # With two ratings of each story, ICC(1) is nearly the correlation of all pairs in both orders (Fisher, 1925).
    pairs = of_matrix(random_matrix(3, 400, 2, 0.0)).pairs
    both = np.corrcoef([*pairs.first, *pairs.second], [*pairs.second, *pairs.first])[0, 1]
    assert value(agreement(of_matrix(random_matrix(3, 400, 2, 0.0)), 100, 0)["icc_1"]) == pytest.approx(both, abs=0.003)


def test_icc_of_unequal_numbers_is_that_of_an_analysis_of_variance() -> None:
    matrix = random_matrix(5)
    units = [row[~np.isnan(row)] for row in matrix]
    units = [unit for unit in units if len(unit) > 1]
    ratio = stats.f_oneway(*units).statistic
    sizes = np.array([len(unit) for unit in units])
    k = (sizes.sum() - (sizes**2).sum() / sizes.sum()) / (len(sizes) - 1)
    assert len(set(sizes)) == 2
    found = agreement(of_matrix(matrix), 100, 0)
    assert value(found["icc_1"]) == pytest.approx((ratio - 1) / (ratio + k - 1))
    assert value(found["icc_1k"]) == pytest.approx(1 - 1 / ratio)


def test_correlations_are_those_of_scipy() -> None:
    made = of_matrix(random_matrix(2))
    found, pairs = agreement(made, 100, 0), made.pairs
    r, tau = stats.pearsonr(pairs.first, pairs.second), stats.kendalltau(pairs.first, pairs.second)
    assert (value(found["pearson"]), found["pearson"].p) == pytest.approx((r.statistic, r.pvalue))
    assert found["pearson"].asymptotic == pytest.approx(tuple(r.confidence_interval()), abs=1e-6)
    assert (value(found["kendall"]), found["kendall"].p) == pytest.approx((tau.statistic, tau.pvalue))
    by_raters = [stats.pearsonr(own.first, own.second).statistic for own in pairs_of_raters(pairs)]
    assert len(by_raters) == 3
    assert value(found["pearson_by_raters"]) == pytest.approx(np.mean(by_raters))
    by_raters = [stats.kendalltau(own.first, own.second).statistic for own in pairs_of_raters(pairs)]
    assert value(found["kendall_by_raters"]) == pytest.approx(np.mean(by_raters))


def test_a_resample_counts_as_if_its_stories_were_repeated() -> None:
    matrix = random_matrix(4)
    whole = of_matrix(matrix)
    rated = matrix[(~np.isnan(matrix)).sum(1) > 1]
    weights = resampled_counts(whole.stories, 3, seed=7)
    assert (weights.sum(1) == len(rated)).all()
    found = coefficients(whole, weights)
    for i, drawn in enumerate(weights.astype(int)):
        assert drawn.max() > 1
        repeated = coefficients(of_matrix(np.repeat(rated, drawn, axis=0)), np.ones((1, len(rated))))
        for name, values in found.items():
            assert values[i] == pytest.approx(repeated[name][0]), name


def test_bootstrap_intervals_are_those_of_scipy() -> None:
    matrix = random_matrix(6, 60, 2, 0.0)
    ours = agreement(of_matrix(matrix), 2000, 0)["pearson"].bootstrap
    how = {"paired": True, "vectorized": False, "method": "percentile", "n_resamples": 500}
    random = np.random.default_rng(0)
    drawn = stats.bootstrap(tuple(matrix.T), lambda x, y: stats.pearsonr(x, y).statistic, **how, rng=random)
    theirs = drawn.confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.03)


def test_intervals_leave_out_few_undefined_resamples_and_refuse_many() -> None:
    values = np.linspace(0, 1, 101)
    assert percentile_interval(values) == pytest.approx((0.025, 0.975))
    assert percentile_interval(np.append(values, [np.nan] * 5)) == pytest.approx((0.025, 0.975))
    assert percentile_interval(np.append(values, [np.nan] * 12)) is None


def test_pairs_by_hand() -> None:
    made = of_matrix([[1, 2, 3], [4, math.nan, 5], [6, math.nan, math.nan]])
    pairs = made.pairs
    found = sorted(zip(pairs.first, pairs.second, pairs.raters.tolist(), pairs.share, strict=True))
    assert found == [(1, 2, [0, 1], 0.5), (1, 3, [0, 2], 0.5), (2, 3, [1, 2], 0.5), (4, 5, [0, 2], 1.0)]
    assert (made.units, made.stories, made.counts.tolist()) == (2, 2, [3, 2])
    agreed = agreement(of_matrix([[2, 2, 3], [4, math.nan, 4], [1, 1, 1]]), 100, 0)
    assert (value(agreed["exact"]), agreed["exact"].n) == (pytest.approx(5 / 7), 7)
    assert (value(agreed["all_equal"]), agreed["all_equal"].n) == (pytest.approx(2 / 3), 3)


# -- tests against a reference -----------------------------------------------------------------------------


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9, 0.4]) == [1, 1, 1]
    assert holm([]) == []


def test_welch_by_hand() -> None:
    left, right = np.array([4.0, 5, 7, 8]), np.array([1.0, 2, 3])
    found = welch("a", "b", OVERALL, left, right)
    parts = left.var(ddof=1) / 4, right.var(ddof=1) / 3
    degrees = sum(parts) ** 2 / (parts[0] ** 2 / 3 + parts[1] ** 2 / 2)
    t = (6 - 2) / math.sqrt(sum(parts))
    assert (found.difference, found.t, found.degrees) == pytest.approx((4, t, degrees))
    assert found.p == pytest.approx(2 * stats.t.sf(t, degrees))
    reach = stats.t.ppf(0.975, degrees) * math.sqrt(sum(parts))
    assert found.interval == pytest.approx((4 - reach, 4 + reach))


def test_comparisons_by_hand(write: Write) -> None:
    rows = [("s1", "human", 1, 8, 6), ("s1", "human", 2, 9, 7), ("s2", "human", 1, 6, 4), ("s2", "human", 3, 5, 5)]
    rows += [("s3", "lm", 1, 3, 5), ("s3", "lm", 2, 6, ""), ("s4", "lm", 1, 4, 2), ("s4", "lm", 3, 2, 2)]
    report = analyse(read_ratings(write(rows, "story,system,rater,a,b")), FEW)
    tests = {kind: found[0] for kind, found in report.tests.items()}
    sizes = {OVERALL: (3, 4), POOLED: (7, 8), STORIES: (2, 2), RATERS: (2, 2), "a": (4, 4), "b": (3, 4)}
    assert {kind: (test.n, test.n_reference) for kind, test in tests.items()} == sizes
    # Overall scores (sums): human 14, 16, 10, 10; lm 8, missing, 6, 4.
    assert tests[OVERALL].difference == pytest.approx(6 - 12.5)
    assert tests[STORIES].difference == pytest.approx((8 + 5) / 2 - (15 + 10) / 2)
    assert tests[RATERS].difference == pytest.approx((7 - 12 + 4 - 10) / 2)  # raters 1 and 3; 2 gave lm no overall
    expected = stats.ttest_rel([7, 4], [12, 10]).pvalue
    assert tests[RATERS].p == pytest.approx(expected)


def test_the_interval_of_a_mean_takes_stories_for_cases(confederacy: Report) -> None:
    ratings = confederacy.ratings
    rows = ratings.system == ratings.systems.index("bing")
    means = [ratings.overall[rows & (ratings.story == s)].mean() for s in np.unique(ratings.story[rows])]
    expected = stats.t.interval(0.95, 4, np.mean(means), stats.sem(means))
    assert confederacy.systems["bing"]["overall"].interval == pytest.approx(expected)


def test_a_group_agrees_as_if_it_were_alone(write: Write) -> None:
    scores = random_matrix(9, 16, 3, 0.0)
    rows = [(f"s{i}", f"g{i % 2}", f"r{j}", scores[i, j]) for i in range(16) for j in range(3)]
    header = "story,group,rater,a"
    whole = analyse(read_ratings(write(rows, header)), FEW)
    alone = analyse(read_ratings(write([row for row in rows if row[1] == "g1"], header, "alone.csv")), FEW)
    assert list(whole.groups) == ["g0", "g1"]
    assert whole.groups["g1"] == alone.agreement != whole.agreement
    (cells,) = ([cell.text for cell in row] for row in whole.tables["groups"].rows if row[0].text == "g1")
    assert cells[1:4] == ["a", "8", f"{alone.everything['a'].mean:.1f} ± {alone.everything['a'].std:.1f}"]


# -- degenerate ratings ------------------------------------------------------------------------------------


def undefined(report: Report, measure: str) -> set[str]:
    return {found.undefined for found in report.agreement[measure].values()}


def test_one_rater_agrees_with_nobody(write: Write, tmp_path: Path) -> None:
    source = write([("s1", "r", 3, 4), ("s2", "r", 5, 1)], "story,rater,a,b")
    report = write_agreement(source, tmp_path / "out", FEW)
    assert {reason for name in report.agreement for reason in undefined(report, name)} == {"no story has two ratings"}
    assert report.everything["a"].mean == 4
    assert "Not defined: a: no story has two ratings; b:" in (tmp_path / "out" / "README.md").read_text()


def test_constant_ratings(write: Write) -> None:
    rows = [(story, rater, 3, 1 + (story == "s1")) for story in ("s1", "s2", "s3") for rater in "xy"]
    report = analyse(read_ratings(write(rows, "story,rater,a,b")), FEW)
    assert value(report.agreement["a"]["exact"]) == 1
    assert undefined(report, "a") == {"", "all ratings are equal"}
    assert value(report.agreement["b"]["kappa_linear"]) == value(report.agreement["b"]["icc_1"]) == 1  # no doubt at all


def test_one_constant_rater_correlates_with_nobody(write: Write) -> None:
    rows = [row for i in range(6) for row in ((f"s{i}", "x", 3), (f"s{i}", "y", 1 + i % 4))]
    found = analyse(read_ratings(write(rows)), FEW).agreement["a"]
    assert "a (Pearson's r; Pearson's r, mean of rater pairs; Kendall's τ-b; Kendall's" in reasons({"a": found})[0]
    assert found["pearson"].undefined == found["kendall"].undefined == "one side of the pairs is constant"
    assert value(found["kappa_unweighted"]) == pytest.approx(0)


def test_one_story(write: Write) -> None:
    report = analyse(read_ratings(write([("s", "x", 3), ("s", "y", 4)])), FEW)
    assert undefined(report, "a") == {"", "one story only"}
    assert (report.agreement["a"]["exact"].value, report.agreement["a"]["exact"].bootstrap) == (0, None)
    assert report.everything["a"].interval is None


def test_missing_cells_are_left_out_scale_by_scale(write: Write) -> None:
    rows = [("s1", "x", 3, "NA"), ("s1", "y", 4, 2), ("s2", "x", "", 5), ("s2", "y", 2, 5), ("s2", "z", 1, "nan")]
    report = analyse(read_ratings(write(rows, "story,rater,a,b")), FEW)
    assert report.counts["missing"] == 3
    assert [report.agreement[name]["exact"].n for name in ("a", "b", "pooled", "overall")] == [2, 1, 3, 0]
    assert report.everything["overall"].n == 2  # a missing rating leaves no sum


def test_a_scale_without_any_rating(write: Write, tmp_path: Path) -> None:
    rows = [(f"s{i}", rater, i, "") for i in range(4) for rater in "xy"]
    report = write_agreement(write(rows, "story,rater,a,b"), tmp_path / "out", FEW)
    assert "| all ratings | 1.50 ± 1.20 | – | – |" in (tmp_path / "out" / "README.md").read_text()
    assert (report.everything["b"].n, undefined(report, "b")) == (0, {"no story has two ratings"})
    assert value(report.agreement["pooled"]["icc_1"]) == 1


def test_ratings_of_too_many_values_have_no_tables(write: Write) -> None:
    rows = [(f"s{i}", rater, i + shift) for i in range(300) for rater, shift in (("x", 0), ("y", 0.5))]
    found = analyse(read_ratings(write(rows)), FEW).agreement["a"]
    assert found["kappa_linear"].undefined == found["kendall"].undefined == "more than 512 different ratings"
    assert value(found["pearson"]) == pytest.approx(1)
    assert value(found["icc_1"]) > 0.999


def test_systems_of_one_rating_or_without_spread_have_no_test(write: Write, tmp_path: Path) -> None:
    rows = [("s1", "human", "x", 3), ("s2", "human", "y", 3), ("s3", "one", "x", 5), ("s4", "same", "x", 4)]
    rows += [("s5", "same", "y", 4)]
    report = write_agreement(write(rows, "story,system,rater,a"), tmp_path / "out", FEW)
    why = {test.system: test.undefined for test in report.tests[OVERALL]}
    assert why == {"one": "fewer than two scores on one side", "same": "all scores of each side are equal"}
    assert {test.undefined for test in report.tests[RATERS]} == {
        "fewer than two raters rated both",
        "the difference is the same for all raters",
    }
    assert POOLED not in report.tests  # one scale is the overall score


# -- columns and files -------------------------------------------------------------------------------------


def test_columns_are_found_by_their_names(write: Write) -> None:
    rows = [("s1", "gpt", 1, "x", 3, 4, "A1"), ("s1", "gpt", 1, "y", 5, 4, "B7")]
    found = read_ratings(write(rows, "story_id,model,iteration,annotator,item_1,item_2,code"))
    assert found.columns.scales == ("item_1", "item_2")
    assert (found.columns.rater, found.systems, found.overall.tolist()) == ("annotator", ["gpt"], [7, 9])


def test_options_name_the_columns(write: Write) -> None:
    rows = [("s1", "x", 1, 3, 4, 9), ("s1", "y", 1, 5, 4, 8)]
    source = write(rows, "what,who,model,cohesion,likability,mark")
    named = Wanted(story="what", rater="who", system="none", scales="cohe*, likability", overall="mean")
    found = read_ratings(source, named)
    assert (list(found.values), found.systems, found.overall.tolist()) == (["cohesion", "likability"], [], [3.5, 4.5])
    assert read_ratings(source, replace(named, overall="mark")).overall.tolist() == [9, 8]


def test_an_overall_score_can_be_the_only_scale(write: Write) -> None:
    source = write([("s1", "x", 3), ("s1", "y", 5)], "story,rater,overall")
    found = read_ratings(source, Wanted(scales="overall"))
    assert (found.single, found.overall.tolist(), list(measures(found))) == (True, [3, 5], ["overall"])


def test_raters_are_in_natural_order_and_rows_in_any(write: Write) -> None:
    scores = random_matrix(8, 12, 2, 0.0)
    rows = [(f"s{i}", rater, scores[i, j]) for i in range(12) for j, rater in enumerate(("r10", "r2"))]
    orders = {"one.csv": rows, "two.csv": rows[::-1]}
    first, second = (analyse(read_ratings(write(some, name=name)), FEW) for name, some in orders.items())
    assert first.ratings.raters == ["r2", "r10"]
    for name, found in first.agreement["a"].items():
        assert value(found) == pytest.approx(value(second.agreement["a"][name]))


def test_other_formats_are_read(tmp_path: Path) -> None:
    records = [{"story": "s", "rater": rater, "a": rating} for rater, rating in ((1, 3), (2, None))]
    path = tmp_path / "ratings.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    found = read_ratings(path)
    assert (found.raters, found.values["a"][0], math.isnan(found.values["a"][1])) == (["1", "2"], 3, True)


def test_tables_in_three_formats() -> None:
    record = {"system": "a_b", "mean": 1 / 3, "interval": (0.25, None)}
    table = Table("t", "50 % & more", ["", "x|y"], [[Cell("a_b"), Cell("0.3 ± 0.1", bold=True)]], [record])
    assert markdown(table) == "|  | x\\|y |\n| --- | ---: |\n| a\\_b | **0.3 ± 0.1** |\n"
    text = latex(table)
    assert r"{}a\_b & \textbf{0.3 $\pm$ 0.1} \\" in text
    assert r"\caption{50 \% \& more}" in text
    assert comma_separated(table) == "system,mean,interval_low,interval_high\na_b,0.3333333333333333,0.25,\n"


def test_names_of_figures_are_safe_and_different() -> None:
    assert figure_names(["item 1", "item/1", "../x", "Item_1", "§"]) == {
        "item 1": "item_1.png",
        "item/1": "item_1_2.png",
        "../x": "x.png",
        "Item_1": "Item_1_3.png",
        "§": "scale.png",
    }


def test_the_same_data_give_the_same_files(write: Write, tmp_path: Path) -> None:
    stories = [(f"s{i}", f"$m{i % 3}", f"g{i % 2}") for i in range(9)]
    rows = [(*story, rater, i % 5, (i + len(rater)) % 4) for i, story in enumerate(stories) for rater in ("x", "yy")]
    source = write(rows, "story,system,group,rater,a,b|c")
    for name in ("one", "two"):
        write_agreement(source, tmp_path / name, replace(FEW, reference="$m0"))
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*.*"))
    assert len(files) == 2 + 3 + 3 * 12
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    found = json.loads((tmp_path / "one" / "agreement.json").read_text())
    assert found["made"]["resamples"] == 100
    assert set(found["groups"]) == {"g0", "g1"}
    assert len(found["sha256"]) == 64


# -- the command -------------------------------------------------------------------------------------------

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def agree(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs ``carp agree WORDS...``."""
    application = typer.Typer(pretty_exceptions_enable=False)
    application.command("agree", epilog=EXAMPLES)(agree_command)
    monkeypatch.chdir(tmp_path)

    def start(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["carp agree", *words])
        with pytest.raises(SystemExit) as caught:
            run(application)
        out, err = capsys.readouterr()
        return int(caught.value.code or 0), out, err

    return start


def test_the_command_on_the_papers_file(agree: Run, tmp_path: Path) -> None:
    code, out, err = agree(
        str(shared_data("confederacy_ratings.csv")), "--out", "found", "--resamples", "100", "--group", "none"
    )
    assert (code, err) == (0, "report: found/README.md\n")
    assert out.startswith("130 ratings of 65 stories by 10 raters\npooled: Cohen's κ, quadratic 0.48 [0.3")
    page = (tmp_path / "found" / "README.md").read_text()
    assert "| average | 6.9 ± 2.1 |" in page
    assert "it equals the sum of the scales in 130 of 130 rows" in page
    for link in ("tables/means.tex", "figures/item_10.png", "agreement.json"):
        assert f"]({link})" in page
        assert (tmp_path / "found" / link).is_file()


ROWS = [("s1", "lm", "x", 3), ("s1", "lm", "y", 4), ("s2", "human", "x", 5)]
HEADER = "story,system,rater,a"


@pytest.mark.parametrize(
    ("rows", "header", "words", "message"),
    [
        ([*ROWS, ("s2", "human", "y", "good")], HEADER, [], "ratings.csv, row 4, column 'a': 'good' is not a number; "),
        ([*ROWS, ("s2", "human", "y", "7,5")], HEADER, [], "ratings.csv, row 4, column 'a': '7,5' is not a number"),
        ([*ROWS, ("s2", "human", "y", "inf")], HEADER, [], "ratings.csv, row 4, column 'a': 'inf' is not a number"),
        (
            [*ROWS, ("s2", "human", "x", 4)],
            HEADER,
            [],
            "ratings.csv, row 4: rater 'x' rates story 's2' as in row 3; keep",
        ),
        (
            [*ROWS, ("s2", "lm", "y", 4)],
            HEADER,
            [],
            "ratings.csv, row 4: story 's2' has the system 'lm', but 'human' in",
        ),
        ([*ROWS, ("s2", "human", "", 4)], HEADER, [], "ratings.csv, row 4, column 'rater': empty; fill it in"),
        ([*ROWS, ("s2", "human", "y")], HEADER, [], "ratings.csv, row 4: not as many cells as the header has columns"),
        (ROWS, HEADER, ["--range", "4", "5"], "ratings.csv, row 1, column 'a': 3 lies outside --range 4 5; mend one"),
        (ROWS, HEADER, ["--reference", "people"], "--reference people: ratings.csv has no such system (systems: lm, "),
        (
            ROWS,
            HEADER,
            ["--system", "none", "--reference", "lm"],
            "--reference lm: ratings.csv has no such system (name their",
        ),
        (ROWS, HEADER, ["--rater", "who"], "--rater who: ratings.csv has no such column (columns: story, sys"),
        (ROWS, HEADER, ["--scales", "a,item_*"], "--scales item_*: ratings.csv has no such column"),
        (ROWS, HEADER, ["--scales", "a,rater"], "--scales rater: the column 'rater' is no scale, it is used otherwise"),
        (ROWS, "story,system,rater,overall", [], "ratings.csv: no column is left for a scale (columns: story, system"),
        (
            [("s", "r", 1, 2)],
            "story,rater,a,pooled",
            [],
            "ratings.csv: a scale cannot be called 'pooled' beside others",
        ),
        (ROWS, HEADER, ["--overall", "b"], "--overall b: ratings.csv has no such column"),
        (ROWS, HEADER, ["--story", "rater"], "ratings.csv: one column for two purposes (rater, rater, system)"),
        (ROWS, "tale,system,rater,a", [], "ratings.csv: no column for the story (columns: tale, system, rater, a); n"),
        ([("s", "m", "r")], "story,system,rater", [], "ratings.csv: no column is left for a scale"),
        ([], HEADER, [], "ratings.csv: holds no ratings"),
        (ROWS, HEADER, ["--out", "full"], "--out full: exists already; name a new folder"),
        (ROWS, HEADER, ["--resamples", "5"], "--resamples 5: give at least 100"),
        (ROWS, HEADER, ["--seed", "-1"], "--seed -1: give a number from 0"),
        (ROWS, HEADER, ["--range", "10", "1"], "--range 10 1: give the lowest rating, then the highest"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    agree: Run, write: Write, tmp_path: Path, rows: list[Row], header: str, words: list[str], message: str
) -> None:
    write(rows, header)
    (tmp_path / "full").mkdir()
    before = sorted(os.listdir(tmp_path))
    code, out, err = agree("ratings.csv", "--out", "new", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"carp: {message}")
    assert sorted(os.listdir(tmp_path)) == before


def test_a_file_that_is_not_there(agree: Run) -> None:
    assert agree("none.csv", "--out", "new")[::2] == (2, "carp: none.csv: no such file\n")


def test_without_scipy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, write: Write, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(InputError, match=r"pip install 'carp-critic\[eval\]'"):
        write_agreement(write(ROWS, HEADER), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_every_measure_has_every_coefficient(confederacy: Report) -> None:
    assert set(confederacy.agreement) == set(measures(confederacy.ratings))
    counts = {len(found) for found in confederacy.agreement.values()}
    assert counts == {14}
    every = [found for estimates in confederacy.agreement.values() for found in estimates.values()]
    for found in every:
        assert found.value is not None
        assert found.bootstrap is not None
        assert found.bootstrap[0] <= found.value <= found.bootstrap[1]
