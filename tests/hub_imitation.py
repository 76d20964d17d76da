"""A small Hugging Face Hub on 127.0.0.1, and the client process that the tests send to it.

Run as a script, this file is that client: ``HF_ENDPOINT`` is read when huggingface_hub is imported, so the
process of the tests, which is offline, cannot be it. It reads one step per line and answers each with a line,
which also says how many seconds it wanted to wait.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

Files = dict[str, bytes]
TOKEN = "dummy"
PASSAGES = ["The ship sailed at dawn.", "Nobody saw him leave, and nobody asked where he had been."]
CRITIQUES = ["This kind of drags on.", "Show, don't tell!", "Lovely."]
PAUSE_SHARE = 0.02  # of the time that the client wants to wait before it tries again
CHUNK = 1024  # bytes that the client writes at a time: what a cut leaves of a small file can be resumed
STEP_SECONDS = 90


# -- the Hub ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """What the client asked, and the status that it got."""

    method: str
    path: str
    range: str | None
    authorization: str | None
    body: bytes
    status: int


@dataclass
class Answer:
    """What goes back to the client; ``sent`` below the body's length is a connection cut there."""

    body: bytes = b""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    sent: int | None = None


@dataclass
class Cut:
    """Where downloads of one file break off, and how many more of them (``None``: all)."""

    at: int
    times: int | None


class Refusal(Exception):
    """An error that the Hub answers with ``X-Error-Code``."""

    def __init__(self, code: str, status: int = 404) -> None:
        super().__init__(code)
        self.answer = Answer(json_body({"error": code}), status, (("X-Error-Code", code),))


