"""Ends of a run before its last step: Ctrl-C and SIGTERM, with a checkpoint; a loss that is no number."""

from __future__ import annotations

import signal
import sys
import time
from types import FrameType, TracebackType

import torch
from accelerate import Accelerator

from carp.config import TrainingConfig
from carp.distributed import gather_rows
from carp.errors import CarpError
from carp.training.checkpoints import Checkpoints

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SAME_EVENT = 3.0  # seconds: Ctrl-C reaches a worker from the terminal, then once more from its launcher


class Interruption:
    """While entered, notes signals instead of dying of them; a second one ends the process at once."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self._received = 0
        self._since = 0.0
        self._signal = 0

    def __enter__(self) -> Interruption:
        self._previous = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._received:
            if time.monotonic() - self._since < SAME_EVENT:
                return
            signal.signal(number, self._previous[signal.Signals(number)])
            signal.raise_signal(number)
        self._received, self._since = number, time.monotonic()
        if self._accelerator.is_main_process:
            print(
                "\nstopping after this step, with a checkpoint (once more: at once, without)",
                file=sys.stderr,
                flush=True,
            )

    def agreed(self) -> bool:
        """Whether any process received a signal; every process gets the same answer."""
        flags = gather_rows(torch.tensor([self._received]))
        self._signal = int(flags.max())
        return self._signal > 0

    def error(self, config: TrainingConfig, step: int) -> CarpError:
        """What ends the run: says how to continue, and carries the shell's exit code for the signal."""
        error = CarpError(
            f"interrupted after step {step} of {config.train.steps}; the checkpoint is written: continue with the "
            f"same command and --resume"
        )
        error.exit_code = 128 + self._signal
        return error


def stopped(checkpoints: Checkpoints, step: int, reason: str) -> CarpError:
    """The error of a run that cannot go on: what happened at a step (from 0), and what is kept."""
    latest = checkpoints.latest()
    kept = f"the last good checkpoint is {latest}" if latest else "no checkpoint was written yet"
    return CarpError(f"stopped at step {step + 1}: {reason}; {kept}; try a lower train.lr or train.precision=no")
