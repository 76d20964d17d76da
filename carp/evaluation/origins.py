"""The last section of a page: what its figures were made from, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from carp.data.report.markdown import escape


def origin_section(
    made: Mapping[str, Any],
    inputs: Mapping[str, Mapping[str, str]],
    evaluators: Mapping[str, Mapping[str, str]],
    results: Sequence[str],
    note: str = "",
) -> list[str]:
    """The section's paragraphs in Markdown.

    Args:
        made: ``options`` and ``versions``, by name.
        inputs: role of a file -> its ``path`` and ``sha256``.
        evaluators: name -> what decides about its scores, see :func:`~carp.evaluation.evaluators.origin`.
        results: the files of figures beside the page.
        note: a sentence to stand before the options.
    """
    lines = [f"- {role}: `{file['path']}`, SHA-256 `{file['sha256']}`" for role, file in inputs.items()]
    for name, origin in evaluators.items():
        lines += [f"- {escape(name)}: {what} `{value}`" for what, value in origin.items()]
    options, versions = (
        ", ".join(f"{name} {value}" for name, value in made[k].items()) for k in ("options", "versions")
    )
    return [
        "## How this was made",
        *(["\n".join(lines)] if lines else []),
        f"{note} Options: {options}.".strip(),
        f"Versions: {versions}.",
        f"All figures: {', '.join(f'[{name}]({name})' for name in results)}.",
    ]
