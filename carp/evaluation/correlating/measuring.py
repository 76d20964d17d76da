"""Correlations of candidates with people's ratings, scale by scale, of stories and of systems.

Of stories, the bootstrap resamples stories. Of systems it resamples systems, each with its stories: resampled stories
would make every system's mean noisier than it is, and the systems are a sample, too. All candidates see the same
resamples, so that their differences from the baseline are paired.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from carp.errors import InputError
from carp.evaluation.correlating.candidates import Candidate
from carp.evaluation.correlating.coefficients import COEFFICIENTS, MAX_POINTS, correlations, standardised
from carp.evaluation.correlating.people import LEVELLED, SYSTEMS, Rated, levels, points, rated
from carp.evaluation.evaluators import Floats
from carp.evaluation.ratings.summaries import scores
from carp.evaluation.ratings.table import Ratings
from carp.evaluation.resampling import DEFAULT, Estimate, Resampling, estimate

PEOPLE = "people (one rater, the others)"
DRAWS = 100  # of the one rater of each story
FEWEST = 3  # points: two always lie on a line


@dataclass(frozen=True)
class Correlation:
    """A candidate against people, on one scale: the coefficients over ``n`` stories or systems.

    ``above_words`` is how much higher each is than that of the number of words, on the same points; nothing for the
    number of words itself, and for people.
    """

    level: str
    scale: str
    candidate: str
    n: int
    coefficients: dict[str, Estimate]
    above_words: dict[str, Estimate]


def correlate(
    ratings: Ratings, words: Candidate, candidates: Sequence[Candidate], resampling: Resampling = DEFAULT
) -> list[Correlation]:
    """Correlate every candidate, the number of words and people themselves with people's ratings.

    Args:
        ratings: people's.
        words: the baseline.
        candidates: the others.
        resampling: of stories or systems.

    Raises:
        InputError: for more stories than can be compared with each other.
    """
    if len(ratings.stories) > MAX_POINTS:
        raise InputError(f"{ratings.source}: {len(ratings.stories):,} stories; {MAX_POINTS:,} is the most, give fewer")
    found = []
    for level in levels(ratings):
        for scale, column in scores(ratings).items():
            people = rated(ratings, column, levelled=level == LEVELLED)
            length = words.values[scale]
            for one in (words, *candidates):
                if scale in one.values:
                    x, y, baseline = points(ratings, level, one.values[scale], people.means(), length)
                    against = None if one is words else baseline
                    found.append(_correlation(level, scale, one.name, x, y, against, resampling))
            found.append(_people(ratings, level, scale, people, resampling))
    return found


def _correlation(
    level: str, scale: str, name: str, x: Floats, y: Floats, baseline: Floats | None, resampling: Resampling
) -> Correlation:
    if why := _too_few(level, len(x)):
        return Correlation(level, scale, name, len(x), _nothing(why), {} if baseline is None else _nothing(why))
    weights = resampling.weights(len(x))
    found = correlations(x, y, weights)
    above = None if baseline is None else found - correlations(baseline, y, weights)
    return Correlation(
        level,
        scale,
        name,
        len(x),
        _estimates(found, "all scores are equal" if standardised(y).any() else "all ratings are equal"),
        {} if above is None else _estimates(above, "one of the two is not defined"),
    )


def _people(ratings: Ratings, level: str, scale: str, people: Rated, resampling: Resampling) -> Correlation:
    """One rater of each story, drawn at random, against the mean of the others; the mean over many draws.

    The interval is over stories (or systems) and draws: every resample sees one draw.
    """
    random = np.random.default_rng([resampling.seed, 1])
    drawn = [points(ratings, level, *people.one_and_the_others(random)) for _ in range(DRAWS)]
    n = len(drawn[0][0])
    if why := _too_few(level, n):
        return Correlation(level, scale, PEOPLE, n, _nothing(f"{why} with two raters"), {})
    weights = resampling.weights(n)
    found = [
        correlations(one, others, np.vstack([weights[:1], weights[1 + draw :: DRAWS]]))
        for draw, (one, others) in enumerate(drawn)
    ]
    values = np.stack([of_draw[:, 0] for of_draw in found], axis=1)
    together = np.concatenate([_means(values)[:, None], *(of_draw[:, 1:] for of_draw in found)], axis=1)
    return Correlation(level, scale, PEOPLE, n, _estimates(together, "one rater's ratings are all equal"), {})


def _means(values: Floats) -> Floats:
    """Means of rows, without NaN; NaN where there is nothing else."""
    return np.array([row[~np.isnan(row)].mean() if not np.isnan(row).all() else np.nan for row in values])


def _too_few(level: str, n: int) -> str:
    return "" if n >= FEWEST else f"fewer than three {'systems' if level == SYSTEMS else 'stories'}"


def _nothing(why: str) -> dict[str, Estimate]:
    return {name: Estimate(None, undefined=why) for name in COEFFICIENTS}


def _estimates(found: Floats, why: str) -> dict[str, Estimate]:
    """Of the values and their replicates: [3, 1 + resamples]."""
    return {name: estimate(row, why) for name, row in zip(COEFFICIENTS, found, strict=True)}


def undefined(found: Sequence[Correlation]) -> Iterator[str]:
    """Why figures are absent: ``stories, item_1, uniform: all scores are equal``."""
    for one in found:
        for why in dict.fromkeys(value.undefined for value in one.coefficients.values() if value.undefined):
            yield f"{one.level}, {one.scale}, {one.candidate}: {why}"
