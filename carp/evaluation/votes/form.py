"""A form to collect votes with (CARP, sections 4.2 and 4.3)."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from carp.errors import InputError
from carp.evaluation.votes.stories import read_study
from carp.files import written_file
from carp.reviews import REVIEWS
from carp.scoring.stories import Story

QUESTION = "Which of these fit the story? Please choose at least two."
COLUMNS = ("participant", "page", "story_id", "story", "question", "position", "review", "vote")


@dataclass(frozen=True)
class Form:
    """What a form holds."""

    participants: int
    per_participant: int  # stories, beside the checks
    stories: int
    checks: int
    ballots: tuple[int, int]  # on a story: fewest, most


def write_form(
    stories: str,
    output: str | Path,
    participants: int = 200,
    per_participant: int = 3,
    reviews: Sequence[str] = REVIEWS,
    seed: int = 0,
) -> Form:
    """Write an empty form: one row per participant, story and review, to be marked in the column ``vote``.

    Every participant gets a page for each of ``per_participant`` stories and for each attention check, in random
    order, and on every page the reviews in another random order. The stories' readers differ by one at most.

    Args:
        stories: see :func:`~carp.evaluation.votes.stories.read_study`.
        output: the CSV file; must not exist.
        participants: how many; the paper has 200.
        per_participant: stories for each; the paper has 3.
        reviews: to choose from.
        seed: the same seed gives the same form.

    Raises:
        InputError: names the file or option and the mend.
    """
    target = Path(output)
    if target.exists() or target.is_symlink():
        raise InputError(f"--out {output}: exists already, and may hold votes; name a new file")
    if not target.absolute().parent.is_dir():
        raise InputError(f"--out {output}: there is no folder {target.absolute().parent}")
    study = read_study(stories, reviews)
    _check_numbers(participants, per_participant, len(study.studied), seed)
    if not study.checks:
        hint = "give one story an 'attention' with a review that fits it"
        raise InputError(f"{stories}: no attention check, and the bundled one needs other reviews; {hint}")
    random = np.random.default_rng(seed)
    assigned = assign(len(study.studied), participants, per_participant, random)
    checks = [check.story for check in study.checks]
    with written_file(target) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for number, chosen in enumerate(assigned, start=1):
            pages = [study.studied[index] for index in chosen] + checks
            name = f"p{number:0{len(str(participants))}d}"
            writer.writerows([name, *row] for row in _pages(pages, reviews, random))
    counts = np.bincount(assigned.ravel(), minlength=len(study.studied))
    return Form(participants, per_participant, len(counts), len(checks), (int(counts.min()), int(counts.max())))


def _check_numbers(participants: int, per_participant: int, stories: int, seed: int) -> None:
    if not 1 <= per_participant <= stories:
        raise InputError(f"--per-participant {per_participant}: give 1 to {stories}, the number of stories")
    if participants < 1 or participants * per_participant < stories:
        least = -(-stories // per_participant)
        raise InputError(f"--participants {participants}: give at least {least}, or some story has no reader")
    if seed < 0:
        raise InputError(f"--seed {seed}: give 0 or more")


def assign(stories: int, participants: int, each: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Who reads what: [participants, each] different stories, so that the stories' readers differ by one at most.

    Each participant gets the stories with the fewest readers so far, ties broken at random.
    """
    counts = np.zeros(stories, np.int64)
    found = np.empty((participants, each), np.int64)
    for row in found:
        row[:] = np.lexsort((random.random(stories), counts))[:each]
        counts[row] += 1
    return found


def _pages(stories: Sequence[Story], reviews: Sequence[str], random: np.random.Generator) -> Iterator[list[object]]:
    for page, index in enumerate(random.permutation(len(stories)), start=1):
        story = stories[index]
        for position, review in enumerate(random.permutation(len(reviews)), start=1):
            # The text once a page: nine copies of it would drown the reviews.
            shown = [story.text, QUESTION] if position == 1 else ["", ""]
            yield [page, story.story_id, *shown, position, reviews[review], ""]
