"""Language models of transformers: a folder, a GGUF file or a Hub id."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from carp.errors import InputError
from carp.model.encoders import quiet_transformers

GPT_J = "EleutherAI/gpt-j-6b"  # the paper's model
SPECIAL_TOKENS = ("bos_token_id", "eos_token_id", "decoder_start_token_id", "forced_bos_token_id")
# A continuation is tokenised behind it and what it takes is dropped again: SentencePiece tokenizers would put a space
# of their own before a text that begins with one. Prompts end in it.
ANCHOR = ":"


@dataclass(frozen=True)
class LanguageModel:
    """A causal language model with its tokenizer.

    Prefix and continuation are tokenised apart and joined as token ids, once for all evaluators and for finetuning: so
    all continuations of a prefix share exactly its tokens, which a key-value cache needs, and no token holds letters
    of both, so the likelihood of the continuation is that of its own bytes. Prompts end in ``Critique:`` or
    ``Answer:`` and continuations begin with a space, where tokenizers divide anyway.

    Attributes:
        name: what it was loaded from.
        model: of transformers, in evaluation mode.
        tokenizer: its tokenizer.
    """

    name: str
    model: Any
    tokenizer: Any

    @property
    def context(self) -> int | None:
        """Tokens that the model can read; ``None`` where nothing limits them."""
        positions = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        return int(positions) if positions else None

    @property
    def end(self) -> int:
        """The token that ends a text.

        Raises:
            InputError: if the tokenizer has none.
        """
        if self.tokenizer.eos_token_id is None:
            raise InputError(f"{self.name}: its tokenizer has no end-of-text token; name one in tokenizer_config.json")
        return int(self.tokenizer.eos_token_id)

    def prefixes(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of texts that begin a sequence, each with the beginning token if the tokenizer has one."""
        unique = list(dict.fromkeys(texts))  # of one story there are often many critiques in a row
        found = dict(zip(unique, self._ids(unique), strict=True))
        begin = self._begin()
        return [begin + found[text] for text in texts]

    def continuations(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of texts that follow a prefix."""
        (anchor,) = self._ids([ANCHOR])
        behind = self._ids([ANCHOR + text for text in texts])
        alone = self._ids(texts)
        size = len(anchor)
        return [ids[size:] if ids[:size] == anchor else plain for ids, plain in zip(behind, alone, strict=True)]

    def without_end(self, text: str, tokens: int) -> str:
        """A text without its last ``tokens`` tokens, in any case shorter than before; empty where it has no more."""
        (ids,) = self._ids([text])
        kept = self.tokenizer.decode(ids[: max(0, len(ids) - tokens)], clean_up_tokenization_spaces=False)
        return str(kept).rstrip("\ufffd")[: len(text) - 1].rstrip()

    def _begin(self) -> list[int]:
        probe = self.tokenizer("a", return_special_tokens_mask=True)
        begin: list[int] = probe["input_ids"][: probe["special_tokens_mask"].index(0)]
        return begin

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        # split_special_tokens: a story that holds the letters <|endoftext|> does not end there.
        options = {"add_special_tokens": False, "split_special_tokens": True, "verbose": False}
        found: list[list[int]] = self.tokenizer(list(texts), **options)["input_ids"] if texts else []
        return found


_LOADED: dict[str, LanguageModel] = {}


def shared_language_model(name: str, option: str) -> LanguageModel:
    """A language model, loaded once for all that use it one after the other; see :func:`load_language_model`."""
    if name not in _LOADED:
        _LOADED.clear()  # first: two large models need not fit side by side
        _LOADED[name] = load_language_model(name, option)
    return _LOADED[name]


def load_language_model(name: str, option: str = "--model") -> LanguageModel:
    """Load a causal language model in its own precision, on the GPUs if there are any.

    Args:
        name: a folder, a GGUF file or a Hub id.
        option: what to call it in messages.

    Raises:
        InputError: if there is no such model, or it is not causal.
    """
    check_language_model(name, option)
    tokenizer = load_tokenizer(name, option)
    model = load_model(name, option, place=True)
    model.generation_config = bare_generation(model.generation_config, tokenizer)
    return LanguageModel(name, model.eval(), tokenizer)


def check_language_model(name: str, option: str) -> None:
    """Find out whether there is a causal language model of this name, without loading its weights.

    Raises:
        InputError: if there is none.
    """
    source, gguf = _source(name, option)
    if gguf:  # transformers takes a quarter of a minute to read what stands before the weights
        _check_gguf(name, option)
        return
    with explained_loading(name, option):
        config = AutoConfig.from_pretrained(source)
    if config.is_encoder_decoder:
        raise InputError(f"{option} {name}: an encoder-decoder model; name a causal one, such as {GPT_J}")


def _check_gguf(path: str, option: str) -> None:
    with open(path, "rb") as file:
        if file.read(4) != b"GGUF":
            raise InputError(f"{option} {path}: no GGUF file; name one, a folder or a Hub id")


def load_model(name: str, option: str, dtype: Any = "auto", place: bool = False) -> Any:
    """The weights alone, in ``dtype``; ``place``: spread over the GPUs."""
    source, gguf = _source(name, option)
    more: dict[str, Any] = {"device_map": "auto"} if place and torch.cuda.is_available() else {}
    weights: dict[str, Any] = gguf or {"use_safetensors": True}  # nothing is unpickled
    with explained_loading(name, option):
        return AutoModelForCausalLM.from_pretrained(source, dtype=dtype, **weights, **more)


def load_tokenizer(name: str, option: str) -> Any:
    """The tokenizer alone."""
    source, gguf = _source(name, option)
    with explained_loading(name, option):
        return AutoTokenizer.from_pretrained(source, **gguf)


def _source(name: str, option: str) -> tuple[str, dict[str, str]]:
    """What ``from_pretrained`` takes: a folder or Hub id, and the GGUF file in it."""
    path = Path(name)
    if path.is_file():
        if importlib.util.find_spec("gguf") is None:
            raise InputError(f"{option} {name}: reading GGUF files needs gguf: pip install 'carp-critic[eval]'")
        return str(path.parent), {"gguf_file": path.name}
    if not path.exists() and name.count("/") != 1:
        raise InputError(f"{option} {name}: no such folder or file (a Hub id has the form organisation/name)")
    return name, {}


@contextmanager
def explained_loading(name: str, option: str) -> Iterator[None]:
    """What goes wrong while a model is loaded becomes one line that names it."""
    try:
        with quiet_transformers():
            yield
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"{option} {name}: cannot be loaded as a language model ({reason})") from error


def bare_generation(given: GenerationConfig, tokenizer: Any) -> GenerationConfig:
    """A model's special tokens, without its own settings: a top-k or a repetition penalty would bend what it writes."""
    kept = {name: value for name in SPECIAL_TOKENS if (value := getattr(given, name, None)) is not None}
    kept.setdefault("eos_token_id", tokenizer.eos_token_id)
    end = kept["eos_token_id"]
    padding = next((t for t in (given.pad_token_id, tokenizer.pad_token_id) if t is not None), None)
    if padding is None:
        padding = end[0] if isinstance(end, list) else end
    return GenerationConfig(do_sample=False, pad_token_id=padding, **kept)
