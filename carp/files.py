"""Outputs that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_folder(target: Path) -> Iterator[Path]:
    """A hidden folder beside ``target`` that is renamed to it when the block ends without an error."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield draft
        if not target.exists():  # another process may have written the same meanwhile
            os.replace(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def written_file(target: Path) -> Iterator[Path]:
    """A hidden file beside ``target`` that is renamed to it when the block ends without an error."""
    draft = target.with_name(f".{target.name}.draft")
    try:
        yield draft
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
