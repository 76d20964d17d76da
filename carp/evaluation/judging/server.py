"""Judges behind an OpenAI-compatible server (OpenAI, vLLM, Ollama, llama.cpp), many questions at a time.

1. ``concurrency`` workers take the questions one by one. An answer goes to ``done`` as soon as it is there.
2. What may pass (429, 5xx, time-outs, cut connections, answers in an unknown format) is tried again after a pause that
   doubles. A server that says how long to wait (Retry-After) is obeyed by all workers.
3. What will not pass (a wrong key, no such model, a quota used up) stops the run; requests under way may finish. A
   question that alone fails is left, and the run ends with an error that names it.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from carp.errors import CarpError, InputError
from carp.evaluation.judging.asking import Question, Reply, Sampling, UnansweredError
from carp.evaluation.judging.protocol import KEY, FailedError, PassingError, checked_url, read_error, read_reply

if TYPE_CHECKING:
    from openai import AsyncOpenAI

TRIES = 8
TRIES_TO_REACH = 3  # of a server that has never answered
MAX_WAITS = 100  # that the server asks for before it answers a question
LONGEST_PAUSE = 60.0
LONGEST_WAIT = 600.0  # that a server may ask for
GIVE_UP = 8  # questions in a row that fail

Done = Callable[[Question, Reply], None]


@dataclass(frozen=True)
class ServerOptions:
    """How a server is used.

    Attributes:
        concurrency: requests at a time.
        timeout: seconds for an answer.
        first_pause: seconds before the second try; doubled before every other one.

    Raises:
        InputError: names the option that is out of range.
    """

    concurrency: int = 8
    timeout: float = 120.0
    first_pause: float = 1.0

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise InputError(f"--concurrency {self.concurrency}: give at least 1 request at a time")
        if not self.timeout > 0:
            raise InputError(f"--timeout {self.timeout}: give seconds above 0")


class ServerBackend:
    """A model behind a server.

    Args:
        url: e.g. ``http://127.0.0.1:8000/v1``. The key, where one is needed, is in the environment: ``OPENAI_API_KEY``.
        model: by the server's name for it.
        options: how it is used.

    Raises:
        InputError: if the URL is none or holds a password, or the openai library is missing.
    """

    def __init__(self, url: str, model: str, options: ServerOptions = ServerOptions()) -> None:
        self._url, self._model, self._options = checked_url(url), model, options
        self._key = os.environ.get(KEY, "")
        _openai()  # what is missing is said before stories are read

    @property
    def identity(self) -> dict[str, Any]:
        return {"backend": "server", "server": self._url, "model": self._model}

    @property
    def about(self) -> dict[str, Any]:
        return self.identity

    def answer(self, questions: Sequence[Question], sampling: Sampling, done: Done) -> None:
        """See :class:`~carp.evaluation.judging.asking.Backend`."""
        asyncio.run(self._answer_all(questions, sampling, done))

    async def _answer_all(self, questions: Sequence[Question], sampling: Sampling, done: Done) -> None:
        client = _openai().AsyncOpenAI(
            base_url=self._url, api_key=self._key or "none", max_retries=0, timeout=self._options.timeout
        )
        async with client:
            run, queue = _Run(client, self._url, self._model, sampling, self._options), iter(questions)
            workers = min(self._options.concurrency, len(questions))
            tasks = [asyncio.create_task(run.work(queue, done)) for _ in range(workers)]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        if run.stopped_by is not None:
            raise type(run.stopped_by)(self._without_key(str(run.stopped_by)))
        if run.failures:
            raise UnansweredError([(question, self._without_key(reason)) for question, reason in run.failures])

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text


class _Run:
    """The state that the workers of one run share; they run in one thread."""

    def __init__(self, client: AsyncOpenAI, url: str, model: str, sampling: Sampling, options: ServerOptions) -> None:
        self._client, self._url, self._model = client, url, model
        self._sampling, self._options = sampling, options
        self._open_at = 0.0  # no request before this time (time.monotonic)
        self._reached = False
        self._failed_in_a_row = 0
        self._stopping = asyncio.Event()
        self._random = random.Random()  # spreads pauses; decides about no answer
        self.stopped_by: CarpError | None = None
        self.failures: list[tuple[Question, str]] = []

    async def work(self, queue: Iterator[Question], done: Done) -> None:
        """Answer questions of a queue that other workers empty too."""
        for question in queue:
            try:
                reply = await self._ask(question)
            except CarpError as error:
                self._stop(error)
            except FailedError as error:
                self.failures.append((question, str(error)))
                self._failed_in_a_row += 1
                if self._failed_in_a_row >= GIVE_UP:
                    self._stop(CarpError(f"{GIVE_UP} questions in a row got no answer: {error}"))
            else:
                self._failed_in_a_row = 0
                done(question, reply)
            if self.stopped_by is not None:
                return

    def _stop(self, reason: CarpError) -> None:
        self.stopped_by = self.stopped_by or reason
        self._stopping.set()

    async def _ask(self, question: Question) -> Reply:
        tries = waits = 0
        while True:
            while (left := self._open_at - time.monotonic()) > 0:
                await self._sleep(left)
            try:
                return await self._request(question)
            except PassingError as failure:
                waits += failure.wait is not None
                tries += failure.wait is None
                if not (failure.reached or self._reached) and tries == TRIES_TO_REACH:
                    raise InputError(f"--server {self._url}: cannot be reached ({failure}); is it running?") from None
                if tries == TRIES or waits == MAX_WAITS:
                    raise FailedError(f"{failure}, {tries + waits} times") from None
                await self._pause(tries, failure.wait)

    async def _pause(self, tries: int, wait: float | None) -> None:
        if wait is None:
            longest = min(self._options.first_pause * 2 ** (tries - 1), LONGEST_PAUSE)
            await self._sleep(longest * self._random.uniform(0.5, 1))
        elif wait > LONGEST_WAIT:
            raise CarpError(f"the server asks to wait for {wait:.0f} seconds; the same command continues then")
        else:
            self._open_at = max(self._open_at, time.monotonic() + wait)

    async def _sleep(self, seconds: float) -> None:
        """Wait; no longer than until the run stops, and then raise what stops it."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
        if self.stopped_by is not None:
            raise self.stopped_by

    async def _request(self, question: Question) -> Reply:
        openai = _openai()
        try:
            response = await asyncio.wait_for(self._create(question), self._options.timeout)
        except openai.APIStatusError as error:
            self._reached = True
            return read_error(error, self._model)
        except (openai.APITimeoutError, asyncio.TimeoutError):
            raise PassingError(f"no answer within {self._options.timeout:g} seconds") from None
        except openai.APIConnectionError as error:
            raise PassingError(f"{error} {error.__cause__ or ''}".strip(), reached=False) from None
        self._reached = True
        return read_reply(response.content)

    async def _create(self, question: Question) -> Any:
        # OpenAI's own server takes the older name for old models only, all others know the older one.
        limit = "max_completion_tokens" if urlsplit(self._url).hostname == "api.openai.com" else "max_tokens"
        arguments: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": "user", "content": question.prompt}],
            "temperature": self._sampling.temperature,
            "top_p": self._sampling.top_p,
            "seed": question.seed,
            limit: self._sampling.max_tokens,
        }
        return await self._client.chat.completions.with_raw_response.create(**arguments)


def _openai() -> Any:
    try:
        import openai
    except ImportError as error:
        raise InputError("--server needs the openai library: pip install 'carp-critic[eval]'") from error
    return openai
