"""What judges are asked and what they answer, whoever runs them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any, Protocol

from carp.errors import CarpError, InputError

FORMAT = 1  # of the keys: another one forgets all cached answers


@dataclass(frozen=True)
class Sampling:
    """How answers are drawn. The paper's temperature and top-p (section 3.2); it does not say how long they may be.

    Raises:
        InputError: names the option that is out of range.
    """

    temperature: float = 1.0
    top_p: float = 0.9
    max_tokens: int = 256

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and 0 <= self.temperature <= 10):
            raise InputError(f"--temperature {self.temperature}: give a number from 0 to 10")
        if not 0 < self.top_p <= 1:
            raise InputError(f"--top-p {self.top_p}: give a number above 0, up to 1")
        if self.max_tokens < 1:
            raise InputError(f"--max-tokens {self.max_tokens}: give at least 1 token")


@dataclass(frozen=True)
class Question:
    """A query and which of the answers to it is wanted; ``seed`` is that answer's own."""

    prompt: str
    answer: int
    seed: int


@dataclass(frozen=True)
class Reply:
    """An answer as it came.

    Attributes:
        text: what the model wrote.
        finish: why it ended: ``stop``, ``length`` (cut at the limit), ``content_filter`` or another word of the server.
        prompt_tokens: of the query; ``None`` where the server does not say.
        answer_tokens: of the answer.
        model: the model by its own account, e.g. with a date.
        asked: when, in UTC: the models behind a server's names change.
    """

    text: str
    finish: str
    prompt_tokens: int | None
    answer_tokens: int | None
    model: str
    asked: str


class UnansweredError(CarpError):
    """Questions are left without an answer; ``failures`` holds each with the reason.

    ``kind`` says whether the input is at fault (``InputError``) or not.
    """

    def __init__(self, failures: Sequence[tuple[Question, str]], kind: type[CarpError] = CarpError) -> None:
        super().__init__(f"{len(failures)} questions got no answer: {failures[0][1]}")
        self.failures, self.kind = failures, kind


class Backend(Protocol):
    """Whatever runs a model.

    Attributes:
        identity: everything about it that decides about answers.
        about: the same and more, for people.
    """

    @property
    def identity(self) -> dict[str, Any]: ...

    @property
    def about(self) -> dict[str, Any]: ...

    def answer(
        self, questions: Sequence[Question], sampling: Sampling, done: Callable[[Question, Reply], None]
    ) -> None:
        """Answer all questions; ``done`` gets each answer as soon as it is there.

        Raises:
            UnansweredError: if some questions, not all, cannot be answered.
            CarpError: if there is no sense in going on.
        """
        ...


def make_question(prompt: str, answer: int, seed: int) -> Question:
    """A question whose own seed follows from the run's seed, the query and the answer's number."""
    digest = hashlib.sha256(json.dumps([seed, prompt, answer]).encode()).digest()
    return Question(prompt, answer, int.from_bytes(digest[:4], "big") >> 1)  # 31 bits: servers take no more


def question_key(identity: dict[str, Any], sampling: Sampling, question: Question) -> str:
    """What tells an answer from all others: whoever changes any of it gets another answer."""
    content = [FORMAT, identity, asdict(sampling), asdict(question)]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
