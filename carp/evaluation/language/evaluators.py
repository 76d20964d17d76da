"""Language models as evaluators: the better a review fits, the likelier it is after the story (CARP, section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from carp.evaluation.language.fitting import fit_prompts
from carp.evaluation.language.loading import LanguageModel, check_language_model, shared_language_model
from carp.evaluation.language.prompts import FORMS, Form
from carp.evaluation.language.scoring import Floats, Request, negative_log_likelihoods
from carp.model.carp_model import checked_texts


class LanguageModelEvaluator:
    """Minus the negative log-likelihood per byte of each review, given the story.

    Args:
        name: what tables and figures call it.
        kind: ``prompt`` (appendix B.1), ``multiple-choice`` (B.2) or ``finetuned`` (4.1).
        model: a folder, a GGUF file or a Hub id of a causal language model, such as ``EleutherAI/gpt-j-6b``.

    Raises:
        InputError: if there is no such model.
    """

    def __init__(self, name: str, kind: str, model: str) -> None:
        check_language_model(model, "--evaluator")  # what is missing is said before other evaluators have worked
        self.name = name
        self._form, self._model = FORMS[kind], model

    def scores(self, stories: Sequence[str], reviews: Sequence[str], progress: bool) -> Floats:
        """Scores [n_stories, n_reviews]: minus nats per byte, at most 0."""
        language = shared_language_model(self._model, "--evaluator")
        return -nats_per_byte(language, self._form, stories, reviews, self.name, progress)


def nats_per_byte(
    language: LanguageModel, form: Form, stories: Sequence[str], reviews: Sequence[str], name: str, progress: bool
) -> Floats:
    """The negative log-likelihood of every review after every story, per byte of its answer.

    An answer's bytes are those of its UTF-8 encoding. The space before it belongs to the prompt and is not counted; its
    likelihood is that of the token which begins with it.

    Args:
        language: the model.
        form: of the prompts.
        stories: ``n`` of them.
        reviews: ``m`` of them; all are given the same prompt of a story, so that they can be compared.
        name: what messages call it all.
        progress: show a progress bar.

    Returns:
        [n, m] nats per byte.

    Raises:
        InputError: if a text is empty, or the model's context holds no story.
    """
    stories, reviews = checked_texts(stories, "story"), checked_texts(reviews, "review")
    answers = form.answers([review.strip() for review in reviews])
    continuations = language.continuations([f" {answer}" for answer in answers])
    # The last token of an answer is predicted, not read.
    longest = max(map(len, continuations)) - 1
    prompts = fit_prompts(language, form, stories, reviews, longest, name)
    found = np.zeros((len(stories), len(reviews)))
    # Prompts with the same examples share most of their tokens.
    order = sorted(range(len(stories)), key=lambda i: prompts[i].examples)
    for _, group in groupby(order, key=lambda i: prompts[i].examples):
        places = list(group)
        requests = [Request(prompts[i].ids, continuations) for i in places]
        found[places] = np.stack(negative_log_likelihoods(language.model, requests, progress=progress))
    return found / [len(answer.encode()) for answer in answers]
