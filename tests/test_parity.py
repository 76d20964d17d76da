"""The chunked step computes what ordinary autograd computes on the whole batch."""

from __future__ import annotations

import math

import pytest
import torch
from conftest import tiny_config
from parity import gradients, largest_difference, plain_gradients, random_texts

import carp
from carp.errors import NonFiniteLossError
from carp.loss import clip_loss
from carp.model.carp_model import CarpModel
from carp.model.texts import TokenizedTexts, plan_chunks

PAIRS = 24
BUDGETS = [1, 31, 64, 30 * 12, 100_000]  # one text a chunk, not dividing, dividing, larger than everything


@pytest.fixture
def double() -> CarpModel:
    torch.manual_seed(0)
    return CarpModel(tiny_config()).double()


@pytest.fixture
def batch() -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    return random_texts(PAIRS, seed=1), random_texts(PAIRS, seed=2, longest=12)


def whole_batch_gradients(model: CarpModel, passages: dict, critiques: dict) -> tuple[float, dict]:
    """The definition: everything padded into one batch, one graph, the loss written out."""
    model.zero_grad()
    passage_embeds = model.passage_tower(passages["input_ids"], passages["attention_mask"])
    critique_embeds = model.critique_tower(critiques["input_ids"], critiques["attention_mask"])
    logits = model.logit_scale.exp() * passage_embeds @ critique_embeds.T
    rows, columns = logits.log_softmax(1).diagonal(), logits.log_softmax(0).diagonal()
    loss = -(rows.mean() + columns.mean()) / 2
    loss.backward()
    return loss.item(), gradients(model)


@pytest.mark.parametrize("budget", [*BUDGETS, None])
def test_chunked_gradient_equals_that_of_the_whole_batch(double, batch, budget) -> None:
    double.eval()
    loss, expected = whole_batch_gradients(double, *batch)
    double.zero_grad()
    result = carp.contrastive_backward(double, *batch, tokens_per_chunk=budget)
    assert result.loss.item() == pytest.approx(loss, rel=1e-13)
    assert largest_difference(gradients(double), expected) < 1e-10


def test_every_parameter_gets_a_gradient_that_matters(double, batch) -> None:
    carp.contrastive_backward(double, *batch, tokens_per_chunk=64)
    found = gradients(double)
    assert found.keys() == dict(double.named_parameters()).keys()
    # Adding the same to all of attention's keys changes no attention weight: that gradient is zero.
    vanishing = {name for name, g in found.items() if g.norm() < 1e-12}
    assert all(name.endswith("key.bias") for name in vanishing)
    assert found["logit_scale"].abs().item() > 1e-6


@pytest.mark.parametrize("budget", BUDGETS)
def test_dropout_is_replayed_exactly(double, batch, budget) -> None:
    double.train()
    passages, critiques = batch
    loss, expected = plain_gradients(double, [passages], [critiques], budget, seeds=[5])
    double.zero_grad()
    torch.manual_seed(5)
    result = carp.contrastive_backward(double, passages, critiques, tokens_per_chunk=budget)
    assert result.loss.item() == pytest.approx(loss, rel=1e-13)
    assert largest_difference(gradients(double), expected) < 1e-10


def test_dropout_is_on_in_that_test(double, batch) -> None:
    double.train()
    losses = {carp.contrastive_backward(double, *batch, tokens_per_chunk=64).loss.item() for _ in range(2)}
    assert len(losses) == 2


def test_the_random_state_goes_on_as_after_one_pass(double, batch) -> None:
    double.train()
    plain_gradients(double, [batch[0]], [batch[1]], 64, seeds=[5])
    expected = torch.rand(1)
    torch.manual_seed(5)
    carp.contrastive_backward(double, *batch, tokens_per_chunk=64)
    assert torch.rand(1) == expected


def test_gradients_add_to_what_is_there(double, batch) -> None:
    double.eval()
    carp.contrastive_backward(double, *batch, tokens_per_chunk=64)
    once = gradients(double)
    carp.contrastive_backward(double, *batch, tokens_per_chunk=64)
    assert largest_difference(gradients(double), {name: 2 * g for name, g in once.items()}) < 1e-10


def test_padding_on_the_left_and_lists_change_nothing(double, batch) -> None:
    double.eval()
    passages, critiques = batch
    carp.contrastive_backward(double, passages, critiques, tokens_per_chunk=64)
    expected = gradients(double)
    for other in (left_padded(passages), unpadded(passages)):
        double.zero_grad()
        carp.contrastive_backward(double, other, critiques, tokens_per_chunk=64)
        assert largest_difference(gradients(double), expected) < 1e-12


def left_padded(texts: dict) -> dict:
    return {
        name: torch.stack([row.roll(int((1 - m).sum())) for row, m in zip(t, texts["attention_mask"], strict=True)])
        for name, t in texts.items()
    }


def unpadded(texts: dict) -> dict:
    return {"input_ids": [row[m.bool()].tolist() for row, m in zip(*texts.values(), strict=True)]}


