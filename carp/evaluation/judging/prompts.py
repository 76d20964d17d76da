"""Queries: a rubric's words with the texts of a story in them."""

from __future__ import annotations

from collections.abc import Mapping

from carp.errors import InputError
from carp.evaluation.judging.scales import PLACEHOLDER, Rubric, Scale


def fill_query(
    rubric: Rubric, scale: Scale, texts: Mapping[str, str], *, persona: bool = False, explain: bool = False
) -> str:
    """What a judge is asked about one story on one scale (Chiang and Lee, section 3.3.2 and appendix D.2).

    Args:
        rubric: the words.
        scale: one of its scales.
        texts: the fields of the story; a placeholder within them stays as it is.
        persona: put the rubric's persona on a line before the query.
        explain: ask for an explanation after the query.

    Raises:
        InputError: if the rubric has no persona.
    """
    start = f"{checked_persona(rubric)}\n" if persona else ""
    query = PLACEHOLDER.sub(lambda found: texts[rubric.fields[found[1]]], rubric.query(scale))
    return f"{start}{query} {rubric.explain}" if explain else start + query


def checked_persona(rubric: Rubric) -> str:
    """The persona of a rubric.

    Raises:
        InputError: if it has none.
    """
    if rubric.persona is None:
        raise InputError(f"--persona: the rubric {rubric.name} has none; write 'persona' in a rubric file of your own")
    return rubric.persona
