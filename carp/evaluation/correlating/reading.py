"""Ratings of stories, and the texts of these stories."""

from __future__ import annotations

from carp.data.records import Record, read_records
from carp.errors import InputError
from carp.evaluation.ratings.columns import RATER, STORY, Wanted
from carp.evaluation.ratings.table import Ratings, read_ratings
from carp.evaluation.votes.stories import cell, nearest

# The first of these that a file has names the story; of the texts, the first that does not name it.
NAMES = ("story_id", "text_id", "item_id", "id", "story")
TEXTS = ("story", "text")


def header_of(source: str) -> list[str]:
    """The columns of a file of ratings, those for story and rater among them.

    Raises:
        InputError: names the file and the mend.
    """
    header = next((list(record) for _, record in read_records(source)), [])
    for what, names in (("story", STORY), ("rater", RATER)):
        if header and not set(names) & set(header):
            raise InputError(f"{source}: no column for the {what} (columns: {', '.join(header)}); call one {names[0]}")
    return header


def read_people(source: str, scales: str = "", system: str = "") -> Ratings:
    """People's ratings; the columns for story and rater are found by their names.

    Args:
        source: CSV, JSON Lines or Parquet: one row per story and rater, one column per scale.
        scales, system: columns, as :class:`~carp.evaluation.ratings.columns.Wanted` has them.

    Raises:
        InputError: names the file, the row, the column and the mend.
    """
    header_of(source)
    return read_ratings(source, Wanted(scales=scales, system=system, group="none"))


def read_texts(path: str, ratings: Ratings) -> list[str]:
    """The text of every rated story, in the order of ``ratings.stories``; other stories are left out.

    Args:
        path: JSON Lines, CSV or Parquet. Names stand in the column ``story_id``, ``text_id``, ``item_id``, ``id`` or
            ``story``, texts in ``story`` or ``text``.
        ratings: of the stories.

    Raises:
        InputError: names the file, the row and the mend.
    """
    texts: dict[str, str] = {}
    rows: dict[tuple[str, str], str] = {}  # where a name or a text was read
    for place, record in read_records(path):
        name_column, text_column = _columns(record, place)
        name, text = cell(record, name_column, place), cell(record, text_column, place)
        for key in (("name", name), ("text", text)):
            if key in rows:
                raise InputError(f"{place}: the same {key[0]} of a story as in {rows[key]}; change or remove one")
            rows[key] = place
        texts[name] = text
    for story in ratings.stories:
        if story not in texts:
            near = nearest(story, texts)
            raise InputError(f"{path}: no story {story!r}, which {ratings.source} rates{near}; add it or mend its name")
    return [texts[story] for story in ratings.stories]


def _columns(record: Record, place: str) -> tuple[str, str]:
    name = next((column for column in NAMES if column in record), None)
    text = next((column for column in TEXTS if column in record and column != name), None)
    if name is None or text is None:
        columns = ", ".join(map(str, record)) or "none"
        raise InputError(f"{place}: no columns for a story's name and text ({columns}); call them story_id and story")
    return name, text
