"""The nine reviews of the paper's study, and hand-written paraphrases of each."""

from __future__ import annotations

import json
from importlib.resources import files

# CARP, appendix B.2, letter for letter.
REVIEWS = (
    "This kind of drags on.",
    "This is a bit too short.",
    "This is too cheery.",
    "This is really depressing.",
    "This is really exciting.",
    "This is boring.",
    "This ending leaves things too open.",
    "This ending feels abrupt.",
    "Could use more visual imagery.",
)


def bundled_paraphrases() -> dict[str, list[str]]:
    """Four paraphrases of each of :data:`REVIEWS`, for ensembles without the Hub."""
    text = (files("carp") / "sample" / "paraphrases.json").read_text(encoding="utf-8")
    paraphrases: dict[str, list[str]] = json.loads(text)
    return paraphrases