class HubImitation:
    """Serves ``repositories`` ({repo_id: {revision: {path: bytes}}}) until ``stop``."""

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, Files]] = {}
        self.requests: list[Request] = []
        self._cuts: dict[tuple[str, str], Cut] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler_for(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        """Refuse connections from now on."""
        self._server.shutdown()
        self._server.server_close()

    def cut(self, repo: str, path: str, at: int, times: int | None = 1) -> None:
        """Break off downloads of a file after its first ``at`` bytes, ``times`` of them or all."""
        self._cuts[repo, path] = Cut(at, times)

    def heal(self) -> None:
        """Cut nothing any more."""
        self._cuts.clear()

    def asked(self, method: str, pattern: str) -> list[Request]:
        """The recorded requests of one method whose path matches a regular expression from its beginning."""
        return [asked for asked in self.requests if asked.method == method and re.match(pattern, asked.path)]

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        """Find the route, answer and record; a route that nobody has written is a bare 404."""
        answer = Answer(status=404)
        for pattern, respond in ROUTES:
            if match := re.fullmatch(pattern, f"{method} {urlsplit(path).path}"):
                parts = {name: unquote(part or "") for name, part in match.groupdict().items()}
                try:
                    if method == "POST" and headers["authorization"] != f"Bearer {TOKEN}":
                        raise Refusal("Unauthorized", 401)
                    answer = respond(self, Call(method, headers, body, **parts))
                except Refusal as refusal:
                    answer = refusal.answer
                break
        request = Request(method, path, headers["range"], headers["authorization"], body, answer.status)
        self.requests.append(request)
        return answer

    def files(self, repo: str, revision: str) -> Files:
        """The files of a revision, which is a name or a commit."""
        if repo not in self.repositories:
            raise Refusal("RepoNotFound")
        for name, files in self.repositories[repo].items():
            if revision in (name, commit_of(repo, files)):
                return files
        raise Refusal("RevisionNotFound")

    def bytes_to_send(self, call: Call, start: int, length: int) -> int | None:
        """How much of ``length`` bytes from ``start`` leaves before the cut; ``None`` without one."""
        cut = self._cuts.get((call.repo, call.path))
        if call.method == "HEAD" or cut is None or cut.times == 0 or start + length <= cut.at:
            return None
        if cut.times is not None:
            cut.times -= 1
        return max(0, cut.at - start)


@dataclass
class Call:
    """The parts of one request that the routes read."""

    method: str
    headers: Any
    body: bytes
    repo: str = ""
    revision: str = ""
    path: str = ""


def show_repository(hub: HubImitation, call: Call) -> Answer:
    revision = call.revision or "main"
    files = hub.files(call.repo, revision)
    siblings = [{"rfilename": path} for path in sorted(files)]
    return json_answer(
        {
            "id": call.repo,
            "sha": commit_of(call.repo, files),
            "private": False,
            "siblings": siblings,
            "tags": [],
        }
    )


def show_tree(hub: HubImitation, call: Call) -> Answer:
    prefix = f"{call.path}/" if call.path else ""
    files = hub.files(call.repo, call.revision)
    found = [entry(path, content) for path, content in sorted(files.items()) if path.startswith(prefix)]
    if not found and prefix:
        raise Refusal("EntryNotFound")
    return json_answer(found)


def show_file(hub: HubImitation, call: Call) -> Answer:
    """A file or, where the client asks for a range, the rest of it."""
    files = hub.files(call.repo, call.revision)
    commit = ("X-Repo-Commit", commit_of(call.repo, files))
    if call.path not in files:
        refusal = Refusal("EntryNotFound")
        refusal.answer.headers += (commit,)
        raise refusal
    content = files[call.path]
    headers = (commit, ("ETag", f'"{blob_of(content)}"'), ("Accept-Ranges", "bytes"))
    asked = re.fullmatch(r"bytes=(\d+)-(\d*)", call.headers["range"] or "")
    if not asked:
        return Answer(content, 200, headers, hub.bytes_to_send(call, 0, len(content)))
    start, end = int(asked[1]), min(int(asked[2] or len(content) - 1), len(content) - 1)
    if start > end:
        return Answer(status=416, headers=(("Content-Range", f"bytes */{len(content)}"),))
    span = ("Content-Range", f"bytes {start}-{end}/{len(content)}")
    sent = hub.bytes_to_send(call, start, end + 1 - start)
    return Answer(content[start : end + 1], 206, (*headers, span), sent)


def show_paths(hub: HubImitation, call: Call) -> Answer:
    files = hub.files(call.repo, call.revision)
    wanted = json.loads(call.body)["paths"]
    return json_answer([entry(path, files[path]) for path in wanted if path in files])


def create_repository(hub: HubImitation, call: Call) -> Answer:
    asked = json.loads(call.body)
    repo = f"{asked['organization']}/{asked['name']}"
    status = 409 if repo in hub.repositories else 200
    hub.repositories.setdefault(repo, {"main": {}})
    return Answer(json_body({"url": f"{hub.url}/{repo}"}), status)


def create_branch(hub: HubImitation, call: Call) -> Answer:
    files = hub.files(call.repo, "main")
    if call.revision in hub.repositories[call.repo]:
        raise Refusal("BranchExists", 409)
    hub.repositories[call.repo][call.revision] = dict(files)
    return json_answer({})


def plan_upload(hub: HubImitation, call: Call) -> Answer:
    """Every file travels within the commit; what is there already comes with its blob, as on the Hub."""
    files = hub.files(call.repo, call.revision)
    plan = [
        {"path": path, "uploadMode": "regular", "shouldIgnore": False}
        | ({"oid": blob_of(files[path])} if path in files else {})
        for path in (file["path"] for file in json.loads(call.body)["files"])
    ]
    return json_answer({"files": plan})


def commit(hub: HubImitation, call: Call) -> Answer:
    files = dict(hub.files(call.repo, call.revision))
    for line in call.body.splitlines():
        item = json.loads(line)
        if item["key"] == "file":
            files[item["value"]["path"]] = base64.b64decode(item["value"]["content"])
        elif item["key"] == "deletedFile":
            files.pop(item["value"]["path"])
        elif item["key"] != "header":
            return Answer(status=400)
    hub.repositories[call.repo][call.revision] = files
    made = commit_of(call.repo, files)
    return json_answer({"success": True, "commitOid": made, "commitUrl": f"{hub.url}/{call.repo}/commit/{made}"})


def approve_card(hub: HubImitation, call: Call) -> Answer:
    return json_answer({"errors": [], "warnings": []})


def show_user(hub: HubImitation, call: Call) -> Answer:
    return json_answer({"type": "user", "name": "org", "orgs": [], "auth": {"type": "access_token"}})


REPO = "(?P<repo>[^/]+/[^/]+)"
REVISION = "(?P<revision>[^/]+)"
ROUTES: list[tuple[str, Callable[[HubImitation, Call], Answer]]] = [
    (f"GET /api/models/{REPO}(/revision/{REVISION})?", show_repository),
    (f"GET /api/models/{REPO}/tree/{REVISION}(/(?P<path>.+))?", show_tree),
    (f"POST /api/models/{REPO}/paths-info/{REVISION}", show_paths),
    (f"POST /api/models/{REPO}/preupload/{REVISION}", plan_upload),
    (f"POST /api/models/{REPO}/commit/{REVISION}", commit),
    (f"POST /api/models/{REPO}/branch/{REVISION}", create_branch),
    ("POST /api/repos/create", create_repository),
    ("POST /api/validate-yaml", approve_card),
    ("GET /api/whoami-v2", show_user),
    (f"(GET|HEAD) /{REPO}/resolve/{REVISION}/(?P<path>.+)", show_file),
]


def handler_for(hub: HubImitation) -> type[BaseHTTPRequestHandler]:
    """The http.server side: reads a request whole, writes what the Hub answers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            answer = hub.answer(self.command, self.path, self.headers, body)
            self.send_response(answer.status)
            for name, value in answer.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.send_header("Connection", "close")  # a stopped Hub then answers nobody
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body[: answer.sent])

        do_GET = do_HEAD = do_POST = respond

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the tests' output free of an access log."""

    return Handler


def json_body(content: Any) -> bytes:
    return json.dumps(content).encode()


def json_answer(content: Any) -> Answer:
    return Answer(json_body(content), headers=(("Content-Type", "application/json"),))


def entry(path: str, content: bytes) -> dict[str, Any]:
    return {"type": "file", "path": path, "size": len(content), "oid": blob_of(content)}


def blob_of(content: bytes) -> str:
    """Git's name of a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def commit_of(repo: str, files: Files) -> str:
    """A commit's name: another one whenever the files differ."""
    state = repr((repo, sorted((path, blob_of(content)) for path, content in files.items())))
    return hashlib.sha1(state.encode()).hexdigest()


# -- the client, as seen by the tests -----------------------------------------------------------------


class Client:
    """A process with its own Hub settings, in which carp loads, pushes and scores."""

    def __init__(self, endpoint: str, home: Path, *, offline: bool = False, token: str | None = TOKEN) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.cache = home / "hub"
        self._log = home / f"client-{id(self)}.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, __file__],
                env=client_environment(endpoint, home, offline, token),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def load(self, name: str, **options: Any) -> dict[str, Any]:
        """Embeddings of ``PASSAGES`` and ``CRITIQUES``, or ``error`` and ``message``."""
        return self._ask("load", [name], options)

    def push_model(self, folder: Path, repo: str, **options: Any) -> dict[str, Any]:
        """``model.push_to_hub``: its ``address``, or ``error`` and ``message``."""
        return self._ask("push_model", [str(folder), repo], options)

    def carp(self, *arguments: object) -> dict[str, Any]:
        """The ``carp`` command: its ``code``, ``out`` and ``err``."""
        return self._ask("command", [str(argument) for argument in arguments], {})

    def _ask(self, step: str, arguments: list[str], options: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watch = threading.Timer(STEP_SECONDS, self._process.kill)
        watch.start()
        with contextlib.suppress(BrokenPipeError):  # a dead client: the log below says why
            print(json.dumps([step, arguments, options]), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        watch.cancel()
        if not line:
            raise AssertionError(f"the client died or hung in {step} {arguments}:\n{self._log.read_text()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def client_environment(endpoint: str, home: Path, offline: bool, token: str | None = TOKEN) -> dict[str, str]:
    """The settings of a client process; nothing of this machine's own Hub settings gets through."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING", "TRANSFORM"))}
    settings = {
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(home),
        "HF_HUB_OFFLINE": str(int(offline)),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "NO_PROXY": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
    }
    return kept | settings | ({"HF_TOKEN": token} if token else {})


# -- the client process -------------------------------------------------------------------------------


def load_step(name: str, **options: Any) -> dict[str, Any]:
    from carp import CarpModel

    model = CarpModel.from_pretrained(name, **options)
    return {
        "passages": model.encode_passages(PASSAGES).tolist(),
        "critiques": model.encode_critiques(CRITIQUES).tolist(),
    }


def push_model_step(folder: str, repo: str, **options: Any) -> dict[str, Any]:
    from carp import CarpModel

    return {"address": CarpModel.from_pretrained(folder).push_to_hub(repo, **options)}


def command_step(*arguments: str) -> dict[str, Any]:
    """The command in this process; what would end a real one with a traceback, does so here in ``err``."""
    from carp.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    sys.argv = ["carp", *arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code or 0
        except Exception:
            code = 1
            traceback.print_exc()
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


def shortened_waits() -> list[float]:
    """Let nobody in this process sleep for long; the list collects the seconds that they wanted to."""
    waits: list[float] = []
    sleep = time.sleep

    def shortened(seconds: float) -> None:
        waits.append(seconds)
        sleep(seconds * PAUSE_SHARE)

    time.sleep = shortened
    return waits


def run_client() -> None:
    """Answer the steps that come in, until there are no more."""
    from huggingface_hub import constants

    constants.DOWNLOAD_CHUNK_SIZE = CHUNK
    waits = shortened_waits()
    steps = {"load": load_step, "push_model": push_model_step, "command": command_step}
    for line in sys.stdin:
        step, arguments, options = json.loads(line)
        waits.clear()
        try:
            with contextlib.redirect_stdout(sys.stderr):
                answer = steps[step](*arguments, **options)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": type(error).__name__, "message": str(error)}
        print(json.dumps(answer | {"waited": sum(waits)}), flush=True)


if __name__ == "__main__":
    run_client()
