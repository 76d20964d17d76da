"""Evaluators as raters: scores of stories on the scales that people rated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from carp.errors import InputError
from carp.evaluation.correlating.items import Items
from carp.evaluation.correlating.people import rated
from carp.evaluation.correlating.reading import header_of
from carp.evaluation.definitions import repeated
from carp.evaluation.evaluators import Evaluator, Floats, checked_scores, make_evaluator
from carp.evaluation.ratings.columns import MEAN, NONE, Wanted
from carp.evaluation.ratings.summaries import scores
from carp.evaluation.ratings.table import Ratings, read_ratings
from carp.evaluation.votes.stories import nearest

WORDS = "number of words"
JUDGE = "ratings:"  # an evaluator that is a file of ratings, e.g. of ``carp judge``


@dataclass(frozen=True)
class Candidate:
    """Scores that are held against people's ratings: scale -> [n_stories], NaN where there is none."""

    name: str
    values: Mapping[str, Floats]


def word_counts(texts: Sequence[str], ratings: Ratings) -> Candidate:
    """The baseline that reads nothing: the longer, the better."""
    words = np.array([len(text.split()) for text in texts], np.float64)
    return Candidate(WORDS, dict.fromkeys(scores(ratings), words))


def make_candidates(
    specs: Sequence[str], ratings: Ratings, texts: Sequence[str], what: Items | Sequence[str], paraphrases: str = ""
) -> Callable[[bool], Iterator[Candidate]]:
    """What evaluators give, as a function that lets them work; what is missing is said before.

    Args:
        specs: words of :func:`~carp.evaluation.evaluators.make_evaluator`, or ``ratings:FILE``.
        ratings: people's.
        texts: of the rated stories.
        what: reviews of each item, which give one candidate per evaluator, or reviews, which give one each.
        paraphrases: see :func:`~carp.evaluation.evaluators.make_evaluator`.

    Returns:
        A function of ``progress``: show bars on stderr.

    Raises:
        InputError: names the evaluator, or the file and the row, and the mend.
    """
    if isinstance(what, Items):
        _check_items(what, ratings)
    elif twice := repeated(what):
        raise InputError(f"--reviews: {twice!r} comes twice; leave one out")
    ids = dict(zip(texts, ratings.stories, strict=True))
    made = [
        _judge(spec, ratings) if spec.startswith(JUDGE) else make_evaluator(spec, ids, paraphrases) for spec in specs
    ]

    def work(progress: bool) -> Iterator[Candidate]:
        for one in made:
            if isinstance(one, Candidate):
                yield one
            elif isinstance(what, Items):
                yield _of_items(one, ratings, texts, what, progress)
            else:
                yield from _of_reviews(one, ratings, texts, what, progress)

    return work


def _of_items(evaluator: Evaluator, ratings: Ratings, texts: Sequence[str], items: Items, progress: bool) -> Candidate:
    by_item = items.scores(checked_scores(evaluator, texts, items.reviews, progress), items.reviews)
    overall = np.mean(list(by_item.values()), axis=0)
    return Candidate(evaluator.name, {ratings.overall_name: overall, **by_item})


def _of_reviews(
    evaluator: Evaluator, ratings: Ratings, texts: Sequence[str], reviews: Sequence[str], progress: bool
) -> Iterator[Candidate]:
    found = checked_scores(evaluator, texts, reviews, progress)
    for review, column in zip(reviews, found.T, strict=True):
        yield Candidate(f"{evaluator.name}, {review}", dict.fromkeys(scores(ratings), column))


def _check_items(items: Items, ratings: Ratings) -> None:
    for item in items.items:
        if item not in ratings.values:
            near, scales = nearest(item, ratings.values), ", ".join(ratings.values)
            raise InputError(
                f"--reviews-of-items: {items.name} has the item {item!r}, which is no scale of {ratings.source}{near} "
                f"(scales: {scales}); rename one of them"
            )


def _judge(spec: str, ratings: Ratings) -> Candidate:
    source = spec.removeprefix(JUDGE)
    header = header_of(source)
    shared = [scale for scale in ratings.values if scale in header]
    if not shared:
        raise InputError(
            f"--evaluator {spec}: has no column of a scale ({', '.join(ratings.values)}); rename its columns"
        )
    judged = read_ratings(source, Wanted(system=NONE, group=NONE, scales=",".join(shared), overall=MEAN))
    means = {scale: _by_story(judged, column, ratings) for scale, column in judged.values.items()}
    return Candidate(spec, {ratings.overall_name: np.mean(list(means.values()), axis=0), **means})


def _by_story(judged: Ratings, column: Floats, ratings: Ratings) -> Floats:
    means = dict(zip(judged.stories, rated(judged, column, levelled=False).means(), strict=True))
    return np.array([means.get(story, np.nan) for story in ratings.stories])
