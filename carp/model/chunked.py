"""Embedding a batch of any size in the memory of one chunk, with exact gradients.

The paper's "variant of this objective" (CARP, section 3), written as one differentiable operation:

1. Forward: every chunk is embedded without a graph; the random state it starts from is kept. As many chunks as a
   memory budget holds are embedded with a graph: they need no second pass.
2. The caller computes the loss of the whole batch once and so the gradient of every embedding.
3. Backward: every other chunk is embedded again, with a graph, from the same random state (so dropout draws the
   same masks), and the gradient of its embeddings is pushed through. The sum over chunks is handed to
   autograd at once: each parameter receives its gradient a single time per step, so whatever hooks on to
   that (DistributedDataParallel, DeepSpeed's ZeRO 1 and 2) synchronises once and stays exact.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from carp.model.graphs import GraphBudget
from carp.model.heap import HeapGrowth
from carp.model.texts import TokenizedTexts, plan_chunks
from carp.model.tower import TextTower

RandomState = tuple[Tensor, Tensor | None]
log = logging.getLogger(__name__)


def embed_in_chunks(
    tower: TextTower, texts: TokenizedTexts, tokens_per_chunk: int | None, budget: GraphBudget | None = None
) -> Tensor:
    """Embed all texts; differentiable in the tower's parameters.

    Args:
        tower: the encoder with its projection.
        texts: ``n`` tokenised texts.
        tokens_per_chunk: tokens per chunk; ``None`` embeds everything at once with an ordinary graph.
        budget: memory for the graphs of chunks, which then need no second pass; by default none are kept.

    Returns:
        [n, dim] embeddings of unit length.
    """
    if tokens_per_chunk is None:
        return tower.embed(texts, torch.arange(len(texts)))
    parameters = [p for p in tower.parameters() if p.requires_grad]
    chunks = plan_chunks(texts.lengths, tokens_per_chunk)
    return _EmbedTwice.apply(tower, texts, chunks, budget or GraphBudget(0), *parameters)


class _EmbedTwice(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        tower: TextTower,
        texts: TokenizedTexts,
        chunks: list[Tensor],
        budget: GraphBudget,
        *parameters: Tensor,
    ) -> Tensor:
        device = next(tower.parameters()).device
        ctx.tower, ctx.texts, ctx.chunks, ctx.device = tower, texts, chunks, device
        ctx.parameters = parameters
        ctx.autocast = _autocast_settings(device.type)
        ctx.states, ctx.graphs = [], []
        embeds = torch.empty(0)
        budget.next_tower()
        for rows in chunks:
            ctx.states.append(_random_state(device))
            graph = _kept_graph(ctx, rows, budget) if any(ctx.needs_input_grad) else None
            ctx.graphs.append(graph)
            found = tower.embed(texts, rows) if graph is None else graph.detach()
            if not len(embeds):
                embeds = found.new_empty(len(texts), found.shape[1])
            embeds[rows.to(device)] = found
        # Weights that autocast has cast while gradients were off must not serve the second pass.
        torch.clear_autocast_cache()
        return embeds

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (grad_embeds,) = grad_outputs
        totals = [torch.zeros_like(p) for p in ctx.parameters]
        heap = HeapGrowth() if None in ctx.graphs and ctx.device.type == "cpu" else None
        for i, (rows, state) in enumerate(zip(ctx.chunks, ctx.states, strict=True)):
            # Taken out of the list, a graph's memory is free once its gradient is computed.
            graph, ctx.graphs[i] = ctx.graphs[i], None
            again = graph is None
            if again:
                with _graphs(ctx.tower), _replayed(state, ctx.device), torch.autocast(**ctx.autocast):
                    graph = ctx.tower.embed(ctx.texts, rows)
            # autograd.grad, not backward: the parameters' own hooks must not fire for every chunk.
            gradients = torch.autograd.grad(graph, ctx.parameters, grad_embeds[rows.to(ctx.device)], allow_unused=True)
            for total, gradient in zip(totals, gradients, strict=True):
                if gradient is not None:
                    total += gradient
            del graph, gradients
            if again and heap:
                heap.after_chunk()
        return None, None, None, None, *totals


def _kept_graph(ctx: Any, rows: Tensor, budget: GraphBudget) -> Tensor | None:
    """Embeddings of a chunk with their graph, or ``None`` where the budget does not hold it."""
    tokens = int(ctx.texts.lengths[rows].sum())
    if not budget.affords(tokens):
        return None
    try:
        with _graphs(ctx.tower), budget.spending(tokens, ctx.parameters):
            graph: Tensor = ctx.tower.embed(ctx.texts, rows)
    except torch.OutOfMemoryError:
        log.warning("memory runs short: graphs are no longer kept in this step; lower train.keep_graphs")
        ctx.graphs = [None] * len(ctx.graphs)
        budget.left = 0
    if budget.left > 0:
        return graph
    budget.left = 0
    _restore(ctx.states[-1], ctx.device)
    return None


@contextmanager
def _graphs(tower: TextTower) -> Iterator[None]:
    """Record graphs in which the word embeddings get sparse gradients.

    A chunk holds few of the words; writing and adding up zeros for all others would cost as much as a layer.
    """
    words = tower.encoder.get_input_embeddings()
    was_sparse = words.sparse
    words.sparse = True
    try:
        with torch.enable_grad():
            yield
    finally:
        words.sparse = was_sparse


def _autocast_settings(device_type: str) -> dict[str, Any]:
    return {
        "device_type": device_type,
        "dtype": torch.get_autocast_dtype(device_type),
        "enabled": torch.is_autocast_enabled(device_type),
    }


def _random_state(device: torch.device) -> RandomState:
    on_device = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    return torch.get_rng_state(), on_device


def _restore(state: RandomState, device: torch.device) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], device)


@contextmanager
def _replayed(state: RandomState, device: torch.device) -> Iterator[None]:
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        _restore(state, device)
        yield
