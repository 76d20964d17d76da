"""Shared fixtures: tiny RoBERTa models built from random weights, no network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

# Set before any library reads them: no test may reach a hub, wherever it runs.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["OMP_NUM_THREADS"] = "1"  # tiny models: a second thread only waits for the first
os.environ.pop("CARP_MODEL", None)

import pytest
from hypothesis import settings

if TYPE_CHECKING:  # imported where they are used: the process that hands tests to others needs none of them
    from transformers.tokenization_utils_base import PreTrainedTokenizerBase

    from carp.model.carp_model import CarpModel
    from carp.model.configuration import CarpConfig

settings.register_profile("carp", deadline=None)  # a machine that is busy elsewhere is no failure
settings.load_profile("carp")

REPOSITORY = Path(__file__).parent.parent
SHARED_DATA = REPOSITORY.parent / "shared" / "data"
CONTEXT = 48
PATIENCE = 900  # seconds until a process counts as hung: a shared machine may give a tenth of its cores


def shared_data(name: str) -> Path:
    """A file of the shared data folder; skips the test where it is absent."""
    path = SHARED_DATA / name
    if not path.exists():
        pytest.skip(f"the shared data set {name} is not beside this checkout")
    return path


def tiny_config(vocab_size: int = 600, **changes: object) -> CarpConfig:
    from carp.model.configuration import CarpConfig

    encoder = {
        "model_type": "roberta",
        "vocab_size": vocab_size,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": CONTEXT + 2,
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
    }
    defaults = {"projection_dim": 24, "max_passage_tokens": CONTEXT, "max_critique_tokens": CONTEXT}
    return CarpConfig(passage_config=encoder, critique_config=dict(encoder), **(defaults | changes))


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    from carp.data.pairs import read_pairs
    from carp.model.encoders import train_tokenizer

    texts = (text for pair in read_pairs("sample") for text in pair[:2])
    return train_tokenizer(texts, 600, CONTEXT)


@pytest.fixture
def model(tokenizer: PreTrainedTokenizerBase) -> CarpModel:
    """A tiny CARP model with random weights and real tokenizers, in evaluation mode."""
    import torch

    from carp.model.carp_model import CarpModel

    torch.manual_seed(0)
    made = CarpModel(tiny_config(len(tokenizer))).eval()
    made.passage_tokenizer = made.critique_tokenizer = tokenizer
    return made


@pytest.fixture
def model_folder(model: CarpModel, tmp_path: Path) -> Path:
    """The same model, saved."""
    model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"