def test_gradient_checkpointing_changes_nothing(double, batch) -> None:
    double.train()
    torch.manual_seed(5)
    carp.contrastive_backward(double, *batch, tokens_per_chunk=64)
    expected = gradients(double)
    double.zero_grad()
    double.gradient_checkpointing_enable()
    assert any(getattr(m, "gradient_checkpointing", False) for m in double.modules())
    torch.manual_seed(5)
    carp.contrastive_backward(double, *batch, tokens_per_chunk=64)
    assert largest_difference(gradients(double), expected) < 1e-12


@pytest.mark.parametrize("budget", [64, 100_000])
def test_bfloat16_autocast_gives_the_gradient_of_the_whole_batch_to_its_precision(batch, budget) -> None:
    torch.manual_seed(0)
    model = CarpModel(tiny_config()).eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        carp.contrastive_backward(model, *batch, tokens_per_chunk=None)
        expected = gradients(model)
        model.zero_grad()
        carp.contrastive_backward(model, *batch, tokens_per_chunk=budget)
    difference = largest_difference(gradients(model), expected)
    assert 0 < difference < 0.1  # zero would mean that autocast was off in neither or both passes


def test_autocast_holds_in_the_second_pass(batch) -> None:
    torch.manual_seed(0)
    model = CarpModel(tiny_config()).eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        carp.contrastive_backward(model, *batch, tokens_per_chunk=100_000)
        chunked = gradients(model)
        model.zero_grad()
        carp.contrastive_backward(model, *batch, tokens_per_chunk=None)
    rounded = largest_difference(chunked, gradients(model))
    model.zero_grad()
    carp.contrastive_backward(model, *batch, tokens_per_chunk=None)
    assert rounded < 0.2 * largest_difference(chunked, gradients(model))


def test_a_bfloat16_model_gets_finite_gradients_of_its_type(batch) -> None:
    model = CarpModel(tiny_config()).bfloat16()
    result = carp.contrastive_backward(model, *batch, tokens_per_chunk=64)
    assert result.loss.isfinite()
    assert all(p.grad.dtype == torch.bfloat16 and p.grad.isfinite().all() for p in model.parameters())


def test_pairs_of_a_group_and_repeated_texts_are_no_negatives(double) -> None:
    double.eval()
    passages, critiques = random_texts(4, seed=1), random_texts(4, seed=2)
    for key in passages:
        passages[key][1] = passages[key][0]  # pairs 0 and 1 share their passage
        critiques[key][3] = critiques[key][2]  # pairs 2 and 3 share their critique
    groups = torch.tensor([-1, 9, 9, -1])  # pairs 1 and 2 share their group; -1 is of no group
    result = carp.contrastive_backward(double, passages, critiques, groups=groups)

    p, c, scale = double(passages, critiques)
    logits = scale * p @ c.T
    for i, j in ((0, 1), (2, 3), (1, 2)):
        logits[i, j] = logits[j, i] = -math.inf
    expected = -(logits.log_softmax(1).diagonal() + logits.log_softmax(0).diagonal()).mean() / 2
    assert result.loss.item() == pytest.approx(expected.item(), rel=1e-12)
    assert result.loss.item() != pytest.approx(clip_loss(scale * p @ c.T).item(), rel=1e-3)


def test_only_trained_parameters_get_gradients(double, batch) -> None:
    double.passage_tower.encoder.requires_grad_(False)
    carp.contrastive_backward(double, *batch, tokens_per_chunk=64)
    assert not any(name.startswith("passage_tower.encoder") for name in gradients(double))
    assert double.passage_tower.projection.weight.grad.norm() > 0


def test_a_loss_that_is_not_finite_leaves_no_gradient(double, batch) -> None:
    with torch.no_grad():
        double.passage_tower.projection.weight.fill_(math.nan)
    with pytest.raises(NonFiniteLossError, match="nan"):
        carp.contrastive_backward(double, *batch)
    assert not gradients(double)


def test_unequal_numbers_of_texts_are_refused(double, batch) -> None:
    with pytest.raises(ValueError, match="24 passages and 5 critiques"):
        carp.contrastive_backward(double, batch[0], random_texts(5, seed=2))


def test_a_text_without_tokens_is_refused(double, batch) -> None:
    batch[0]["attention_mask"][3] = 0
    with pytest.raises(ValueError, match="text 3 has no token"):
        carp.contrastive_backward(double, *batch)


@pytest.mark.parametrize("budget", [1, 7, 100, 10**6])
def test_chunks_hold_every_text_once_and_keep_the_budget(budget) -> None:
    lengths = torch.randint(1, 40, (100,), generator=torch.Generator().manual_seed(0))
    chunks = plan_chunks(lengths, budget)
    assert sorted(torch.cat(chunks).tolist()) == list(range(100))
    for rows in chunks:
        assert len(rows) == 1 or len(rows) * int(lengths[rows].max()) <= budget


def test_fingerprints_tell_texts_apart() -> None:
    rows = [[5, 6], [6, 5], [5], [5, 6], [5, 6, 0], [0]]
    marks = TokenizedTexts.from_lists(rows).fingerprints().tolist()
    assert marks[0] == marks[3]
    assert len(set(marks)) == 5
    assert all(mark >= 0 for mark in marks)
