"""A process that makes parts. Many may start, so this imports no more than they need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from carp.data.preparation.options import PreparationOptions
from carp.data.preparation.parts import write_part
from carp.data.preparation.raw import RawRecord
from carp.data.preparation.recognition import make_recognizer
from carp.data.preparation.steps import Preparer
from carp.data.preparation.token_ends import token_ends_of

_preparer: Preparer


def start(options: PreparationOptions, tokenizer: str) -> None:
    """Load what all tasks need; ``tokenizer`` is a serialized one.

    Raises:
        InputError: if the model that finds names cannot be had.
    """
    global _preparer
    recognizer = make_recognizer(options.recognizer) if options.anonymize else None
    _preparer = Preparer(options, token_ends_of(tokenizer), recognizer)


def make_part(target: Path, task: Sequence[RawRecord]) -> None:
    """Run all steps over a task's records and write what they give."""
    write_part(target, _preparer.run(task))
