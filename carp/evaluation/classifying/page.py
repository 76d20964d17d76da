"""The page on classifiers against labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from carp.data.report.markdown import escape
from carp.evaluation.classifying.baselines import FOLDS, RATIO
from carp.evaluation.classifying.definitions import Classifier
from carp.evaluation.classifying.measuring import WORDS, Measured
from carp.evaluation.origins import origin_section
from carp.evaluation.ratings.formats import ABSENT, Cell, Table, markdown, with_interval
from carp.evaluation.resampling import Estimate, beats

NOTES = f"""\
- The area under the ROC curve (AUC) is the chance that a text with the label scores higher than one without it: 0.5 is
  chance, below 0.5 the order is the wrong way round. 95 % intervals: bootstrap over groups, percentiles.
- "{WORDS}" is the baseline that reads nothing: more words or fewer, whichever tells the label apart better here.
- "probe" has seen labels: a logistic regression on the model's embeddings, {FOLDS} parts at most, each scored by one
  that learnt from the others; no group is divided, and only texts of one part are compared. It says how much of the
  label the embeddings hold; the classifiers have seen no label.
- \\* : the interval of the difference from "{WORDS}", on the same texts and resamples, lies above 0. Nothing is
  corrected for the number of cells: of forty that mean nothing, one will have a mark.
- The scores order texts. They are no probabilities, and no threshold follows from them."""


def title(found: Measured, models: int) -> str:
    """What a column is called: the score, and the model where there are several."""
    return f"{found.signal} ({found.model})" if found.model and models > 1 else found.signal


def page(
    measured: Sequence[Measured], classifiers: Sequence[Classifier], made: Mapping[str, Any], groups: int, texts: int
) -> str:
    """The page; ``made`` says how it was made."""
    models = len(made["models"])
    sections = [
        "# Zero-shot classifiers against labels",
        f"{texts:,} texts in {groups:,} groups of `{made['labels']['path']}`.",
        "## All texts",
        _matrix(measured, models, lambda found: found.auc, marks=True),
        "![AUC with intervals](auc.png)",
        "## Texts of one length",
        f"Only texts whose numbers of words differ by a factor of {RATIO:g} at most are compared: what is left when "
        "length can say next to nothing.",
        _matrix(measured, models, lambda found: found.same_length, marks=False),
        NOTES,
        *_undefined(measured, models),
        "## Classifiers",
        "\n".join(_definition(classifier) for classifier in classifiers),
        *origin_section(made, {"labels": made["labels"]}, made["models"], ("measures.json", "measures.csv")),
    ]
    return "\n\n".join(section.rstrip("\n") for section in sections) + "\n"


def _matrix(measured: Sequence[Measured], models: int, choose: Callable[[Measured], Estimate], marks: bool) -> str:
    columns = list(dict.fromkeys(title(found, models) for found in measured))
    rows = []
    for label in dict.fromkeys(found.label for found in measured):
        of_label = {title(found, models): found for found in measured if found.label == label}
        words = of_label[WORDS]
        cells = [label, f"{words.positives:,} / {words.negatives:,}", f"{words.groups:,}"]
        cells += [_cell(of_label[name], choose, marks) if name in of_label else ABSENT for name in columns]
        rows.append([Cell(cell) for cell in cells])
    return markdown(Table("auc", "", ["label", "with / without", "groups", *columns], rows))


def _cell(found: Measured, choose: Callable[[Measured], Estimate], marks: bool) -> str:
    estimate = choose(found)
    return with_interval(estimate.value, estimate.interval) + (r" \*" if marks and beats(found.above_words) else "")


def _undefined(measured: Sequence[Measured], models: int) -> list[str]:
    lines = [
        f"- {escape(found.label)}, {escape(title(found, models))}: {estimate.undefined}"
        for found in measured
        for estimate in dict.fromkeys((found.auc, found.same_length))
        if estimate.undefined
    ]
    return ["Not defined:\n\n" + "\n".join(dict.fromkeys(lines))] if lines else []


def _definition(classifier: Classifier) -> str:
    source = f" ({escape(classifier.source)})" if classifier.source else ""
    classes = "\n".join(
        f"  - {escape(name)}: {'; '.join(map(escape, critiques))}" for name, critiques in classifier.classes.items()
    )
    return f"- **{escape(classifier.name)}**{source}\n{classes}"
