"""What OpenAI-compatible servers send: answers, checked, and errors, by what they mean for a run."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError

from carp.errors import CarpError, InputError
from carp.evaluation.judging.asking import Reply, now

if TYPE_CHECKING:
    from openai import APIStatusError

KEY = "OPENAI_API_KEY"
PASSING = (408, 409, 429)  # and 5xx
REFUSALS = ("content_filter", "content_policy_violation")


class PassingError(Exception):
    """A failure that may pass; ``wait`` is what the server asks for, in seconds; ``reached``: it was there at all."""

    def __init__(self, reason: str, wait: float | None = None, reached: bool = True) -> None:
        super().__init__(reason)
        self.wait, self.reached = wait, reached


class FailedError(Exception):
    """A question that gets no answer, however often it is asked."""


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None
    model: str | None = None


def read_reply(body: bytes) -> Reply:
    """The answer in a chat completion.

    Raises:
        PassingError: if the body is no chat completion.
    """
    try:
        completion = _Completion.model_validate_json(body)
    except ValidationError as error:
        raise PassingError(f"an answer in an unknown format ({error.errors()[0]['msg']})") from None
    choice, usage = completion.choices[0], completion.usage or _Usage()
    message = choice.message
    return Reply(
        text=message.content or message.refusal or "",
        finish="content_filter" if message.refusal and not message.content else choice.finish_reason or "stop",
        prompt_tokens=usage.prompt_tokens,
        answer_tokens=usage.completion_tokens,
        model=completion.model or "",
        asked=now(),
    )


def read_error(error: APIStatusError, model: str) -> Reply:
    """What an error means: a refusal of this story, or the exception that is raised.

    Raises:
        PassingError: if the same request may succeed later.
        FailedError: if this request cannot succeed; others can.
        CarpError: if no request can.
    """
    status, reason = error.status_code, f"{error.status_code}: {' '.join(str(error).split())[:300]}"
    if error.code in REFUSALS:
        return Reply("", "content_filter", None, None, "", now())
    if status in (401, 403):
        raise InputError(f"the server refuses the key ({reason}); set {KEY}")
    if status == 404:
        raise InputError(f"the server knows no model {model!r} under this URL, which often ends in /v1 ({reason})")
    if error.code == "insufficient_quota":
        raise CarpError(f"the quota is used up ({reason}); the same command continues")
    if status in PASSING or status >= 500:
        raise PassingError(reason, retry_after(error.response.headers))
    raise FailedError(reason)


def retry_after(headers: Any) -> float | None:
    """The seconds that a server asks to wait, by Retry-After: a number or a date; ``None`` if it does not."""
    text = headers.get("retry-after", "")
    try:
        wait = float(text)
    except ValueError:
        try:
            wait = parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError):
            return None
    return wait if wait > 0 else None


def checked_url(url: str) -> str:
    """A server's address.

    Raises:
        InputError: if it is none, or holds a password, which outputs would show.
    """
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise InputError(f"--server {url}: give an address such as http://127.0.0.1:8000/v1")
    if parts.username or parts.password or parts.query:
        raise InputError(f"--server: outputs would show what the address holds; put the key into {KEY}")
    return url.rstrip("/")
