"""Tools of the parity tests: random batches, and the gradient computed the plain way."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from carp.loss import clip_loss, false_negatives, similarity_logits
from carp.model.carp_model import CarpModel
from carp.model.texts import TokenizedTexts, plan_chunks
from carp.model.tower import TextTower

Gradients = dict[str, Tensor]


def random_texts(count: int, seed: int, longest: int = 30, vocab_size: int = 600) -> dict[str, Tensor]:
    """Tokenizer output with padding on the right, lengths 2..longest."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, longest + 1, (count,), generator=generator)
    mask = (torch.arange(longest) < lengths[:, None]).long()
    ids = torch.randint(5, vocab_size, (count, longest), generator=generator)
    return {"input_ids": torch.where(mask.bool(), ids, 1), "attention_mask": mask}


def gradients(model: torch.nn.Module) -> Gradients:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def plain_gradients(
    model: CarpModel,
    passages: Sequence[dict[str, Tensor]],
    critiques: Sequence[dict[str, Tensor]],
    tokens_per_chunk: int,
    seeds: Sequence[int],
    groups: Tensor | None = None,
) -> tuple[float, Gradients]:
    """Loss and gradient of the joined batches of all processes by ordinary autograd: one graph, all kept.

    With dropout, the masks depend on how texts are cut into chunks and in which order these are drawn: the
    i-th process embeds its passages, then its critiques, from the random state of ``seeds[i]``.
    """
    model.zero_grad()
    parts = []
    for own_passages, own_critiques, seed in zip(passages, critiques, seeds, strict=True):
        torch.manual_seed(seed)
        parts.append(
            [
                _embed_keeping_graphs(tower, TokenizedTexts.of(texts), tokens_per_chunk)
                for tower, texts in (
                    (model.passage_tower, own_passages),
                    (model.critique_tower, own_critiques),
                )
            ]
        )
    passage_embeds, critique_embeds = (torch.cat(side) for side in zip(*parts, strict=True))
    labels = [torch.cat([TokenizedTexts.of(t).fingerprints() for t in side]) for side in (passages, critiques)]
    ignore = false_negatives(torch.stack([*labels, *([] if groups is None else [groups])], dim=1))
    loss = clip_loss(similarity_logits(passage_embeds, critique_embeds, model.logit_scale.exp()), ignore)
    loss.backward()
    return loss.item(), gradients(model)


def _embed_keeping_graphs(tower: TextTower, texts: TokenizedTexts, tokens_per_chunk: int) -> Tensor:
    chunks = plan_chunks(texts.lengths, tokens_per_chunk)
    return torch.cat([tower.embed(texts, rows) for rows in chunks])[torch.cat(chunks).argsort()]


def largest_difference(found: Gradients, expected: Gradients) -> float:
    """The largest relative difference over all parameters; a missing gradient counts as infinite.

    Gradients that vanish by symmetry (the bias of attention's keys) are compared against the largest one.
    """
    if found.keys() != expected.keys():
        return float("inf")
    scale = max(float(g.norm()) for g in expected.values())
    return max(float((found[name] - g).norm()) / max(float(g.norm()), 1e-6 * scale) for name, g in expected.items())
