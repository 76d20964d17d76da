"""Recognising proper nouns by a token-classification model of the Hub."""

from __future__ import annotations

from collections.abc import Sequence

from carp.data.preparation.entities import KINDS, Entity
from carp.errors import InputError

HUB_MODEL = "dslim/bert-base-NER"


class HubRecognizer:
    """A token-classification model of the Hub or of a folder, e.g. BERT trained on CoNLL-2003.

    Texts longer than the model's context are read in windows that overlap.

    Args:
        model: its labels are those of CoNLL-2003 or OntoNotes, with or without B- and I-.
        device: e.g. "cuda"; by default the GPU where there is one.
    """

    def __init__(self, model: str = HUB_MODEL, device: str | None = None, batch_size: int = 16) -> None:
        import torch
        from transformers import AutoModelForTokenClassification, AutoTokenizer, pipeline

        try:
            loaded = AutoModelForTokenClassification.from_pretrained(model, use_safetensors=True)
            tokenizer = AutoTokenizer.from_pretrained(model, use_fast=True)
        except (OSError, ValueError) as error:
            raise InputError(f"{model}: no token-classification model ({str(error).splitlines()[0]})") from error
        window = loaded.config.max_position_embeddings - 4  # RoBERTa keeps two positions for itself
        tokenizer.model_max_length = min(tokenizer.model_max_length, window)
        self._classify = pipeline(
            "token-classification",
            model=loaded,
            tokenizer=tokenizer,
            device=device or ("cuda" if torch.cuda.is_available() else "cpu"),
            aggregation_strategy="first",
            stride=tokenizer.model_max_length // 4,
            batch_size=batch_size,
        )

    def entities(self, texts: Sequence[str]) -> list[list[Entity]]:
        """See :class:`Recognizer`."""
        filled = [i for i, text in enumerate(texts) if text.strip()]
        found: list[list[Entity]] = [[] for _ in texts]
        for i, spans in zip(filled, self._classify([texts[i] for i in filled]) if filled else [], strict=True):
            found[i] = [
                Entity(int(span["start"]), int(span["end"]), KINDS[span["entity_group"]])
                for span in spans
                if span["entity_group"] in KINDS
            ]
        return found
