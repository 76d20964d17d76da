"""Counting the tokens of an encoder's tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from carp.data.preparation.story import TokenEnds
from carp.errors import InputError


def token_ends_of(tokenizer: PreTrainedTokenizerBase) -> TokenEnds:
    """A function from a text to the end offsets of its tokens, special ones left out.

    Raises:
        InputError: if the tokenizer is a slow one, which knows no offsets.
    """
    if not tokenizer.is_fast:
        raise InputError(f"the tokenizer {tokenizer.name_or_path!r} gives no offsets: choose a fast one")
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())  # a copy: its limits are not the caller's
    backend.no_truncation()
    backend.no_padding()

    def token_ends(text: str) -> Sequence[int]:
        return [end for _, end in backend.encode(text, add_special_tokens=False).offsets]

    return token_ends
