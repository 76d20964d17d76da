"""Prompts made to fit into a model's context."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from carp.errors import InputError
from carp.evaluation.language.loading import LanguageModel
from carp.evaluation.language.prompts import Form

log = logging.getLogger(__name__)


class Fitted(NamedTuple):
    """A prompt that fits: its token ids, how many examples it shows, and whether its story's end is cut."""

    ids: list[int]
    examples: int
    cut: bool


def fit_prompts(
    language: LanguageModel, form: Form, stories: Sequence[str], reviews: Sequence[str], answer_tokens: int, name: str
) -> list[Fitted]:
    """Prompts that leave room for an answer.

    Where a prompt is too long, whole examples are left out, the first one first (those next to the story say most about
    what is wanted of it). Where it is too long without any, the end of the story is cut, as the paper cuts passages
    (section 2.2.3). Both are logged, with counts.

    Args:
        language: the model.
        form: of the prompts.
        stories: of the prompts.
        reviews: to choose from.
        answer_tokens: room to leave, in tokens.
        name: what messages call it all.

    Raises:
        InputError: if the context does not even hold the prompt without a story.
    """
    whole = len(form.examples)
    room = None if language.context is None else language.context - answer_tokens
    prompts = language.prefixes([form.prompt(story, reviews, whole) for story in stories])
    fitted = [
        Fitted(ids, whole, False) if room is None or len(ids) <= room else _fit(language, form, story, reviews, room)
        for ids, story in zip(prompts, stories, strict=True)
    ]
    _report(fitted, whole, language, name)
    return fitted


def _fit(language: LanguageModel, form: Form, story: str, reviews: Sequence[str], room: int) -> Fitted:
    for examples in range(len(form.examples) - 1, -1, -1):
        (ids,) = language.prefixes([form.prompt(story, reviews, examples)])
        if len(ids) <= room:
            return Fitted(ids, examples, False)
    return Fitted(cut_story(language, lambda text: form.prompt(text, reviews, 0), story, room), 0, True)


def cut_story(language: LanguageModel, prompt: Callable[[str], str], story: str, room: int) -> list[int]:
    """Token ids of a prompt with as much of the story's beginning as makes it ``room`` tokens long, or a few less.

    Raises:
        InputError: if there is no room for any of it.
    """
    (ids,) = language.prefixes([prompt(story)])
    while len(ids) > room:
        story = language.without_end(story, len(ids) - room)
        if not story:
            raise InputError(
                f"{language.name}: {room} tokens are left for the prompt and the story, too few for any of it; "
                f"shorten the reviews, or take a longer context"
            )
        (ids,) = language.prefixes([prompt(story)])
    return ids


def _report(fitted: Sequence[Fitted], whole: int, language: LanguageModel, name: str) -> None:
    short = [prompt for prompt in fitted if prompt.examples < whole]
    cut = sum(prompt.cut for prompt in fitted)
    limit = f"the {language.context:,} tokens of the model" if language.context else ""
    if short:
        dropped = sum(whole - prompt.examples for prompt in short)
        log.warning(
            "%s: %d of %d prompts exceed %s: %d examples left out", name, len(short), len(fitted), limit, dropped
        )
    if cut:
        log.warning("%s: %d of %d stories exceed %s: their ends are cut", name, cut, len(fitted), limit)
