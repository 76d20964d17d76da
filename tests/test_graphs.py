"""Keeping graphs saves second passes and changes nothing."""

from __future__ import annotations

import logging

import pytest
import torch
from conftest import tiny_config
from parity import gradients, random_texts

import carp
from carp.model.carp_model import CarpModel
from carp.model.graphs import GraphBudget, memory_for_graphs
from carp.model.texts import TokenizedTexts, plan_chunks
from carp.model.tower import TextTower

BUDGET = 64  # tokens per chunk


class Step:
    """A step with dropout on; counts how often a chunk is embedded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        torch.manual_seed(0)
        self.model = CarpModel(tiny_config()).train()
        self.passages, self.critiques = random_texts(24, seed=1), random_texts(24, seed=2, longest=12)
        self.embedded, self.fail_at = 0, -1
        plain = TextTower.embed

        def counting(tower: TextTower, texts: TokenizedTexts, rows: torch.Tensor) -> torch.Tensor:
            self.embedded += 1
            found = plain(tower, texts, rows)
            if self.embedded == self.fail_at:
                raise torch.OutOfMemoryError("no memory left")
            return found

        monkeypatch.setattr(TextTower, "embed", counting)

    @property
    def chunks(self) -> int:
        sides = (self.passages, self.critiques)
        return sum(len(plan_chunks(TokenizedTexts.of(texts).lengths, BUDGET)) for texts in sides)

    def gradients(self, graph_bytes: float) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        self.model.zero_grad()
        self.embedded = 0
        torch.manual_seed(3)
        carp.contrastive_backward(
            self.model, self.passages, self.critiques, tokens_per_chunk=BUDGET, graph_bytes=graph_bytes
        )
        return gradients(self.model), torch.rand(1)


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> Step:
    return Step(monkeypatch)


def assert_same(found: tuple, expected: tuple) -> None:
    assert found[1] == expected[1]  # the random state goes on alike
    assert found[0].keys() == expected[0].keys()
    assert all(torch.equal(found[0][name], gradient) for name, gradient in expected[0].items())


def test_kept_graphs_need_no_second_pass_and_give_the_same_bits(step: Step) -> None:
    expected = step.gradients(graph_bytes=0)
    assert step.embedded == 2 * step.chunks
    assert_same(step.gradients(graph_bytes=1e9), expected)
    assert step.embedded == step.chunks


def test_a_budget_for_some_graphs_keeps_some(step: Step) -> None:
    expected = step.gradients(graph_bytes=0)
    passes = []
    for graph_bytes in (1, 4e5, 1e6, 1e9):
        assert_same(step.gradients(graph_bytes), expected)
        passes.append(step.embedded)
    assert passes == sorted(passes, reverse=True)
    assert passes[0] > 2 * step.chunks  # a graph that does not fit was tried in vain
    assert step.chunks < passes[2] < 2 * step.chunks
    assert passes[3] == step.chunks


def test_memory_that_runs_out_falls_back_and_says_so(step: Step, caplog: pytest.LogCaptureFixture) -> None:
    expected = step.gradients(graph_bytes=0)
    step.fail_at = 3
    with caplog.at_level(logging.WARNING):
        found = step.gradients(graph_bytes=1e9)
    assert_same(found, expected)
    assert "memory runs short" in caplog.text
    assert step.embedded == 2 * step.chunks + 1


def test_a_budget_counts_what_autograd_saves() -> None:
    weight = torch.nn.Parameter(torch.randn(10, 10))
    budget = GraphBudget(1e6)
    x = torch.randn(5, 10, requires_grad=True)
    with budget.spending(5, [weight]):
        (x @ weight).exp().sum()
    assert 1e6 - budget.left == 2 * 5 * 10 * 4  # x and the result of exp; not the weight
    assert budget.affords(5)
    assert not budget.affords(10**6)


def test_there_is_memory_for_graphs_here() -> None:
    assert memory_for_graphs(torch.device("cpu")) > 1e6
