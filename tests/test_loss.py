"""The loss: its definition, the tiled form, accuracies, false negatives."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from carp.loss import clip_loss, clip_loss_and_gradients, false_negatives, similarity_logits, top_k_accuracy

PAIRS = 13


@pytest.fixture
def embeds() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    passages, critiques = (F.normalize(torch.randn(PAIRS, 6, generator=generator).double(), dim=1) for _ in range(2))
    return passages.requires_grad_(), critiques.requires_grad_(), torch.tensor(7.0).double().requires_grad_()


LABELS = torch.tensor([[1, 5], [1, 6], [-1, 5], *([-1, -1] for _ in range(PAIRS - 3))])


@pytest.mark.parametrize("rows_per_tile", [1, 5, PAIRS, 100])
def test_the_tiled_loss_is_the_loss(embeds, rows_per_tile: int) -> None:
    passages, critiques, scale = embeds
    logits = similarity_logits(passages, critiques, scale)
    ignore = false_negatives(LABELS)
    loss = clip_loss(logits, ignore)
    expected = torch.autograd.grad(loss, embeds)
    found = clip_loss_and_gradients(passages, critiques, scale, LABELS, rows_per_tile)
    assert found.loss.item() == pytest.approx(loss.item(), rel=1e-13)
    for gradient, other in zip((found.passages, found.critiques, found.scale), expected, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-11, atol=1e-13)
    both_ways = top_k_accuracy(logits, 1, ignore) + top_k_accuracy(logits.T, 1, ignore)
    assert found.accuracy.item() == pytest.approx(both_ways.item() / 2)
    assert 0 < found.accuracy < 1


def test_half_precision_embeddings_are_compared_in_single(embeds) -> None:
    passages, critiques, scale = (e.detach().half() for e in embeds)
    found = clip_loss_and_gradients(passages, critiques, scale.float(), LABELS)
    assert found.loss.dtype == found.passages.dtype == torch.float32
    expected = clip_loss_and_gradients(passages.double(), critiques.double(), scale.double(), LABELS)
    torch.testing.assert_close(found.loss.double(), expected.loss, rtol=1e-5, atol=0)


def test_false_negatives_share_any_label_but_not_the_negative_one() -> None:
    assert false_negatives(LABELS)[:4, :4].tolist() == [
        [False, True, True, False],
        [True, False, False, False],
        [True, False, False, False],
        [False, False, False, False],
    ]
    assert torch.equal(false_negatives(LABELS, slice(1, 3)), false_negatives(LABELS)[1:3])


def test_a_collapsed_model_is_wrong_everywhere() -> None:
    alike = torch.ones(4, 3) / math.sqrt(3)
    assert top_k_accuracy(alike @ alike.T, 1) == 0
    found = clip_loss_and_gradients(alike, alike, torch.tensor(10.0), -torch.ones(4, 1, dtype=torch.long))
    assert found.accuracy == 0
    assert found.loss.item() == pytest.approx(math.log(4), rel=1e-6)


def test_top_k_counts_rows() -> None:
    logits = torch.tensor([[3.0, 1.0, 0.0], [5.0, 4.0, 0.0], [2.0, 1.0, 0.0]])
    assert top_k_accuracy(logits, 1) == pytest.approx(1 / 3)
    assert top_k_accuracy(logits, 2) == pytest.approx(2 / 3)
    assert top_k_accuracy(logits, 3) == 1
