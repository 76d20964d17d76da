"""The word lists and remarks of ``lists.yaml``."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

import yaml

Part: TypeAlias = Literal["train", "probe"]


@lru_cache(maxsize=1)
def _everything() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((files(__package__) / "lists.yaml").read_text(encoding="utf-8"))
    return found


def phrases(name: str, part: Part) -> list[str]:
    """The phrases of a list that may be used for training, or those that are kept for probing."""
    found: list[str] = _everything()[name][part]
    return found


def remarks(kind: str, part: Part) -> list[str]:
    """What fits a passage with this kind of damage; nothing to train on for a kind that is kept for probing."""
    found: list[str] = _everything()["remarks"][kind].get(part, [])
    return found


def intensifiers() -> list[str]:
    found: list[str] = _everything()["intensifiers"]
    return found


@lru_cache(maxsize=2)
def words(name: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(_everything()[name].split())


@lru_cache(maxsize=2)
def table(name: str) -> list[tuple[str, ...]]:
    """The rows of a list of rows."""
    return [tuple(line.split()) for line in _everything()[name].strip().splitlines()]
