"""Votes out of a file, checked, and as arrays.

A ballot is what one participant chose of one story: one or more reviews.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carp.data.records import Record, read_records
from carp.errors import InputError
from carp.evaluation.evaluators import Floats
from carp.evaluation.votes.stories import Check, Stories, cell, nearest
from carp.scoring.stories import Story

MARKS, BLANKS = {"1", "x", "yes", "true"}, {"", "0", "no", "false", "none"}  # in a form's column ``vote``
Ballots = Mapping[tuple[str, str], set[str]]  # (participant, story_id) -> reviews


class Vote(NamedTuple):
    """Who chose which review of which story, and where that was read."""

    place: str
    story_id: str
    participant: str
    review: str


@dataclass(frozen=True)
class Attendance:
    """How many took part, and how many were left out because they failed a check or did not answer it."""

    participants: int
    checks: tuple[str, ...]  # ids of the stories that checked attention; none: nobody was checked
    failed: int
    unanswered: int


@dataclass(frozen=True)
class Votes:
    """The votes of the participants who passed the attention check."""

    stories: tuple[Story, ...]
    reviews: tuple[str, ...]
    participants: tuple[str, ...]
    choices: Floats  # [n_ballots, n_reviews], 1 where the review was chosen
    story: NDArray[np.int64]  # [n_ballots], index
    participant: NDArray[np.int64]  # [n_ballots], index
    attendance: Attendance

    def counts(self, weights: Floats | None = None) -> Floats:
        """Votes per story and review.

        Args:
            weights: [n, n_ballots], how often each ballot counts; by default once.

        Returns:
            [n, n_stories, n_reviews], or [n_stories, n_reviews] without weights.
        """
        if weights is None:
            return self.counts(np.ones((1, len(self.story))))[0]
        found = np.empty((len(weights), len(self.stories), len(self.reviews)))
        for index in range(len(self.stories)):
            rows = self.story == index
            found[:, index] = weights[:, rows] @ self.choices[rows]
        return found


def read_votes(path: str, stories: Stories, reviews: Sequence[str]) -> Votes:
    """Read votes, leave out who failed the attention check.

    Args:
        path: CSV (or JSON Lines, Parquet) with ``story_id``, ``participant`` and ``review``, one row per vote; or a
            filled form of ``carp votes new``, whose column ``vote`` marks the rows that are votes.
        stories: of the study; each needs a vote.
        reviews: that could be chosen.

    Raises:
        InputError: names the file, the row and the mend.
    """
    ballots = _ballots(path, stories, reviews)
    passed, attendance = _sift(ballots, stories.checks)
    if not passed:
        raise InputError(f"{path}: all {attendance.participants} participants failed the attention check; ask others")
    index = {story.story_id: i for i, story in enumerate(stories.studied)}
    # In one order, whatever that of the rows: the same votes give the same intervals.
    cast = sorted((index[s], p) for p, s in ballots if p in passed and s in index)
    for missing in sorted(set(range(len(index))) - {story for story, _ in cast}):
        story_id = stories.studied[missing].story_id
        cause = " of participants who passed the attention check" if any(s == story_id for _, s in ballots) else ""
        place = stories.places[story_id]
        raise InputError(f"{place}: story {story_id!r} has no votes{cause} in {path}; collect some or remove the story")
    participants = sorted({p for _, p in cast})
    number = {p: i for i, p in enumerate(participants)}
    chosen = (ballots[p, stories.studied[s].story_id] for s, p in cast)
    return Votes(
        stories.studied,
        tuple(reviews),
        tuple(participants),
        np.array([[review in ballot for review in reviews] for ballot in chosen], np.float64),
        np.array([s for s, _ in cast]),
        np.array([number[p] for _, p in cast]),
        attendance,
    )


def _ballots(path: str, stories: Stories, reviews: Sequence[str]) -> Ballots:
    known = {story.story_id for story in stories.studied} | {check.story.story_id for check in stories.checks}
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    places: dict[Vote, str] = {}
    for vote in _read(path):
        if vote.story_id not in known:
            near = nearest(vote.story_id, known)
            raise InputError(
                f"{vote.place}: no story {vote.story_id!r} in the study{near}; correct it or add the story"
            )
        if vote.review not in reviews:
            near = nearest(vote.review, reviews)
            raise InputError(
                f"{vote.place}: no review {vote.review!r} in the study{near}; correct it, or name the study's --reviews"
            )
        same = vote._replace(place="")
        if same in places:
            who = f"{vote.participant!r} voted for {vote.review!r} of story {vote.story_id!r}"
            raise InputError(f"{vote.place}: {who} before, in {places[same]}; remove one")
        places[same] = vote.place
        found[vote.participant, vote.story_id].add(vote.review)
    if not found:
        raise InputError(f"{path}: holds no votes; write one row per vote, or mark some in the column 'vote'")
    return found


def _read(path: str) -> Iterator[Vote]:
    for place, record in read_records(path):
        if _is_vote(record, place):
            cells = (cell(record, column, place) for column in ("story_id", "participant", "review"))
            yield Vote(place, *cells)


def _is_vote(record: Record, place: str) -> bool:
    mark = str(record.get("vote", "x")).strip().lower()
    if mark not in MARKS | BLANKS:
        raise InputError(f"{place}: {record['vote']!r} in 'vote' is no mark; write x, or leave it empty")
    return mark in MARKS


def _sift(ballots: Ballots, checks: Sequence[Check]) -> tuple[set[str], Attendance]:
    """Who passed every check that anybody answered."""
    participants = {participant for participant, _ in ballots}
    asked = [check for check in checks if any(story == check.story.story_id for _, story in ballots)]
    unanswered = {p for p in participants for check in asked if (p, check.story.story_id) not in ballots}
    failed = {
        p for p in participants - unanswered for check in asked if not check.passed(ballots[p, check.story.story_id])
    }
    ids = tuple(check.story.story_id for check in asked)
    return participants - unanswered - failed, Attendance(len(participants), ids, len(failed), len(unanswered))
