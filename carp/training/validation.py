"""How well a model matches held-out passages and critiques."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from carp.data.tokenized import Batch, TokenizedPairs
from carp.distributed import gather_rows, process_count, process_rank
from carp.loss import clip_loss, false_negatives, similarity_logits, top_k_accuracy
from carp.model.carp_model import CarpModel


@torch.no_grad()
def validate(model: CarpModel, pairs: TokenizedPairs, rows: np.ndarray) -> dict[str, float]:
    """Loss and retrieval accuracy among all validation pairs at once, as in the paper's Table 2.

    Pairs of one group (critiques of the same story) are no rivals, and a text that several pairs share is
    one. The work is divided among the processes; each gets the result.

    Args:
        model: the bare model.
        pairs, rows: the validation pairs, ``len(rows)`` of them.

    Returns:
        ``validation_loss``, and top-1 and top-5 accuracy in [0, 1]: of the critiques given a passage
        (``validation_critique_top1``) and of the passages given a critique (``validation_passage_top1``);
        ``validation_accuracy`` is the mean of the four.
    """
    passages, critiques, labels = _embed_together(model, pairs, rows)
    logits = similarity_logits(passages, critiques, model.logit_scale.exp())
    labels = labels.to(logits.device)
    ignore = false_negatives(labels)
    _, passage_texts, critique_texts = labels.unbind(dim=1)
    accuracies = {
        f"validation_{side}_top{k}": top_k_accuracy(scores, k, _once(ignore, texts)).item()
        for side, scores, texts in (
            ("critique", logits, critique_texts),
            ("passage", logits.T, passage_texts),
        )
        for k in (1, 5)
    }
    return {
        "validation_loss": clip_loss(logits, ignore).item(),
        "validation_accuracy": sum(accuracies.values()) / len(accuracies),
        **accuracies,
    }


def _once(ignore: Tensor, texts: Tensor) -> Tensor:
    """``ignore`` [n, n], and every column whose text stands in an earlier column too: a text is one rival."""
    repeated = (texts[:, None] == texts).tril(diagonal=-1).any(dim=1)
    return (ignore | repeated).fill_diagonal_(False)


def _embed_together(model: CarpModel, pairs: TokenizedPairs, rows: np.ndarray) -> list[Tensor]:
    processes, rank = process_count(), process_rank()
    share = -(-len(rows) // processes)  # the last shares repeat rows so that all are of one size
    batch = pairs.batch(np.resize(rows, share * processes)[rank * share : (rank + 1) * share])
    return [gather_rows(part)[: len(rows)] for part in _embed(model, batch)]


def _embed(model: CarpModel, batch: Batch) -> list[Tensor]:
    labels = torch.stack([batch.groups, batch.passages.fingerprints(), batch.critiques.fingerprints()], dim=1)
    passages = model.embed_tokenized("passage", batch.passages)
    critiques = model.embed_tokenized("critique", batch.critiques)
    return [passages, critiques, labels]
