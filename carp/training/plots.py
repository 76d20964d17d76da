"""The paper's Figure 3: loss and accuracy over the steps of a run."""

from __future__ import annotations

from pathlib import Path

from carp.files import written_file
from carp.training.metrics import read_metrics


def plot_curves(metrics: Path, target: Path) -> None:
    """Draw training and validation loss and accuracy.

    Args:
        metrics: a ``metrics.jsonl``.
        target: PNG file to write.
    """
    from matplotlib.figure import Figure

    records = read_metrics(metrics)
    steps = [r for r in records if "loss" in r]
    validations = [r for r in records if "validation_loss" in r]
    figure = Figure(figsize=(10, 4), layout="constrained")
    loss, accuracy = figure.subplots(1, 2)
    for axis, name in ((loss, "loss"), (accuracy, "accuracy")):
        axis.plot([r["step"] for r in steps], [r[name] for r in steps], alpha=0.5, label="training batch")
        axis.set(xlabel="step", ylabel=name)
        axis.grid(alpha=0.3)
    at = [r["step"] for r in validations]
    loss.plot(at, [r["validation_loss"] for r in validations], marker="o", label="validation")
    for key, label in (
        ("validation_critique_top1", "validation, critique of a passage"),
        ("validation_passage_top1", "validation, passage of a critique"),
        ("validation_critique_top5", "the same, among the first 5"),
    ):
        accuracy.plot(at, [r[key] for r in validations], marker="o", label=label)
    accuracy.set_ylim(bottom=0)
    loss.legend()
    accuracy.legend(fontsize="small")
    with written_file(target) as draft:
        figure.savefig(draft, dpi=150, format="png")
