"""A finished run's folder: its best checkpoint, a model card, the curves."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from carp.model.card import basic_card
from carp.model.carp_model import CarpModel
from carp.model.texts import TokenizedTexts
from carp.training.checkpoints import TRAINING_FILES
from carp.training.metrics import read_metrics
from carp.training.plots import plot_curves

REFERENCES = 1000  # passages that scores can be compared with


def export_run(output: Path, best: Path, state: dict[str, Any], passages: TokenizedTexts, device: torch.device) -> None:
    """Make ``output`` itself a checkpoint: that of the highest validation accuracy.

    Args:
        output: the run's folder, with ``metrics.jsonl``.
        best: the checkpoint to export.
        state: of the finished run (configuration, versions, best step).
        passages: of the validation pairs; scores can be read as percentiles among theirs.
        device: that embeds them.
    """
    plot_curves(output / "metrics.jsonl", output / "curves.png")
    draft = output / ".export"
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(best, draft, ignore=shutil.ignore_patterns(*TRAINING_FILES))
    model: Any = CarpModel.from_pretrained(best)
    model.reference = model.to(device).embed_tokenized("passage", _some(passages)).cpu()
    model.save_reference(draft)
    card = basic_card(model, _training_section(output, state))
    (draft / "README.md").write_text(card, encoding="utf-8")
    (draft / "training.yaml").write_text(yaml.safe_dump(state, sort_keys=False), encoding="utf-8")
    # config.json last: without it nobody takes the folder for a model.
    for path in sorted(draft.iterdir(), key=lambda p: p.name == "config.json"):
        target = output / path.name
        if target.is_dir():
            shutil.rmtree(target)
        os.replace(path, target)
    draft.rmdir()


def _some(texts: TokenizedTexts) -> TokenizedTexts:
    """The different ones, at most :data:`REFERENCES` of them, in their order."""
    first = np.unique(texts.fingerprints().numpy(), return_index=True)[1]
    return texts.take(torch.from_numpy(np.sort(first)[:REFERENCES]))


def _training_section(output: Path, state: dict[str, Any]) -> str:
    records = read_metrics(output / "metrics.jsonl")
    validations = [r for r in records if "validation_loss" in r]
    rows = "\n".join(
        f"| {r['step']:.0f} | {r['validation_loss']:.3f} | {r['validation_critique_top1']:.3f} "
        f"| {r['validation_critique_top5']:.3f} | {r['validation_passage_top1']:.3f} "
        f"| {r['validation_passage_top5']:.3f} |"
        for r in validations
    )
    settings, data = state["config"]["train"], state["config"]["data"]
    minutes = sum(r["seconds"] for r in records if "seconds" in r) / 60
    return f"""
## Training

{state["step"]} steps of {settings["batch_size"]} pairs on `{data["train"]}`, {state["processes"]} process(es),
{minutes:.1f} minutes of training steps. These weights are those of step {state["best_step"]}, of the highest
validation accuracy (mean of the four below). Loss and accuracy of finding the critique of a passage and the
passage of a critique among all validation pairs (pairs of the same group are no rivals):

| step | loss | critique top-1 | critique top-5 | passage top-1 | passage top-5 |
|---|---|---|---|---|---|
{rows}

![loss and accuracy over the steps](curves.png)

<details><summary>Configuration and versions</summary>

```yaml
{yaml.safe_dump({key: state[key] for key in ("config", "versions")}, sort_keys=False)}```
</details>
"""
