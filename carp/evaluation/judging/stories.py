"""The stories that a judge rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from carp.data.records import Record, read_records
from carp.errors import InputError
from carp.evaluation.judging.scales import Rubric, Scale


@dataclass(frozen=True)
class RatedStory:
    """A story: what it is called, the texts that queries show, and the group that it belongs to."""

    story_id: str
    texts: dict[str, str]
    group: str | None


def read_rated_stories(source: str | Path, rubric: Rubric, scales: Sequence[Scale]) -> list[RatedStory]:
    """Read stories with all texts that the scales' queries show.

    Args:
        source: records with ``story_id``, ``story``, optionally ``group``, and what the scales need, e.g. ``prompt``.
        rubric: the words around the scales' questions.
        scales: those that are asked about.

    Raises:
        InputError: names the file, the row, the field and the mend.
    """
    needed = {field: scale.name for scale in scales for field in rubric.needs(scale)}
    stories: list[RatedStory] = []
    rows: dict[str, str] = {}
    for place, record in read_records(source):
        story = _story(place, record, needed)
        if story.story_id in rows:
            raise InputError(f"{place}: story_id {story.story_id!r} is taken by {rows[story.story_id]}; rename one")
        if stories and (story.group is None) != (stories[0].group is None):
            raise InputError(
                f"{place}: some stories have a 'group' and some have none; give every one a group, or none"
            )
        rows[story.story_id] = place
        stories.append(story)
    if not stories:
        raise InputError(f"{source}: holds no records; give it a story")
    return stories


def _story(place: str, record: Record, needed: dict[str, str]) -> RatedStory:
    name = record.get("story_id")
    if not isinstance(name, (str, int)) or isinstance(name, bool) or not str(name).strip():
        raise InputError(f"{place}: has no 'story_id'; give every story one of its own")
    for field, scale in needed.items():
        if not isinstance(record.get(field), str) or not record[field].strip():
            mend = "" if field == "story" else f", or leave the scale {scale} out (--attributes)"
            raise InputError(f"{place}: has no text in {field!r}; write it there{mend}")
    group = record.get("group")
    if group is not None and not isinstance(group, (str, int)):
        raise InputError(f"{place}: 'group' is {group!r}; write a name, e.g. human or model")
    texts = {field: record[field] for field in needed}
    return RatedStory(str(name), texts, None if group in (None, "") else str(group))
