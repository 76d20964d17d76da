"""The page that ``carp judge`` writes."""

from __future__ import annotations

from collections.abc import Sequence

from carp.data.report.markdown import escape
from carp.evaluation.judging.report import Results
from carp.evaluation.judging.table import MEANS, RATINGS, RESAMPLES, Row, undefined
from carp.evaluation.ratings.agreement import Estimate
from carp.evaluation.ratings.comparison import Comparison
from carp.evaluation.ratings.formats import ABSENT, Cell, Table, bounds, markdown, number, p_value, with_interval

CASES = {
    RATINGS: "each rating a case, as in the paper; ratings of one story depend on each other, so p is too small",
    MEANS: "the mean rating of each story a case",
}


def page(results: Results) -> str:
    """The page in Markdown."""
    judgement = results.judgement
    parts = [
        f"# Ratings by {escape(str(judgement.backend['model']))}\n",
        f"{len(judgement.stories):,} stories, {len(judgement.scales)} scales of the rubric "
        f"{escape(judgement.rubric.name)}, {judgement.options.answers} answers to each question. Every answer is in "
        "`answers.jsonl`, the ratings are in `ratings.csv` (`carp agree` reads them), all figures in `summary.json`.\n",
        _ratings(results),
        _tests(results),
        _kendall(results),
        _notes(results),
        _unparsed(results),
        _usage(results),
        _making(results),
    ]
    return "\n".join(part for part in parts if part)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], names: int) -> str:
    return markdown(Table("", "", head, [[Cell(text) for text in row] for row in rows], names=names))


def _ratings(results: Results) -> str:
    head = [
        "group",
        "scale",
        "stories",
        "ratings",
        "mean, 95 % interval",
        "std",
        "α, ordinal",
        "α, interval",
        "% equal",
    ]
    text = "## Ratings\n\n"
    for raters in dict.fromkeys(row.raters for row in results.rows):
        if results.people:
            text += f"By the {raters}:\n\n"
        text += _table(head, [_ratings_row(row) for row in results.rows if row.raters == raters], 2) + "\n"
    return (
        f"{text}std: of single ratings (n - 1). α: Krippendorff's, between the raters (answers) of a story. % equal: "
        "stories whose ratings, two or more, are all equal. Intervals of α and % equal: bootstrap over stories, "
        f"{RESAMPLES:,} resamples. (Table 1 of the paper.)\n"
    )


def _ratings_row(row: Row) -> list[str]:
    found = row.summary
    return [
        row.group,
        row.scale,
        str(found.stories),
        str(found.n),
        with_interval(found.mean, found.interval),
        number(found.std),
        *(with_interval(estimate.value, estimate.bootstrap) for estimate in (row.alpha_ordinal, row.alpha_interval)),
        _percent(row.all_equal),
    ]


def _percent(found: Estimate) -> str:
    if found.value is None:
        return ABSENT
    interval = tuple(100 * bound for bound in found.bootstrap) if found.bootstrap else None
    return f"{100 * found.value:.1f}" + (f" {bounds((interval[0], interval[1]), 1)}" if interval else "")


def _tests(results: Results) -> str:
    text = ""
    for kind, tests in results.tests.items():
        first = tests[0]
        head = [
            "scale",
            f"n {first.system}",
            f"n {first.reference}",
            "difference, 95 % interval",
            "t",
            "df",
            "p",
            "p, Holm",
        ]
        text += f"{escape(first.system)} minus {escape(first.reference)}, {CASES[kind]}:\n\n"
        text += _table(head, [_test_row(test) for test in tests], 1) + "\n"
    return f"## Welch's t-test\n\n{text}" if text else ""


def _test_row(test: Comparison) -> list[str]:
    return [
        test.scores,
        str(test.n),
        str(test.n_reference),
        with_interval(test.difference, test.interval),
        number(test.t),
        number(test.degrees, 1),
        p_value(test.p),
        p_value(test.p_holm),
    ]


def _kendall(results: Results) -> str:
    if not results.people:
        return ""
    rows = [
        [
            one.group,
            one.scale,
            str(one.tau.n),
            with_interval(one.tau.value, one.tau.bootstrap),
            p_value(one.tau.p),
            one.strength or ABSENT,
        ]
        for one in results.correlations
    ]
    text = (
        "## Kendall's τ\n\nBetween the judge's and the people's mean rating of each story (Table 2 of the paper):\n\n"
    )
    text += _table(["group", "scale", "stories", "τ-b, 95 % interval", "p", "strength"], rows, 2)
    of_pairs = [
        [row.raters, row.group, row.scale, str(row.kendall.n), with_interval(row.kendall.value, row.kendall.bootstrap)]
        for row in results.rows
    ]
    text += "\nBetween two raters of one side, the mean over all pairs of raters (Table 6 of the paper):\n\n"
    text += _table(["raters", "group", "scale", "pairs of ratings", "τ-b, 95 % interval"], of_pairs, 3)
    return f"{text}\nIntervals: bootstrap over stories. Strength: by the paper's footnote 4, where p is below 0.05.\n"


def _notes(results: Results) -> str:
    reasons = undefined(results.rows, results.correlations)
    return "Not defined:\n\n" + "".join(f"- {escape(reason)}\n" for reason in reasons) if reasons else ""


def _unparsed(results: Results) -> str:
    rows = [
        [
            scale,
            str(found.answers),
            str(found.rated),
            ", ".join(f"{reason}: {count}" for reason, count in found.unparsed.items()) or ABSENT,
            str(found.cut),
        ]
        for scale, found in results.yields.items()
    ]
    head = ["scale", "answers", "ratings", "without a rating", "cut at the longest length"]
    return "## Answers\n\n" + _table(head, rows, 1)


def _usage(results: Results) -> str:
    rows = []
    for what, found in (("all answers", results.total), ("of them asked in this run", results.asked_now)):
        cost = ABSENT if found.cost is None else f"{found.cost:.4f}"
        rows.append([what, *(f"{n:,}" for n in (found.questions, found.prompt_tokens, found.answer_tokens)), cost])
    text = "## Tokens\n\n" + _table(["", "questions", "tokens of queries", "tokens of answers", "cost"], rows, 1)
    if results.total.uncounted:
        text += f"\n{results.total.uncounted:,} answers came without numbers of tokens; they are not in these sums.\n"
    if prices := results.prices:
        text += f"\nPrices of a million tokens: queries {prices.prompt:g}, answers {prices.answer:g}.\n"
    return text


def _making(results: Results) -> str:
    judgement, options = results.judgement, results.judgement.options
    times = [answer.reply.asked for answer in judgement.answers]
    sampling = options.sampling
    models = sorted({answer.reply.model for answer in judgement.answers if answer.reply.model})
    lines = [
        *(f"{key}: {value}" for key, value in judgement.backend.items() if value),
        f"the model by its own account: {', '.join(models) or 'it does not say'}",
        f"asked between {min(times)} and {max(times)}",
        f"temperature {sampling.temperature:g}, top-p {sampling.top_p:g}, at most {sampling.max_tokens} tokens, "
        f"seed {options.seed}",
        f"rubric {judgement.rubric.name}: {judgement.rubric.source or 'no source given'}; persona "
        f"{'on' if options.persona else 'off'}, explanations {'asked for' if options.explain else 'not asked for'}, "
        f"half points {'taken' if options.halves else 'reported as no rating'}",
        *([f"people's ratings: {results.people}"] if results.people else []),
        ", ".join(f"{name} {version}" for name, version in results.versions.items()),
    ]
    return "## How it was made\n\n" + "".join(f"- {escape(line)}\n" for line in lines)
