"""The stories of a study of votes, and the attention checks among them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from carp.data.records import Record, read_records
from carp.errors import InputError
from carp.scoring.stories import Story


@dataclass(frozen=True)
class Check:
    """An unambiguous story; who reads it chooses ``fits``, and none of ``contradicts``."""

    story: Story
    fits: str
    contradicts: tuple[str, ...]

    def passed(self, chosen: Collection[str]) -> bool:
        """Has somebody who chose these reviews read the story?"""
        return self.fits in chosen and not set(self.contradicts) & set(chosen)


# Nobody who has read it finds it cheery. Who ticks every box fails as well.
BUNDLED_CHECK = Check(
    Story(
        "attention-check",
        "They buried the boy on Tuesday, in the rain, next to his mother and his two sisters. His father stood at the "
        "grave until it was dark, because there was nobody left to go home to. In the night the river rose and took "
        "the house, the dog and the last photograph of them all. In the morning he walked along the bank and called "
        "each of their names, one after the other, and wept, and nobody answered. He died that winter, alone. No one "
        "came to the funeral.",
    ),
    fits="This is really depressing.",
    contradicts=("This is too cheery.",),
)


@dataclass(frozen=True)
class Stories:
    """The stories of a study, those that check attention, and where each was read."""

    studied: tuple[Story, ...]
    checks: tuple[Check, ...]
    places: Mapping[str, str]  # story_id -> file and row


def read_study(path: str, reviews: Sequence[str]) -> Stories:
    """Read the stories of a study.

    Args:
        path: JSON Lines with ``story_id`` and ``story``. A story with ``"attention": {"fits": review, "contradicts":
            [reviews]}`` is no part of the study, but checks attention. Where there is none, the bundled check serves,
            if its reviews are among those of the study.
        reviews: of the study.

    Raises:
        InputError: names the file, the row and the mend.
    """
    _check_reviews(reviews)
    studied, checks = [], []
    places: dict[str, str] = {}
    texts: dict[str, str] = {}
    for place, record in read_records(path):
        story = Story(cell(record, "story_id", place), cell(record, "story", place))
        if story.story_id in places:
            raise InputError(f"{place}: the id {story.story_id!r} is also that of {places[story.story_id]}; change one")
        if story.text in texts:
            raise InputError(f"{place}: the same text as {texts[story.text]}; remove one")
        places[story.story_id] = texts[story.text] = place
        if record.get("attention") in (None, ""):
            studied.append(story)
        else:
            checks.append(_check(story, record["attention"], reviews, place))
    if not studied:
        raise InputError(f"{path}: holds no stories to judge; give it one")
    return Stories(tuple(studied), tuple(checks) or _bundled(reviews, places), places)


def _check_reviews(reviews: Sequence[str]) -> None:
    if len(reviews) < 2:
        raise InputError("--reviews: people need something to choose from; give at least two")
    if twice := [review for place, review in enumerate(reviews) if review in reviews[:place]]:
        raise InputError(f"--reviews: {twice[0]!r} comes twice; leave one out")


def _bundled(reviews: Sequence[str], taken: Collection[str]) -> tuple[Check, ...]:
    check = BUNDLED_CHECK
    fits_in = {check.fits, *check.contradicts} <= set(reviews) and check.story.story_id not in taken
    return (check,) if fits_in else ()


def _check(story: Story, value: object, reviews: Sequence[str], place: str) -> Check:
    known = value if isinstance(value, dict) else {}
    fits, contradicts = known.get("fits"), known.get("contradicts", [])
    if not isinstance(fits, str) or not isinstance(contradicts, list):
        raise InputError(f'{place}: write \'attention\' as {{"fits": a review, "contradicts": [reviews]}}')
    for review in (fits, *contradicts):
        if review not in reviews:
            raise InputError(f"{place}: 'attention' names no review of the study: {review!r}{nearest(review, reviews)}")
    return Check(story, fits, tuple(contradicts))


def cell(record: Record, column: str, place: str) -> str:
    """The text in a column, without white space around it; whole numbers serve as ids.

    Raises:
        InputError: if there is no such column, or nothing in it.
    """
    if column not in record:
        columns = ", ".join(map(str, record)) or "none"
        raise InputError(f"{place}: no column {column!r} (columns: {columns}); add it or rename one")
    value = record[column]
    if not isinstance(value, (str, int)) or not str(value).strip():
        raise InputError(f"{place}: nothing to read in {column!r}; fill it in or remove the row")
    return str(value).strip().encode("utf-8", "replace").decode("utf-8")


def nearest(text: object, known: Collection[str]) -> str:
    """`` (nearest: '...')``, or nothing where nothing is near."""
    found = get_close_matches(str(text), known, n=1)
    return f" (nearest: {found[0]!r})" if found else ""
