"""Recognisers of proper nouns by name."""

from __future__ import annotations

from carp.data.preparation.entities import Recognizer
from carp.data.preparation.hub_recognition import HUB_MODEL, HubRecognizer
from carp.data.preparation.spacy_recognition import SPACY_PIPELINE, SpacyRecognizer
from carp.errors import InputError


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
