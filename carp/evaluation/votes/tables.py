"""The numbers of an evaluation as JSON and as CSV tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from carp.evaluation.evaluators import Floats
from carp.evaluation.votes.evaluation import Evaluation
from carp.evaluation.votes.measures import MEASURES, best_reviews

Rows = Iterator[list[Any]]  # the first one is the header


def to_json(found: Evaluation, made: Mapping[str, Any]) -> Any:
    """Everything, in plain types; what is undefined is null. The same input and versions give the same."""
    votes, everyone = found.votes, (*found.results, found.people)
    return plain(
        {
            "made": made,
            "votes": {
                "stories": len(votes.stories),
                "reviews": votes.reviews,
                "participants": len(votes.participants),
                "ballots": len(votes.choices),
                "votes": int(votes.choices.sum()),
                "attention": asdict(votes.attendance),
            },
            "summary": {r.name: {name: asdict(e) for name, e in r.estimates.items()} for r in everyone},
            "comparisons": [asdict(comparison) for comparison in found.comparisons],
            "stories": {story.story_id: _story(found, index) for index, story in enumerate(votes.stories)},
        }
    )


def _story(found: Evaluation, index: int) -> dict[str, Any]:
    def by_review(values: Floats) -> dict[str, float]:
        return dict(zip(found.votes.reviews, values[index].tolist(), strict=True))

    return {
        "ballots": int((found.votes.story == index).sum()),
        "votes": by_review(found.human.scores),
        "probabilities": by_review(found.human.probabilities),
        "evaluators": {
            result.name: {
                "scores": by_review(result.scores),
                "probabilities": by_review(result.probabilities),
                **dict(zip(MEASURES, result.values[:, index].tolist(), strict=True)),
            }
            for result in found.results
        },
        "people": dict(zip(MEASURES, found.people.values[:, index].tolist(), strict=True)),
    }


def plain(value: Any) -> Any:
    """Without NumPy's types, without NaN."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    return None if isinstance(value, float) and math.isnan(value) else value


def _summary(found: Evaluation) -> Rows:
    yield ["evaluator", "measure", "mean", "low", "high", "n_stories", "undefined"]
    for result in (*found.results, found.people):
        for name, estimate in result.estimates.items():
            yield [result.name, name, *asdict(estimate).values()]


def _stories(found: Evaluation) -> Rows:
    yield ["story_id", "ballots", "evaluator", *MEASURES, "best_reviews"]
    ballots = np.bincount(found.votes.story)
    for index, story in enumerate(found.votes.stories):
        for result in found.results:
            best = int(best_reviews(result.scores[index]).sum())
            yield [story.story_id, ballots[index], result.name, *result.values[:, index], best]
        yield [story.story_id, ballots[index], found.people.name, *found.people.values[:, index], None]


def _distributions(found: Evaluation) -> Rows:
    yield ["story_id", "review", "of", "score", "probability"]
    sources = [("people", found.human.scores, found.human.probabilities)]
    sources += [(result.name, result.scores, result.probabilities) for result in found.results]
    for s, story in enumerate(found.votes.stories):
        for r, review in enumerate(found.votes.reviews):
            for name, scores, probabilities in sources:
                yield [story.story_id, review, name, scores[s, r], probabilities[s, r]]


def _comparisons(found: Evaluation) -> Rows:
    yield [
        *["measure", "first", "second", "difference", "low", "high", "n_stories", "undefined"],
        *["first_better", "second_better", "equal", "wilcoxon_p", "sign_p"],
    ]
    for comparison in found.comparisons:
        measure, first, second, difference, *rest = asdict(comparison).values()
        yield [measure, first, second, *difference.values(), *rest]


TABLES: dict[str, Callable[[Evaluation], Rows]] = {
    "summary": _summary,
    "stories": _stories,
    "distributions": _distributions,
    "comparisons": _comparisons,
}
