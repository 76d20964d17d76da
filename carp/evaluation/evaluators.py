"""Evaluators: whatever gives scores to stories for given reviews (CARP, section 4.1)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from huggingface_hub import try_to_load_from_cache
from numpy.typing import NDArray

from carp.data.records import read_records
from carp.errors import CarpError, InputError

LANGUAGE_MODELS = ("prompt", "multiple-choice", "finetuned")
KINDS = ("carp:MODEL", *(f"{kind}:LM" for kind in LANGUAGE_MODELS), "scores:FILE", "uniform")  # what --evaluator takes
UNIFORM = "uniform"
HASHED_FILES = ("*.json", "*.safetensors", "*.gguf")  # of a model's folder: what decides about its scores
Floats = NDArray[np.float64]


class Evaluator(Protocol):
    """Says how well reviews fit stories."""

    @property
    def name(self) -> str:
        """What tables and figures call it."""

    def scores(self, stories: Sequence[str], reviews: Sequence[str], progress: bool) -> Floats:
        """Scores [n_stories, n_reviews], finite, on any scale; the higher, the better the review fits."""


def make_evaluator(spec: str, story_ids: Mapping[str, str], paraphrases: str = "") -> Evaluator:
    """The evaluator that a word of the command line names.

    Args:
        spec: ``carp:MODEL`` (a folder or Hub id), ``prompt:LM``, ``multiple-choice:LM`` or ``finetuned:LM`` (a causal
            language model), ``scores:FILE`` (the scores of any outside evaluator), ``uniform``.
        story_ids: story text -> id, for ``scores:FILE``.
        paraphrases: for ``carp:MODEL``: average each review over paraphrases, ``bundled`` or ``pegasus``.

    Raises:
        InputError: if there is no such kind, model or file.
    """
    kind, _, what = spec.partition(":")
    if kind == "carp" and what:
        return CarpEvaluator(spec, what, paraphrases)
    if kind in LANGUAGE_MODELS and what:
        from carp.evaluation.language.evaluators import LanguageModelEvaluator

        return LanguageModelEvaluator(spec, kind, what)
    if kind == "scores" and what:
        return FileEvaluator(spec, what, story_ids)
    if spec == UNIFORM:
        return UniformEvaluator()
    raise InputError(f"--evaluator {spec}: no such evaluator; give {', '.join(KINDS[:-1])} or {KINDS[-1]}")


def checked_scores(
    evaluator: Evaluator, stories: Sequence[str], reviews: Sequence[str], progress: bool = False
) -> Floats:
    """Scores [n_stories, n_reviews] of an evaluator, in float64.

    Raises:
        CarpError: if they are of another shape or not finite.
    """
    found = np.asarray(evaluator.scores(stories, reviews, progress), np.float64)
    if found.shape != (len(stories), len(reviews)):
        raise CarpError(f"{evaluator.name}: gave scores of shape {found.shape} for {len(stories)} x {len(reviews)}")
    if not np.isfinite(found).all():
        story, review = np.argwhere(~np.isfinite(found))[0]
        raise CarpError(f"{evaluator.name}: gave {found[story, review]} for story {story + 1}, {reviews[review]!r}")
    return found


class UniformEvaluator:
    """Finds every review equally fitting: the baseline that knows nothing."""

    name = UNIFORM

    def scores(self, stories: Sequence[str], reviews: Sequence[str], progress: bool) -> Floats:
        """Zeros [n_stories, n_reviews]."""
        return np.zeros((len(stories), len(reviews)))


class CarpEvaluator:
    """The cosines of a CARP model.

    Raises:
        InputError: if there is no such model.
    """

    def __init__(self, name: str, model: str, paraphrases: str = "") -> None:
        from carp.model.hub import checkpoint_folder

        checkpoint_folder(model)  # what is missing is said before other evaluators have worked for hours
        self.name = name
        self._model, self._paraphrases = model, paraphrases

    def scores(self, stories: Sequence[str], reviews: Sequence[str], progress: bool) -> Floats:
        """Cosines [n_stories, n_reviews]; long stories are read in windows, see :func:`carp.score`."""
        from carp.scoring.loading import load
        from carp.scoring.score import score

        paraphrases: Any = self._paraphrases or None  # score says what can be chosen
        found = score(stories, reviews, model=load(self._model), paraphrases=paraphrases, progress=progress)
        return found.astype(np.float64)


class FileEvaluator:
    """Scores out of a file with the columns ``story_id``, ``review`` and ``score``.

    Args:
        name: what tables and figures call it.
        path: CSV, JSON Lines or Parquet; rows of other stories and reviews may be in it.
        story_ids: story text -> id.

    Raises:
        InputError: names the file, the row and the mend.
    """

    def __init__(self, name: str, path: str, story_ids: Mapping[str, str]) -> None:
        self.name = name
        self._path, self._story_ids = path, story_ids
        self._found: dict[tuple[str, str], float] = {}
        for place, record in read_records(path):
            if missing := [column for column in ("story_id", "review", "score") if column not in record]:
                columns = ", ".join(map(str, record)) or "none"
                raise InputError(f"{place}: no column {missing[0]!r} (columns: {columns}); add it or rename one")
            key = str(record["story_id"]).strip(), str(record["review"]).strip()
            if key in self._found:
                raise InputError(f"{place}: a second score of story {key[0]!r} for {key[1]!r}; remove one")
            self._found[key] = _number(record["score"], place)

    def scores(self, stories: Sequence[str], reviews: Sequence[str], progress: bool) -> Floats:
        """The file's scores [n_stories, n_reviews].

        Raises:
            InputError: names what the file has no score for.
        """
        return np.array([[self._score(self._story_ids[story], review) for review in reviews] for story in stories])

    def _score(self, story_id: str, review: str) -> float:
        if (story_id, review) not in self._found:
            raise InputError(f"{self._path}: no score of story {story_id!r} for {review!r}; add a row with it")
        return self._found[story_id, review]


def _number(value: object, place: str) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{place}: the score {value!r} is no finite number; write one")
    return number


def origin(spec: str) -> dict[str, str]:
    """What decides about an evaluator's scores: the SHA-256 of its files, or the commit of its Hub repository."""
    what = spec.partition(":")[2]
    path = Path(what)
    if not what:
        return {}
    if path.is_file():
        return {path.name: sha256(path)}
    if path.is_dir():
        found = sorted(file for pattern in HASHED_FILES for file in path.glob(pattern))
        return {file.name: sha256(file) for file in found}
    cached = try_to_load_from_cache(what, "config.json")
    return {"commit": Path(cached).parent.name} if isinstance(cached, str) else {}


def sha256(path: str | Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
