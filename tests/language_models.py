"""A small language model with random weights for tests: no network."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from carp.data.pairs import read_pairs

END = "<|endoftext|>"
CONTEXT = 1024


def small_language_model(folder: Path, context: int = CONTEXT) -> Path:
    """Save a GPT-2 with a byte-level BPE tokenizer trained on the bundled pairs."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=[END], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator((text for pair in read_pairs("sample") for text in pair[:2]), trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, bos_token=END)
    torch.manual_seed(0)
    end = fast.convert_tokens_to_ids(END)
    config = GPT2Config(
        vocab_size=len(fast),
        n_positions=context,
        n_embd=32,
        n_layer=2,
        n_head=2,
        bos_token_id=end,
        eos_token_id=end,
        initializer_range=0.1,
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder
