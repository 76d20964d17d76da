"""The report as a Markdown page: every table has one column per data set."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from carp.data.report.figures import COMMON_WORDS, CONTEXT, Texts
from carp.data.report.leakage import Leakage, Rate
from carp.data.report.markdown import ABSENT, Row, bare_percent, escape, five_numbers, mean, percent, table
from carp.data.report.toxicity import HALF

if TYPE_CHECKING:
    from carp.data.report.report import DataSet, Report

SHOWN_CHARACTERS = 80


def page(report: Report) -> str:
    """The page of a report."""
    names = " and ".join(data.name for data in report.data_sets)
    sections = [
        f"# The data: {escape(names)}",
        "Percentages are followed by their 95 % interval and by n. Intervals of shares are Wilson's, and take the "
        "pairs for independent; where many pairs share a story, the truth is wider.",
        *_sizes(report.data_sets),
        *_lengths(report),
        *_sentiment(report),
        *_toxicity(report),
        *_words(report.data_sets),
        *_frequent(report.data_sets),
        *_leakage(report.data_sets),
        *_origin(report),
    ]
    return "\n\n".join(sections) + "\n"


def _sizes(data_sets: Sequence[DataSet]) -> list[str]:
    def parts(data: DataSet) -> str:
        return ", ".join(f"{part} {n:,}" for part, n in data.sizes.parts.items() if part != "all") or ABSENT

    rows: list[Row] = [
        ("pairs", lambda data: f"{data.sizes.pairs:,}"),
        ("parts", parts),
        ("groups", lambda data: f"{data.sizes.groups:,}"),
        ("pairs without a group", lambda data: f"{data.sizes.pairs_without_group:,}"),
        ("distinct passages", lambda data: f"{data.passages.distinct.count:,}"),
        ("distinct critiques", lambda data: f"{data.critiques.distinct.count:,}"),
    ]
    return ["## Pairs", table(data_sets, rows)]


def _text_rows(label: str, of: Callable[[DataSet], Texts]) -> list[Row]:
    return [
        (f"{label}, words", lambda data: five_numbers(of(data).words)),
        (f"{label}, tokens", lambda data: five_numbers(of(data).tokens)),
        (f"{label} cut at {CONTEXT} tokens", lambda data: percent(of(data).cut_at_512)),
        (f"{label} without a word", lambda data: percent(of(data).empty)),
    ]


def _lengths(report: Report) -> list[str]:
    rows = _text_rows("passages", lambda data: data.passages) + _text_rows("critiques", lambda data: data.critiques)
    return [
        "## Lengths",
        "Median (quartiles), mean, longest, over the pairs. Words stand between white space; tokens are those of "
        f"`{report.options.tokenizer}`, its special ones included.",
        table(report.data_sets, rows),
        "![Histograms of the lengths](lengths.png)",
        "The longest 1 % lie beyond the plots.",
    ]


def _sentiment(report: Report) -> list[str]:
    rows: list[Row] = [
        ("positive", lambda data: percent(data.sentiment.positive)),
        ("negative", lambda data: percent(data.sentiment.negative)),
        ("within 0.05 of zero", lambda data: percent(data.sentiment.near_zero)),
        ("mean words, positive", lambda data: mean(data.sentiment.positive_words)),
        ("mean words, negative", lambda data: mean(data.sentiment.negative_words)),
        ("words, positive", lambda data: five_numbers(data.sentiment.positive_words)),
        ("words, negative", lambda data: five_numbers(data.sentiment.negative_words)),
    ]
    by = report.sentiment_scorer
    return [
        "## Sentiment of the critiques",
        f"By **{escape(by.name)}**: {escape(by.note)}. On the same sample of critiques every time, "
        f"{report.options.sample:,} at most.",
        table(report.data_sets, rows),
        "![Lengths by sentiment](sentiment.png)",
    ]


def _toxicity(report: Report) -> list[str]:
    by, threshold = report.toxicity_scorer, report.options.threshold
    measures = list(dict.fromkeys(name for data in report.data_sets for name in data.toxicity))
    head = ["## Toxicity of the negative critiques"]
    if by.score is None:
        return [*head, f"Not measured: {escape(by.note)}."]
    rows: list[Row] = []
    for name in measures:
        rows.append((f"{name} above {threshold:g}", lambda data, name=name: _above(data, name, half=False)))  # type: ignore[misc]
        rows.append((f"{name} above {HALF:g}", lambda data, name=name: _above(data, name, half=True)))  # type: ignore[misc]
    warning = (
        f"**Its scale is not detoxify's**: the {threshold:g} here does not mean what 0.01 means in the paper's "
        "Table 1, and the shares must not be compared with it."
    )
    return [
        *head,
        f"By **{escape(by.name)}**: {escape(by.note)}.",
        *([] if by.scale_of_detoxify else [warning]),
        table(report.data_sets, rows) if rows else "No critique is negative.",
    ]


def _above(data: DataSet, name: str, half: bool) -> str:
    found = data.toxicity.get(name)
    if found is None:
        return ABSENT
    return percent(found.above_half if half else found.above_threshold)


def _vocabulary_rows(label: str, of: Callable[[DataSet], Texts]) -> list[Row]:
    return [
        (f"{label}: running words", lambda data: f"{of(data).running_words:,}"),
        (f"{label}: different words", lambda data: f"{of(data).vocabulary:,}"),
        (f"{label}: seen once", lambda data: bare_percent(of(data).words_seen_once)),
        (
            f"{label}: covered by the {COMMON_WORDS:,} commonest",
            lambda data: bare_percent(of(data).covered_by_1000_commonest_words),
        ),
    ]


def _words(data_sets: Sequence[DataSet]) -> list[str]:
    rows: list[Row] = [
        ("pairs that repeat another", lambda data: percent(data.duplicates.repeated_pairs)),
        ("critiques seen before", lambda data: percent(data.duplicates.critiques_seen_before)),
        ("critiques of several passages", lambda data: percent(data.duplicates.critiques_of_several_passages)),
    ]
    if any(data.overlap for data in data_sets):
        rows += [
            ("validation passages in train", lambda data: percent(data.overlap.passage) if data.overlap else ABSENT),
            ("validation critiques in train", lambda data: percent(data.overlap.critique) if data.overlap else ABSENT),
            ("validation groups in train", lambda data: percent(data.overlap.group) if data.overlap else ABSENT),
        ]
    vocabulary = _vocabulary_rows("passages", lambda data: data.passages)
    vocabulary += _vocabulary_rows("critiques", lambda data: data.critiques)
    return [
        "## Vocabulary",
        "Each distinct text counts once; letter case makes no difference.",
        table(data_sets, vocabulary),
        "## Duplicates",
        "Letter case and white space make no difference.",
        table(data_sets, rows),
    ]


def _frequent(data_sets: Sequence[DataSet]) -> list[str]:
    def entry(data: DataSet, place: int) -> str:
        if place >= len(data.frequent_critiques):
            return ABSENT
        text, count = data.frequent_critiques[place]
        return f"{count:,} × {escape(textwrap.shorten(text, SHOWN_CHARACTERS, placeholder=' ...') or text[:80])}"

    most = max(len(data.frequent_critiques) for data in data_sets)
    rows: list[Row] = [(str(place + 1), lambda data, place=place: entry(data, place)) for place in range(most)]  # type: ignore[misc]
    return ["## Most frequent critiques", table(data_sets, rows) if rows else "No critique occurs twice."]


def _leakage(data_sets: Sequence[DataSet]) -> list[str]:
    def rate(choose: Callable[[Leakage], Rate], scale: float, unit: str) -> Callable[[DataSet], str]:
        def cell(data: DataSet) -> str:
            if data.leakage is None:
                return ABSENT
            found = choose(data.leakage)
            low, high = (scale * value for value in found.interval)
            decimals = 1 if unit else 3
            value, chance = scale * found.value, scale * found.chance
            bounds = f"[{low:.{decimals}f}, {high:.{decimals}f}]"
            return f"{value:.{decimals}f}{unit} {bounds}, chance {chance:.{decimals}f}{unit}"

        return cell

    rows: list[Row] = [
        ("pairs (of)", lambda data: f"{data.leakage.n:,} ({data.leakage.part})" if data.leakage else ABSENT),
        ("groups", lambda data: f"{data.leakage.groups:,}" if data.leakage else ABSENT),
        ("mean rivals", lambda data: f"{data.leakage.mean_rivals:.1f}" if data.leakage else ABSENT),
        ("top 1", rate(lambda found: found.top1, 100, " %")),
        ("top 5", rate(lambda found: found.top5, 100, " %")),
        ("mean reciprocal rank", rate(lambda found: found.mean_reciprocal_rank, 1, "")),
    ]
    return [
        "## Leakage: the right critique by word overlap alone",
        "Each passage looks for its critique by TF-IDF cosine, without any model. Names and quotations that a passage "
        "and its critique share give the critique away; a model trained on such pairs need not understand them. "
        "Critiques of the same passage or group are no rivals; equally similar ones share the rank. Intervals: "
        "bootstrap over groups. The more rivals, the harder: compare columns only where their numbers are alike.",
        table(data_sets, rows),
    ]


def _origin(report: Report) -> list[str]:
    sources = "\n".join(
        f"- {escape(data.name)}: `{data.source}`, digest of the pairs `{data.sizes.digest}`"
        for data in report.data_sets
    )
    made = ", ".join(f"{name} {number}" for name, number in report.versions.items())
    return ["## How this was made", sources, f"Versions: {made}.", "All figures: [report.json](report.json)."]
