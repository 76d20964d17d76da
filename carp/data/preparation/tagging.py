"""Tags of some words only: a convolutional tagger sees a few words on both sides, so the others can be left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

TAGGING = ["tok2vec", "tagger"]

_Context = TypeVar("_Context")


def reach_of_tagger(nlp: Any) -> int | None:
    """On how many tokens before and behind a word its tag depends.

    ``None`` where it may depend on all of them, and where other components need the tagger's embeddings as well.
    """
    if not set(TAGGING) <= set(nlp.pipe_names) or nlp.get_pipe("tok2vec").listening_components != ["tagger"]:
        return None
    encoder = nlp.config["components"]["tok2vec"]["model"].get("encode", {})
    if "WindowEncoder" not in encoder.get("@architectures", ""):
        return None
    return int(encoder["depth"] * encoder["window_size"])


def tags_of(
    nlp: Any, asked: Iterable[tuple[Any, Sequence[int], _Context]], reach: int, batch_size: int
) -> Iterator[tuple[list[str], _Context]]:
    """The tags that ``nlp`` gives to some tokens, the same as if it had tagged the whole texts.

    Args:
        nlp: a spaCy pipeline.
        asked: documents, the tokens of each (ascending numbers), and anything that is to come back with the tags.
        reach: see :func:`reach_of_tagger`.
        batch_size: documents at a time.
    """
    others = [name for name in nlp.pipe_names if name not in TAGGING]
    parts = ((*_part(doc, tokens, reach), context) for doc, tokens, context in asked)
    texts = ((part, (places, context)) for part, places, context in parts)
    for part, (places, context) in nlp.pipe(texts, as_tuples=True, batch_size=batch_size, disable=others):
        yield [part[i].tag_ for i in places], context


def _part(doc: Any, tokens: Sequence[int], reach: int) -> tuple[Any, list[int]]:
    """A document of the tokens and of what their tags depend on, and where the tokens are in it."""
    from spacy.tokens import Doc

    wanted = np.zeros(len(doc) + 2 * reach, bool)
    for token in tokens:
        wanted[token : token + 2 * reach + 1] = True
    kept = np.flatnonzero(wanted[reach : reach + len(doc)])
    words = [doc[i] for i in kept.tolist()]
    part = Doc(doc.vocab, [word.text for word in words], [bool(word.whitespace_) for word in words])
    if words:  # the tokenizer gives some words another norm than they have alone: the "ca" of "can't"
        part.from_array(["NORM"], doc.to_array(["NORM"])[kept, None])
    return part, np.searchsorted(kept, tokens).tolist()
