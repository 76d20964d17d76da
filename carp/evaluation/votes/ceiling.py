"""The human ceiling: how near is one half of the participants to the other?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from carp.evaluation.evaluators import Floats
from carp.evaluation.votes.bootstrap import BLOCK, SPLITS, STORIES, draw_counts, random_stream, weighted_means
from carp.evaluation.votes.data import Votes
from carp.evaluation.votes.distributions import Human, from_votes, predicted_from_votes
from carp.evaluation.votes.measures import MEASURES, measure_all

REPEATS = 500


def split_halves(votes: Votes, human: Human, seed: int, repeats: int = REPEATS) -> Floats:
    """Measure one half of each story's participants against the other half, many times.

    Each half has half of the votes, so this is the agreement of studies of half the size: rather too low a ceiling than
    too high a one.

    Returns:
        [repeats, n_measures, n_stories]; NaN for a story with a single participant.
    """
    random = random_stream(seed, SPLITS)
    ballots = np.bincount(votes.story, minlength=len(votes.stories))
    found = np.empty((repeats, len(MEASURES), len(votes.stories)))
    block = max(1, BLOCK // max(len(votes.story), len(votes.stories) * len(votes.reviews)))
    for start in range(0, repeats, block):
        halves = _random_halves(votes.story, min(block, repeats - start), random)
        first, second = votes.counts(halves), votes.counts(1 - halves)
        measured = measure_all(from_votes(first, human), predicted_from_votes(second, human))
        found[start : start + block] = measured.swapaxes(0, 1)
    found[:, :, ballots < 2] = np.nan
    return found


def _random_halves(story: NDArray[np.int64], n: int, random: np.random.Generator) -> Floats:
    """Every second ballot of each story, in a random order of them: [n, n_ballots], 1 for the first half."""
    halves = np.zeros((n, len(story)))
    order = np.argsort(story + random.random((n, len(story))), axis=1)  # by story, at random within it
    first_of_story = np.searchsorted(story, story)  # ballots are sorted by story
    np.put_along_axis(halves, order, ((np.arange(len(story)) - first_of_story) % 2 == 0)[None] * 1.0, axis=1)
    return halves


def ceiling_means(found: Floats, resamples: int, seed: int) -> Floats:
    """Means over resampled stories of randomly drawn splits: [resamples, n_measures].

    Participants are not resampled: one who is drawn twice could stand in both halves and agree with themselves.
    """
    random = random_stream(seed, STORIES)
    weights = draw_counts(random, found.shape[-1], resamples)
    return weighted_means(found[random.integers(len(found), size=resamples)], weights)
