"""``carp classify --labels``: from a file of labels to a folder with a page, a figure and all numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from carp.errors import InputError
from carp.evaluation.classifying.baselines import check_sklearn
from carp.evaluation.classifying.classifier import classify
from carp.evaluation.classifying.definitions import Classifier, load_classifiers
from carp.evaluation.classifying.labels import Labelled, read_labels
from carp.evaluation.classifying.measuring import Measured, Scored, measure
from carp.evaluation.classifying.page import page, title
from carp.evaluation.definitions import repeated
from carp.evaluation.evaluators import origin
from carp.evaluation.panels import draw_panels
from carp.evaluation.ratings.formats import Table, comma_separated
from carp.evaluation.ratings.intervals import scipy_stats
from carp.evaluation.resampling import DEFAULT, Resampling, columns
from carp.files import written_folder
from carp.model.hub import checkpoint_folder
from carp.scoring.embeddings import embed
from carp.scoring.loading import load
from carp.versions import versions


def write_measures(
    labels: str,
    classifiers: Sequence[str],
    models: Sequence[str],
    output: str | Path,
    resampling: Resampling = DEFAULT,
    progress: bool = False,
) -> list[Measured]:
    """Write ``README.md``, ``auc.png``, ``measures.json`` and ``measures.csv`` into a new folder.

    Args:
        labels: see :func:`~carp.evaluation.classifying.labels.read_labels`.
        classifiers: names of bundled ones, or YAML files.
        models: folders or Hub ids of CARP models.
        output: the folder; must not exist.
        resampling: of groups, for the intervals.
        progress: show bars on stderr.

    Raises:
        InputError: names the file, the row, the field and the mend; nothing is written then.
    """
    target = Path(output)
    if target.exists() or target.is_symlink():
        raise InputError(f"--out {output}: exists already; name a new folder")
    if twice := repeated(models):
        raise InputError(f"--model {twice}: given twice; leave one out")
    check_sklearn()
    scipy_stats()
    loaded = load_classifiers(list(classifiers))
    labelled = read_labels(labels)
    for name in models:
        checkpoint_folder(name)  # what is missing is said before another model has worked for hours
    measured = measure(
        labelled, {name: _scored(name, labelled, loaded, progress) for name in models}, loaded, resampling
    )
    made = {
        "labels": {"path": labels, "sha256": labelled.sha256},
        "models": {name: origin(f"carp:{name}") for name in models},
        "options": asdict(resampling),
        "versions": {**versions(), **{name: version(name) for name in ("numpy", "scipy", "scikit-learn")}},
    }
    with written_folder(target) as draft:
        _write(measured, labelled, loaded, made, draft)
    return measured


def _scored(name: str, labelled: Labelled, classifiers: Sequence[Classifier], progress: bool) -> Scored:
    model = load(name)
    embedded = embed(labelled.texts, model=model, progress=progress)
    return Scored(embedded.vectors, classify(embedded, classifiers, model, progress))


def _write(
    measured: Sequence[Measured],
    labelled: Labelled,
    classifiers: Sequence[Classifier],
    made: dict[str, Any],
    folder: Path,
) -> None:
    models = len(made["models"])
    panels: dict[str, dict[str, Any]] = {}
    for found in measured:
        points = panels.setdefault(title(found, models), {})
        if found.auc.value is not None:
            points[found.label] = (found.auc.value, found.auc.interval)
    draw_panels(panels, list(labelled.labels), 0.5, "AUC, 95 % interval; blue: does not hold 0.5", folder / "auc.png")
    groups, texts = int(labelled.group.max()) + 1, len(labelled.texts)
    (folder / "README.md").write_text(page(measured, classifiers, made, groups, texts), encoding="utf-8")
    everything = {
        "made": made,
        "texts": texts,
        "groups": groups,
        "classifiers": [classifier.model_dump() for classifier in classifiers],
        "measures": [asdict(found) for found in measured],
    }
    text = json.dumps(everything, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "measures.json").write_text(text + "\n", encoding="utf-8")
    table = Table("measures", "", [], [], [_record(found) for found in measured])
    (folder / "measures.csv").write_text(comma_separated(table), encoding="utf-8")


def _record(found: Measured) -> dict[str, Any]:
    cases = {name: getattr(found, name) for name in ("label", "signal", "model", "positives", "negatives", "groups")}
    of_auc, same_length = columns("auc", found.auc), columns("same_length", found.same_length)
    return {
        **cases,
        **of_auc,
        **same_length,
        **columns("above_words", found.above_words),
        "undefined": found.auc.undefined,
    }
