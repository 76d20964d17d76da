"""Text classifiers of the Hub: found without waiting for a network that is not there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from huggingface_hub import HfApi, snapshot_download, try_to_load_from_cache
from numpy.typing import NDArray
from tqdm.auto import tqdm

from carp.errors import InputError
from carp.model.encoders import quiet_transformers
from carp.model.hub import HUB_ERRORS, TerminalBar

BATCH = 32
TIMEOUT = 3  # seconds for the first answer of the Hub
WEIGHTS = "model.safetensors"
FILES = ["config.json", WEIGHTS, "tokenizer*", "special_tokens_map.json", "vocab.*", "merges.txt", "*.model"]


@dataclass(frozen=True)
class Classifier:
    """A sequence classifier; ``name`` tells the revision where it is known."""

    name: str
    pipeline: Any
    labels: list[str]

    def scores(self, texts: Sequence[str], function: str, progress: bool = False) -> NDArray[np.float64]:
        """Score texts: [n, labels]; ``function`` is ``softmax`` or ``sigmoid``."""
        found = np.zeros((len(texts), len(self.labels)))
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))  # alike in length: little padding
        starts = range(0, len(order), BATCH)
        for start in tqdm(starts, desc="classifying", disable=not progress, leave=False):
            rows = order[start : start + BATCH]
            outputs = self.pipeline(
                [texts[i] for i in rows], batch_size=BATCH, truncation=True, top_k=None, function_to_apply=function
            )
            for i, output in zip(rows, outputs, strict=True):
                by_label = {entry["label"]: entry["score"] for entry in output}
                found[i] = [by_label[label] for label in self.labels]
        return found


def find_classifier(names: Sequence[str]) -> Classifier:
    """The first of the models that is a folder, in the Hub's cache or, last, on the Hub. Safetensors only.

    Raises:
        InputError: if none can be had; says why.
    """
    for name in names:
        if Path(name).is_dir():
            return _load(name, Path(name))
        if isinstance(cached := try_to_load_from_cache(name, WEIGHTS), str):
            return _load(name, Path(cached).parent)
    return _load(names[0], _download(names[0]))


def _download(name: str) -> Path:
    try:
        HfApi().model_info(name, timeout=TIMEOUT)  # asks once; a download would try for half a minute
        return Path(snapshot_download(name, allow_patterns=FILES, tqdm_class=TerminalBar))
    except HUB_ERRORS as error:
        # The kind alone: messages hold request ids, and a report is to be reproducible.
        kind = type(error).__name__
        raise InputError(f"{name} is no folder, not in the Hub's cache, and cannot be downloaded ({kind})") from error


def _load(name: str, folder: Path) -> Classifier:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

    try:
        with quiet_transformers():
            model = AutoModelForSequenceClassification.from_pretrained(folder, use_safetensors=True)
            tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{name} cannot be loaded as a text classifier in safetensors ({reason})") from error
    # A tokenizer that states no limit would let a long text run beyond the model's positions.
    tokenizer.model_max_length = min(tokenizer.model_max_length, _positions(model.config))
    labels = [model.config.id2label[i] for i in range(model.config.num_labels)]
    revision = f" @ {folder.name[:8]}" if folder.parent.name == "snapshots" else ""
    return Classifier(name + revision, pipeline("text-classification", model=model, tokenizer=tokenizer), labels)


def _positions(config: Any) -> int:
    positions = int(getattr(config, "max_position_embeddings", 512))
    # RoBERTa's positions start behind the padding's.
    return positions - 2 if config.model_type in ("roberta", "xlm-roberta") else positions
