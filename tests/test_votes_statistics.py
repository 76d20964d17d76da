"""The statistics of ``carp evaluate --votes``: measures against scipy, intervals, the ceiling, comparisons."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carp.evaluation.votes import bootstrap, ceiling, measures
from carp.evaluation.votes.bootstrap import draw_counts, estimate, random_stream, resample
from carp.evaluation.votes.ceiling import split_halves
from carp.evaluation.votes.comparison import compare
from carp.evaluation.votes.data import Attendance, Votes
from carp.evaluation.votes.distributions import from_scores, from_votes, predicted_from_votes
from carp.evaluation.votes.evaluation import PEOPLE, Options, evaluate
from carp.evaluation.votes.form import assign
from carp.evaluation.votes.measures import MEASURES, measure_all
from carp.scoring.stories import Story

scipy_stats = pytest.importorskip("scipy.stats", reason="comparing with people needs scipy (extra eval)")


def make_votes(ballots: Sequence[tuple[int, int, Sequence[int]]], reviews: int) -> Votes:
    """Votes out of (story, participant, reviews), sorted by story."""
    choices = np.array([[float(r in chosen) for r in range(reviews)] for _, _, chosen in ballots])
    story, participant = np.array([b[0] for b in ballots]), np.array([b[1] for b in ballots])
    return Votes(
        tuple(Story(f"s{i}", f"text {i}") for i in range(story.max() + 1)),
        tuple(f"review {i}" for i in range(reviews)),
        tuple(f"p{i}" for i in range(participant.max() + 1)),
        choices,
        story,
        participant,
        Attendance(participant.max() + 1, (), 0, 0),
    )


def simulated(random: np.random.Generator, stories: int, people: int, each: int = 3, reviews: int = 9) -> Votes:
    """People with leanings of their own vote on stories that have some as well."""
    fits = random.normal(-0.6, 1, (stories, reviews))
    leaning = random.normal(0, 0.7, (people, reviews))
    pairs = sorted((s, p) for p, row in enumerate(assign(stories, people, each, random)) for s in row)

    def chosen(s: int, p: int) -> list[int]:
        fitting = random.random(reviews) < 1 / (1 + np.exp(-fits[s] - leaning[p]))
        return np.flatnonzero(fitting).tolist() or [0]

    return make_votes([(s, p, chosen(s, p)) for s, p in pairs], reviews)


# -- distributions and measures ---------------------------------------------------------------------------

vectors = st.lists(st.integers(0, 12), min_size=4, max_size=4).map(lambda values: np.array(values, np.float64))


def test_the_softmax_by_hand() -> None:
    found = from_scores(np.array([3.0, 1.0, 1.0 + np.log(2)]))
    np.testing.assert_allclose(found.probabilities, np.array([np.e**2, 1, 2]) / (np.e**2 + 3))
    warm = from_scores(np.array([3.0, 1.0, 1.0]), temperature=2)
    np.testing.assert_allclose(warm.probabilities, np.array([np.e, 1, 1]) / (np.e + 2))


def test_shares_by_hand() -> None:
    counts = np.array([[6.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    assert from_votes(counts, "shares").probabilities.tolist() == [[0.75, 0.25, 0], [1 / 3, 1 / 3, 1 / 3]]
    np.testing.assert_allclose(
        predicted_from_votes(counts, "shares").probabilities[0], [6.5 / 9.5, 2.5 / 9.5, 0.5 / 9.5]
    )
    assert np.isfinite(measures.kl(from_votes(counts, "shares"), predicted_from_votes(counts[::-1], "shares"))).all()


def test_measures_are_those_of_scipy() -> None:
    distance = importlib.import_module("scipy.spatial.distance")
    random = np.random.default_rng(0)
    counts, scores = random.integers(0, 6, (40, 9)).astype(float), random.normal(size=(40, 9)).round(1)
    for human in (from_votes(counts, "softmax"), from_votes(counts, "shares")):
        evaluator = from_scores(scores)
        found = dict(zip(MEASURES, measure_all(human, evaluator), strict=True))
        for i, (p, q) in enumerate(zip(human.probabilities, evaluator.probabilities, strict=True)):
            assert found["cosine"][i] == pytest.approx(1 - distance.cosine(p, q))
            assert found["kl"][i] == pytest.approx(scipy_stats.entropy(p, q))
            assert found["jensen_shannon"][i] == pytest.approx(distance.jensenshannon(p, q, base=2) ** 2)
            assert found["spearman"][i] == pytest.approx(scipy_stats.spearmanr(counts[i], scores[i]).statistic)


def test_the_divergence_is_finite_where_floats_underflow() -> None:
    human, evaluator = from_scores(np.array([0.0, 3000.0])), from_scores(np.array([2000.0, 0.0]))
    assert evaluator.probabilities[1] == 0
    assert measures.kl(human, evaluator) == pytest.approx(2000)
    assert measures.jensen_shannon(human, evaluator) == 1


def test_top1_with_ties_by_hand() -> None:
    def top1(votes: list[float], scores: list[float]) -> float:
        return float(measures.top1(from_scores(np.array(votes)), from_scores(np.array(scores))))

    assert top1([3, 1, 0], [0.2, 0.1, 0.1]) == 1
    assert top1([3, 1, 0], [0.1, 0.2, 0.1]) == 0
    assert top1([3, 3, 0], [0.1, 0.2, 0.1]) == 1  # either of the two with most votes is right
    assert top1([3, 1, 0], [0.2, 0.2, 0.1]) == 0.5  # one of the two is drawn
    assert top1([3, 1, 0, 0], [0, 0, 0, 0]) == 0.25  # chance


def test_spearman_of_a_constant_is_undefined() -> None:
    some, none = from_scores(np.arange(3.0)), from_scores(np.zeros(3))
    assert np.isnan(measures.spearman(some, none))
    assert np.isnan(measures.spearman(none, some))


@given(a=vectors, b=vectors, order=st.permutations(range(4)), shift=st.integers(-5, 5))
def test_measures_stay_in_range_and_know_no_order(a: np.ndarray, b: np.ndarray, order: list[int], shift: int) -> None:
    human, evaluator = from_scores(a), from_scores(b)
    found = measure_all(human, evaluator)
    for value, measure in zip(found, MEASURES.values(), strict=True):
        low, high = measure.bounds
        assert np.isnan(value) or low <= value <= high
    np.testing.assert_allclose(measure_all(from_scores(a[order]), from_scores(b[order] + shift)), found, atol=1e-9)
    same = dict(zip(MEASURES, measure_all(human, from_scores(a)), strict=True))
    assert (same["cosine"], same["kl"], same["jensen_shannon"]) == (
        pytest.approx(1),
        pytest.approx(0),
        pytest.approx(0),
    )
    assert same["top1"] == 1


# -- intervals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("human", ["softmax", "shares"])
def test_resamples_equal_a_naive_loop(human: Any) -> None:
    votes = make_votes([(0, 0, [0, 1]), (0, 1, [1]), (0, 2, [2]), (1, 0, [0]), (2, 1, [2, 3]), (2, 2, [3])], 4)
    scores = np.random.default_rng(5).normal(size=(2, 3, 4))
    scores[1, 1] = 0  # Spearman is undefined for this story
    found = resample(votes, from_scores(scores), human, 60, seed=3)
    people, stories = random_stream(3, bootstrap.PEOPLE), random_stream(3, bootstrap.STORIES)
    for b in range(60):
        times, weights = draw_counts(people, 3, 1)[0], draw_counts(stories, 3, 1)[0]
        values = np.full((len(MEASURES), 2, 3), np.nan)
        for s in range(3):
            drawn: Counter[int] = Counter()
            for ballot in np.flatnonzero(votes.story == s):
                for _ in range(times[votes.participant[ballot]]):
                    drawn.update(np.flatnonzero(votes.choices[ballot]).tolist())
            if drawn:
                counts = np.array([float(drawn[r]) for r in range(4)])
                values[:, :, s] = measure_all(from_votes(counts, human), from_scores(scores[:, s]))
        for m in range(len(MEASURES)):
            for e, expected in ((0, values[m, 0]), (1, values[m, 1]), (None, values[m, 0] - values[m, 1])):
                drawn_values = np.repeat(expected, weights)
                known = drawn_values[~np.isnan(drawn_values)]
                got = found.differences[b, m, 0] if e is None else found.means[b, m, e]
                assert got == pytest.approx(known.mean() if len(known) else np.nan, nan_ok=True)
    assert np.isnan(found.means).any()  # a story that nobody was drawn for


def test_resamples_depend_on_neither_blocks_nor_other_evaluators(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    votes, scores = simulated(random, 4, 10), random.normal(size=(3, 4, 9))
    together = resample(votes, from_scores(scores), "shares", 50, seed=1).means
    alone = resample(votes, from_scores(scores[1:2]), "shares", 50, seed=1).means
    np.testing.assert_array_equal(together[..., 1], alone[..., 0])
    monkeypatch.setattr(bootstrap, "BLOCK", 1)
    np.testing.assert_array_equal(resample(votes, from_scores(scores), "shares", 50, seed=1).means, together)
    assert not np.array_equal(resample(votes, from_scores(scores), "shares", 50, seed=2).means, together)


def test_with_one_participant_the_spread_is_that_of_a_mean_over_stories() -> None:
    random = np.random.default_rng(0)
    votes = make_votes([(s, 0, random.permutation(6)[:2].tolist()) for s in range(40)], 6)
    scores = random.normal(size=(1, 40, 6))
    values = measure_all(from_votes(votes.counts(), "softmax"), from_scores(scores))[0, 0]
    means = resample(votes, from_scores(scores), "softmax", 4000, seed=0).means[:, 0, 0]
    assert means.std() == pytest.approx(values.std() / np.sqrt(40), rel=0.05)


def test_intervals_hold_the_expected_value_of_simulated_studies() -> None:
    """Bare percentiles hold the divergence of such small studies in half of them."""
    random = np.random.default_rng(1)
    found = []
    for _ in range(50):
        votes = simulated(random, 24, 24)
        scores = random.normal(size=(1, 24, 9))
        values = measure_all(from_votes(votes.counts(), "shares"), from_scores(scores))[:, 0]
        means = resample(votes, from_scores(scores), "shares", 100, seed=0).means[..., 0]
        found.append([estimate(values[m], means[:, m]) for m in range(len(MEASURES))])
    for m in range(len(MEASURES)):
        values, lows, highs = (np.array([getattr(row[m], what) for row in found]) for what in ("value", "low", "high"))
        assert ((lows <= values.mean()) & (values.mean() <= highs)).mean() >= 0.9


def test_an_estimate_by_hand() -> None:
    replicates = np.array([0.0, 1.0, 2.0, 3.0, 4.0, np.nan])
    found = estimate(np.array([1.0, np.nan, 2.0]), replicates)
    low, high = np.percentile(np.arange(5.0), [2.5, 97.5]) - 2 + 1.5
    assert (found.value, found.n, found.undefined) == (1.5, 2, 1)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert estimate(np.array([1.0, 2.0]), replicates, (0, 3)).low == 0
    assert estimate(np.array([np.nan]), replicates).value is None


# -- the ceiling ------------------------------------------------------------------------------------------


def test_halves_are_even_and_random() -> None:
    story = np.repeat([0, 1, 2], [5, 4, 1])
    halves = ceiling._random_halves(story, 200, np.random.default_rng(0))
    assert set(halves[:, :5].sum(1)) == {3}
    assert set(halves[:, 5:9].sum(1)) == {2}
    assert 0.4 < halves[:, 5].mean() < 0.6
    assert len({tuple(row) for row in halves[:, 5:9]}) == 6  # every way to divide four


def test_people_of_one_mind_reach_the_ceiling_and_one_alone_has_none() -> None:
    votes = make_votes([(0, p, [0, 2]) for p in range(4)] + [(1, 0, [1])], 3)
    found = split_halves(votes, "softmax", seed=0, repeats=20)
    assert found.shape == (20, len(MEASURES), 2)
    np.testing.assert_allclose(found[:, :, 0], np.array([1, 0, 1, 1, 0]) * np.ones((20, 1)), atol=1e-12)
    assert np.isnan(found[:, :, 1]).all()


@pytest.mark.parametrize("human", ["softmax", "shares"])
def test_two_people_are_compared_with_each_other(human: Any) -> None:
    votes = make_votes([(0, 0, [0, 1]), (0, 1, [1, 2])], 4)
    found = split_halves(votes, human, seed=0, repeats=30)[:, :, 0]
    a, b = np.array([1.0, 1, 0, 0]), np.array([0.0, 1, 1, 0])
    either = [measure_all(from_votes(x, human), predicted_from_votes(y, human)) for x, y in ((a, b), (b, a))]
    assert all(np.allclose(row, either[0]) or np.allclose(row, either[1]) for row in found)


# -- two by two -------------------------------------------------------------------------------------------


def test_comparisons_are_those_of_scipy() -> None:
    random = np.random.default_rng(0)
    first, second = random.random(12), random.random(12)
    first[3] = second[3]
    first[5] = np.nan
    found = compare("kl", ("a", "b"), first, second, np.array([-1.0, 1.0]))
    known = np.delete(first - second, 5)
    assert found.difference.value == pytest.approx(known.mean())
    assert (found.first_better, found.second_better, found.equal) == ((known < 0).sum(), (known > 0).sum(), 1)
    assert found.wilcoxon_p == pytest.approx(scipy_stats.wilcoxon(known).pvalue)
    signs = scipy_stats.binomtest(found.first_better, 10).pvalue
    assert found.sign_p == pytest.approx(signs)
    assert compare("cosine", ("a", "b"), first, second, np.array([])).first_better == found.second_better


def test_seven_stories_cannot_give_a_smaller_p() -> None:
    found = compare("cosine", ("a", "b"), np.arange(1.0, 8), np.zeros(7), np.array([]))
    assert found.wilcoxon_p == found.sign_p == pytest.approx(2 / 2**7)
    assert (found.difference.low, found.difference.high) == (None, None)


def test_equal_evaluators_and_undefined_ones_do_not_differ() -> None:
    values = np.array([0.1, 0.3])
    same = compare("cosine", ("a", "b"), values, values + 1e-16, np.array([0.0]))
    assert (same.equal, same.wilcoxon_p, same.sign_p) == (2, 1, 1)
    never = compare("spearman", ("a", "b"), values, np.full(2, np.nan), np.array([np.nan]))
    assert (never.difference.value, never.difference.n, never.wilcoxon_p, never.sign_p) == (None, 0, None, None)


# -- everything together ----------------------------------------------------------------------------------


def test_an_evaluator_that_knows_the_votes_is_perfect_and_uniform_is_at_chance() -> None:
    votes = simulated(np.random.default_rng(3), 6, 20)
    found = evaluate(votes, {"oracle": votes.counts()}, Options(resamples=100))
    oracle, uniform = found.results
    assert [round(e.value or 0, 9) for e in oracle.estimates.values()] == [1, 0, 1, 1, 0]
    assert uniform.name == "uniform"
    assert uniform.estimates["spearman"].value is None
    assert uniform.estimates["spearman"].undefined == 6
    assert uniform.tied == 6
    assert uniform.sharpness == pytest.approx(1 / 9)
    best = (votes.counts() == votes.counts().max(-1, keepdims=True)).sum(-1)
    assert uniform.estimates["top1"].value == pytest.approx((best / 9).mean())
    assert found.people.name == PEOPLE
    assert 0 < (found.people.estimates["spearman"].value or 0) < 1


def test_one_story_and_one_participant_have_no_interval() -> None:
    votes = make_votes([(0, 0, [1, 2])], 3)
    found = evaluate(votes, {}, Options(resamples=100))
    cosine = found.results[0].estimates["cosine"]
    assert cosine.value == pytest.approx(
        2 * np.e / (3**0.5 * (1 + 2 * np.e**2) ** 0.5) + 1 / (3 * (1 + 2 * np.e**2)) ** 0.5
    )
    assert (cosine.low, cosine.high) == (None, None)
    assert found.people.estimates["cosine"].value is None


def test_temperature_sharpens_evaluators_alone() -> None:
    votes = simulated(np.random.default_rng(3), 4, 12)
    scores = {"a": np.random.default_rng(0).normal(size=(4, 9))}
    warm, cold = (evaluate(votes, scores, Options(temperature=t, resamples=100)) for t in (1, 0.1))
    assert cold.results[0].sharpness > warm.results[0].sharpness
    np.testing.assert_array_equal(warm.human.probabilities, cold.human.probabilities)
    rank = list(MEASURES).index("spearman")
    np.testing.assert_array_equal(warm.results[0].values[rank], cold.results[0].values[rank])
