"""One contrastive step over all pairs of all processes, with the exact gradient left in ``.grad``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from carp.distributed import gather_rows, process_count, process_rank
from carp.errors import NonFiniteLossError
from carp.loss import clip_loss_and_gradients
from carp.model.carp_model import CarpModel
from carp.model.texts import TokenizedTexts


class ContrastiveResult(NamedTuple):
    """What a step measured, over the pairs of all processes.

    Attributes:
        loss: scalar, the mean over the global batch.
        accuracy: scalar, top-1 accuracy within the batch, the mean of both directions.
    """

    loss: Tensor
    accuracy: Tensor


def contrastive_backward(
    model: nn.Module,
    passages: TokenizedTexts | Mapping[str, Any],
    critiques: TokenizedTexts | Mapping[str, Any],
    *,
    tokens_per_chunk: int | None = 8192,
    groups: Tensor | None = None,
    graph_bytes: float = 0,
    backward: Callable[[Tensor], None] | None = None,
) -> ContrastiveResult:
    """Leave the exact gradient of the CLIP loss over the global batch in every parameter's ``.grad``.

    The batch may be of any size: texts are embedded in chunks, twice (see :mod:`carp.model.chunked`), so a
    step takes the memory of one chunk and of the embeddings. On several processes the global batch is the
    joined batches of all; the gradient is that of its mean loss, the same as on one process.

    Args:
        model: a :class:`~carp.CarpModel`, or one wrapped by DistributedDataParallel or a DeepSpeed engine.
        passages, critiques: ``n`` texts each, as a tokenizer returns them (``input_ids``,
            ``attention_mask``); pair ``i`` is passage ``i`` with critique ``i``. The same ``n`` on every process.
        tokens_per_chunk: texts times the longest one's tokens that are embedded at once; ``None``: everything.
        groups: [n] int64; pairs of one group are not each other's negatives (-1: of no group). Pairs with
            the same passage or the same critique never are.
        graph_bytes: memory for the graphs of chunks that then need no second pass; the gradient is the same.
        backward: runs the backward pass of a scalar, e.g. ``accelerator.backward``; by default the engine's
            own or ``Tensor.backward``.

    Returns:
        The loss and the accuracy of the global batch.

    Raises:
        NonFiniteLossError: if the loss is NaN or infinite; no gradient is written then.
        ValueError: if there are not as many passages as critiques, or the model is not wrapped although
            there are several processes.
    """
    passages, critiques = TokenizedTexts.of(passages), TokenizedTexts.of(critiques)
    if len(passages) != len(critiques):
        raise ValueError(f"{len(passages)} passages and {len(critiques)} critiques do not make pairs")
    processes = process_count()
    if processes > 1 and isinstance(model, CarpModel):
        raise ValueError("on several processes, wrap the model first: accelerator.prepare or DDP")
    counts = gather_rows(torch.tensor([len(passages)])).tolist()
    if len(set(counts)) > 1:
        raise ValueError(f"the processes hold {counts} pairs: give each the same number")

    passage_embeds, critique_embeds, scale = model(passages, critiques, tokens_per_chunk, graph_bytes)
    labels = gather_rows(_labels(passages, critiques, groups)).to(scale.device)
    found = clip_loss_and_gradients(
        gather_rows(passage_embeds.detach()), gather_rows(critique_embeds.detach()), scale.detach(), labels
    )
    if not found.loss.isfinite():
        raise NonFiniteLossError(f"the loss is {found.loss.item()}")

    # Wrappers average gradients over the processes. Each process holds the embeddings' gradients of its own
    # pairs only, so they are to be summed; the temperature's gradient is complete on each.
    own = _own_rows(len(passages))
    surrogate = (
        scale * found.scale
        + processes * _Handover.apply(passage_embeds, found.passages[own])
        + processes * _Handover.apply(critique_embeds, found.critiques[own])
    )
    del passage_embeds, critique_embeds  # the backward pass is where memory peaks, and it needs only their gradients
    run_backward: Any = backward or getattr(model, "backward", Tensor.backward)
    run_backward(surrogate)
    return ContrastiveResult(found.loss, found.accuracy)


class _Handover(torch.autograd.Function):
    """A scalar (of no meaning) through which embeddings get a gradient that is known already, without a copy."""

    @staticmethod
    def forward(ctx: Any, embeds: Tensor, gradient: Tensor) -> Tensor:
        ctx.gradient = gradient
        return embeds.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        return ctx.gradient.mul_(grad_outputs[0]), None


def _labels(passages: TokenizedTexts, critiques: TokenizedTexts, groups: Tensor | None) -> Tensor:
    """[n, kinds] what pairs may share, and then are not each other's negatives."""
    labels = [passages.fingerprints(), critiques.fingerprints()]
    if groups is not None:
        labels.append(groups.cpu())
    return torch.stack(labels, dim=1)


def _own_rows(n: int) -> slice:
    return slice(process_rank() * n, (process_rank() + 1) * n)
