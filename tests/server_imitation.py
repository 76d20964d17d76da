"""An OpenAI-compatible server on 127.0.0.1 that fails when it is told to."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "imitation-2023-01-09"
LONGEST_HANG = 20  # seconds; a client that waits for ever does not block the tests for ever


@dataclass(frozen=True)
class Failure:
    """What a request gets instead of an answer.

    Attributes:
        status: of the response.
        body: of the response.
        headers: of the response.
        cut: break the connection off after so many bytes of the body.
        hang: answer nothing until the server is released or stopped.
    """

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    cut: int | None = None
    hang: bool = False


def error(status: int, code: str | None = None, message: str = "no", **headers: str) -> Failure:
    """An error in OpenAI's format; ``retry_after`` becomes a header."""
    body = {"error": {"message": message, "code": code, "type": "imitated", "param": None}}
    return Failure(status, json.dumps(body).encode(), tuple((k.replace("_", "-"), v) for k, v in headers.items()))


HANG = Failure(hang=True)
CUT = Failure(body=b'{"choices": [{"message": {"content": "4"}}]}', cut=12)
NOT_JSON = Failure(body=b"<html>Bad gateway</html>")
NO_CHOICE = Failure(body=b'{"choices": []}')
WRONG_TYPES = Failure(body=b'{"choices": [{"message": "4"}]}')


@dataclass(frozen=True)
class Asked:
    """A request: when it came, what it asked, and whether its answer left whole."""

    time: float
    body: dict[str, Any]
    key: tuple[str, int]  # query and seed
    authorization: str
    answered: bool


@dataclass
class ServerImitation:
    """Answers ``POST /v1/chat/completions``.

    Attributes:
        failures: what the next requests get, one each; ``None`` is an answer.
        answer: the text for a query and a seed.
        delay: seconds that an answer takes.
        usage: whether answers carry numbers of tokens.
    """

    failures: list[Failure | None] = field(default_factory=list)
    answer: Callable[[str, int], str] = lambda prompt, seed: f"I rate it {1 + seed % 5}."
    delay: float = 0.0
    usage: bool = True

    def __post_init__(self) -> None:
        self.requests: list[Asked] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        """Refuse connections from now on."""
        self._released.set()
        self._server.shutdown()
        self._server.server_close()

    def answered(self) -> Counter[tuple[str, int]]:
        """How often each question has been answered."""
        return Counter(asked.key for asked in self.requests if asked.answered)

    def respond(self, body: dict[str, Any], authorization: str) -> Failure:
        """What goes out for one request."""
        came = time.monotonic()
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            failure = self.failures.pop(0) if self.failures else None
        key = body["messages"][-1]["content"], body["seed"]
        if failure is not None and failure.hang:
            self._released.wait(LONGEST_HANG)
        if failure is None:
            time.sleep(self.delay)
        with self._lock:
            self._at_once -= 1
            self.requests.append(Asked(came, body, key, authorization, failure is None))
        return failure or Failure(body=json.dumps(self._completion(*key)).encode())

    def _completion(self, prompt: str, seed: int) -> dict[str, Any]:
        message = {"role": "assistant", "content": self.answer(prompt, seed)}
        completion = {"model": MODEL, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        tokens = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        return completion | ({"usage": tokens} if self.usage else {})


def _handler(server: ServerImitation) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != "/v1/chat/completions":
                self.send(error(404, message=f"no route {self.path}"))
                return
            self.send(server.respond(body, self.headers["Authorization"] or ""))

        def send(self, response: Failure) -> None:
            self.close_connection = True
            if response.hang:
                return
            self.send_response(response.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(response.body)))
            for name, value in response.headers:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(response.body[: response.cut])

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the tests' output free of an access log."""

    return Handler
