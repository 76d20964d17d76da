"""What a result was made with."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path


def versions() -> dict[str, str]:
    """Versions of Python, carp and the libraries that decide about numbers; the git revision if there is one."""
    names = ("carp-critic", "torch", "transformers", "accelerate", "tokenizers")
    found = {"python": platform.python_version(), **{name: version(name) for name in names}}
    if revision := _git_revision():
        found["git"] = revision
    return found


def _git_revision() -> str | None:
    root = Path(__file__).parent.parent
    if not (root / ".git").exists():
        return None
    try:
        result = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:  # no git on this machine
        return None
    return result.stdout.strip() or None
