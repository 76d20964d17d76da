"""What a run reports while it goes: a progress bar, ``metrics.jsonl`` and, on request, trackers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from tqdm.auto import tqdm

from carp.files import written_file


def read_metrics(path: Path) -> list[dict[str, float]]:
    """The lines of a ``metrics.jsonl``; a line that a killed run left unfinished is passed over."""
    records = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return records


class Reporter:
    """Reports the metrics of each step from the main process.

    Args:
        accelerator: of this run; its trackers are fed too.
        output: folder that holds ``metrics.jsonl``.
        steps: of the whole run.
        done: steps done already; later lines of an interrupted run are dropped.
    """

    def __init__(self, accelerator: Accelerator, output: Path, steps: int, done: int) -> None:
        self._accelerator = accelerator
        self.path = output / "metrics.jsonl"
        self._bar: Any = tqdm(
            total=steps,
            initial=done,
            unit="step",
            desc="training",
            disable=not accelerator.is_main_process,
            dynamic_ncols=True,
        )
        if accelerator.is_main_process:
            self._drop_lines_after(done)

    def _drop_lines_after(self, step: int) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        kept = [record for record in read_metrics(self.path) if record["step"] <= step] if step else []
        with written_file(self.path) as draft:
            draft.write_text("".join(json.dumps(record) + "\n" for record in kept))

    def step(self, metrics: dict[str, float]) -> None:
        """Metrics of one training step."""
        self._write(metrics)
        line = "loss {loss:.3f}, accuracy {accuracy:.3f}, temperature {temperature:.1f}, {pairs_per_second:.1f} pairs/s"
        self._bar.set_postfix_str(line.format(**metrics))
        self._bar.update()

    def validation(self, metrics: dict[str, float]) -> None:
        """Metrics of one validation."""
        self._write(metrics)
        self.say(
            "step {step}: validation loss {validation_loss:.3f}, critique top-1 {validation_critique_top1:.3f} "
            "(top-5 {validation_critique_top5:.3f}), passage top-1 {validation_passage_top1:.3f} "
            "(top-5 {validation_passage_top5:.3f})".format(**metrics)
        )

    def say(self, line: str) -> None:
        """Print a line above the progress bar."""
        if self._accelerator.is_main_process:
            tqdm.write(line)

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()

    def _write(self, metrics: dict[str, float]) -> None:
        self._accelerator.log({k: v for k, v in metrics.items() if k != "step"}, step=int(metrics["step"]))
        if self._accelerator.is_main_process:
            with self.path.open("a") as file:
                file.write(json.dumps(metrics) + "\n")
