"""Where the tokens of an encoder's tokenizer end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from carp.data.preparation.story import TokenEnds
from carp.errors import InputError

if TYPE_CHECKING:
    from transformers.tokenization_utils_base import PreTrainedTokenizerBase

# White space as every tokenizer sees it (to BERT's, some other characters that Python counts are no space).
_PIECE = re.compile(r"[ \t\n\r]*[^ \t\n\r]+|[ \t\n\r]+")


def serialized_tokenizer(tokenizer: PreTrainedTokenizerBase) -> str:
    """What :func:`token_ends_of` takes: a process that has it needs not import transformers.

    Raises:
        InputError: if the tokenizer is a slow one, which knows no offsets.
    """
    if not tokenizer.is_fast:
        raise InputError(f"the tokenizer {tokenizer.name_or_path!r} gives no offsets: choose a fast one")
    serialized: str = tokenizer.backend_tokenizer.to_str()
    return serialized


def token_ends_of(serialized: str) -> TokenEnds:
    """A function from a text to the end offsets of its tokens, special ones left out."""
    tokenizer = Tokenizer.from_str(serialized)
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def ends_of(text: str) -> NDArray[np.int64]:
        return np.array([end for _, end in tokenizer.encode(text, add_special_tokens=False).offsets], np.int64)

    return _by_piece(ends_of) if _parts_at_spaces(json.loads(serialized)) else ends_of


def _by_piece(ends_of: Callable[[str], NDArray[np.int64]]) -> TokenEnds:
    """The same ends, several times as fast: words come again, and one with the space before it is looked up."""
    known = lru_cache(maxsize=200_000)(ends_of)

    def token_ends(text: str) -> NDArray[np.int64]:
        pieces = _PIECE.findall(text)  # they leave nothing out
        if not pieces:
            return ends_of(text)
        ends = [known(piece) for piece in pieces]
        starts = np.cumsum([0, *map(len, pieces[:-1])])
        return np.concatenate(ends) + np.repeat(starts, [len(found) for found in ends])

    return token_ends


def _parts_at_spaces(tokenizer: dict[str, Any]) -> bool:
    """Whether a tokenizer's tokens stay the same where a text is cut before white space: BERT's and RoBERTa's do."""
    normalizer, splitter = (tokenizer[part] or {} for part in ("normalizer", "pre_tokenizer"))
    if splitter.get("type") == "BertPreTokenizer":
        return normalizer.get("type") == "BertNormalizer"
    plain = splitter.get("type") == "ByteLevel" and splitter["use_regex"] and not splitter["add_prefix_space"]
    return plain and not normalizer
