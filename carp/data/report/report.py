"""``carp report``: the quality of a data set, or of two side by side (the paper, section 2.3)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from carp.constants import MINILM
from carp.data.report import figures, sentiment, toxicity
from carp.data.report.collecting import Collected, collect
from carp.data.report.leakage import Leakage, leakage, tfidf_vectorizer
from carp.data.report.plots import plot_lengths, plot_sentiment
from carp.data.report.sources import check_source, source_names
from carp.errors import InputError
from carp.files import written_folder
from carp.model.encoders import load_tokenizer, quiet_transformers
from carp.versions import versions

LIBRARIES = ("scikit-learn", "vaderSentiment", "alt-profanity-check")


@dataclass(frozen=True)
class Options:
    """How a report is made.

    Raises:
        InputError: names the option that is out of range.
    """

    tokenizer: str = MINILM  # counts the tokens
    sample: int = 20_000  # critiques for sentiment and toxicity
    leakage_pairs: int = 1000
    threshold: float = 0.01  # of toxicity and insult; the paper, Table 1
    sentiment_model: str = ""  # a folder, a Hub id, vader; or the best there is
    toxicity_model: str = ""  # a folder, a Hub id, alt-profanity-check, none; or the best there is

    def __post_init__(self) -> None:
        if self.sample < 1:
            raise InputError(f"--sample {self.sample}: give at least 1 critique")
        if self.leakage_pairs < 2:
            raise InputError(f"--leakage-pairs {self.leakage_pairs}: give at least 2 pairs")
        if not 0 <= self.threshold < 1:
            raise InputError(f"--threshold {self.threshold}: give a number from 0 to below 1")


@dataclass(frozen=True)
class DataSet:
    """The figures of one data set."""

    name: str
    source: str
    sizes: figures.Sizes
    passages: figures.Texts
    critiques: figures.Texts
    duplicates: figures.Duplicates
    overlap: figures.Overlap | None
    frequent_critiques: list[tuple[str, int]]
    sentiment: sentiment.Sentiment
    toxicity: dict[str, toxicity.Measure]
    leakage: Leakage | None


@dataclass(frozen=True)
class Report:
    """One data set, or two, and how their figures were made."""

    data_sets: list[DataSet]
    options: Options
    sentiment_scorer: sentiment.SentimentScorer
    toxicity_scorer: toxicity.ToxicityScorer
    versions: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Everything, in plain types; the same data and versions give the same."""
        words, offence = self.sentiment_scorer, self.toxicity_scorer
        return {
            "data_sets": [asdict(data) for data in self.data_sets],
            "options": asdict(self.options),
            "sentiment_by": {"name": words.name, "note": words.note},
            "toxicity_by": {
                "name": offence.name,
                "note": offence.note,
                "scale_of_detoxify": offence.scale_of_detoxify,
            },
            "versions": self.versions,
        }


def write_report(
    source: str | Path,
    output: str | Path,
    compare: str | Path | None = None,
    options: Options = Options(),
    progress: bool = False,
) -> Report:
    """Write ``README.md``, ``report.json``, ``lengths.png`` and ``sentiment.png`` into a new folder.

    Args:
        source: what :func:`carp.data.pairs.read_pairs` reads, or a folder with ``train/*.parquet`` and
            ``validation/*.parquet``.
        output: the folder; must not exist.
        compare: another data set, shown beside the first.
        options: how the report is made.
        progress: show bars on stderr.

    Raises:
        InputError: names the file, the row, the field and the mend; nothing is written then.
    """
    from carp.data.report.page import page

    target = Path(output)
    if target.exists() or target.is_symlink():
        raise InputError(f"--out {output}: exists already; name a new folder")
    sources = [str(s) for s in (source, compare) if s is not None]
    collected, report = _analyse(sources, options, progress)
    names = [data.name for data in report.data_sets]
    with written_folder(target) as draft:
        plot_lengths(names, collected, draft / "lengths.png")
        plot_sentiment(names, [data.sentiment for data in report.data_sets], draft / "sentiment.png")
        text = json.dumps(_rounded(report.to_json()), indent=2, ensure_ascii=False, allow_nan=False)
        (draft / "report.json").write_text(text + "\n", encoding="utf-8")
        (draft / "README.md").write_text(page(report), encoding="utf-8")
    return report


def _analyse(sources: list[str], options: Options, progress: bool) -> tuple[list[Collected], Report]:
    for source in sources:
        check_source(source)
    tfidf_vectorizer()  # what is missing is said before a million pairs are read
    with quiet_transformers():
        tokenizer = load_tokenizer(options.tokenizer)
    words, offence = sentiment.find_scorer(options.sentiment_model), toxicity.find_scorer(options.toxicity_model)
    collected, data_sets = [], []
    for name, source in zip(source_names(sources), sources, strict=True):
        found = collect(source, tokenizer, options.sample, options.leakage_pairs, progress)
        collected.append(found)
        data_sets.append(_data_set(name, source, found, words, offence, options.threshold, progress))
    return collected, Report(data_sets, options, words, offence, _versions())


def _data_set(
    name: str,
    source: str,
    found: Collected,
    words: sentiment.SentimentScorer,
    offence: toxicity.ToxicityScorer,
    threshold: float,
    progress: bool,
) -> DataSet:
    feelings, negatives = sentiment.measure(words, [pair.critique for pair in found.sample.pairs()], progress)
    return DataSet(
        name=name,
        source=source,
        sizes=figures.sizes(found),
        passages=figures.texts(found.passages),
        critiques=figures.texts(found.critiques),
        duplicates=figures.duplicates(found),
        overlap=figures.overlap(found),
        frequent_critiques=figures.frequent_critiques(found),
        sentiment=feelings,
        toxicity=toxicity.measure(offence, negatives, threshold, progress),
        leakage=leakage(*found.rivals()),
    )


def _versions() -> dict[str, str]:
    found = versions()
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, (list, tuple)) else value
