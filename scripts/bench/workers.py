"""What the benchmarks share: worker processes driven over pipes, peak memory, Markdown tables, the machine's name."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import platform
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from threading import Event
from types import FrameType
from typing import Any

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")


class WorkerError(RuntimeError):
    """A worker has failed; the message holds its traceback."""


class Worker:
    """An object in a process of its own; its methods are called from here, one at a time.

    The process is spawned, not forked, and sleeps on its pipe while it is not called, so that workers which are
    called in turn do not disturb each other and each one's peak memory is its own.

    Args:
        name: for messages.
        make: makes the object, e.g. its class; a name of a module's top level.
        *arguments: its arguments; anything that can be pickled.
    """

    def __init__(self, name: str, make: Callable[..., Any], *arguments: Any) -> None:
        self.name = name
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), name=name, daemon=True)
        self._process.start()
        theirs.close()
        self._ask(make, arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        """What ``object.method(*arguments)`` returns over there.

        Raises:
            WorkerError: if the method has failed or the process has ended, e.g. for want of memory.
        """
        return self._ask(method, arguments)

    def peak_megabytes(self) -> float:
        """See :func:`peak_megabytes`, of the worker."""
        return float(self._ask(peak_megabytes, ()))

    def reset_peak(self) -> bool:
        """See :func:`reset_peak`, of the worker."""
        return bool(self._ask(reset_peak, ()))

    def kill(self) -> None:
        """End the process, whatever it does; to be followed by :meth:`close`."""
        self._process.kill()

    def close(self) -> None:
        """End the process once it has answered, or after 30 seconds."""
        self._connection.close()
        self._process.join(timeout=30)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _ask(self, what: Any, arguments: tuple[Any, ...]) -> Any:
        try:
            # Plain pickle: multiprocessing's own would pass tensors through shared memory.
            self._connection.send_bytes(pickle.dumps((what, arguments)))
            fine, answer = pickle.loads(self._connection.recv_bytes())
        except (EOFError, OSError) as error:
            self._process.join(timeout=10)
            raise WorkerError(f"{self.name}: its process has ended, exit code {self._process.exitcode}") from error
        if not fine:
            raise WorkerError(f"{self.name}:\n{answer}")
        return answer


def _serve(connection: Connection) -> None:
    """Answer calls until the pipe is closed. The first one makes the object; functions of this module follow it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what it ends
    thing: Any = None
    while True:
        try:
            what, arguments = pickle.loads(connection.recv_bytes())
        except EOFError:
            return
        try:
            if thing is None:
                thing, answer = what(*arguments), None
            else:
                answer = getattr(thing, what)(*arguments) if isinstance(what, str) else what(*arguments)
            connection.send_bytes(pickle.dumps((True, answer)))
        except Exception:  # whatever it is, the parent raises it as a WorkerError
            connection.send_bytes(pickle.dumps((False, traceback.format_exc())))


@contextmanager
def running(makers: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, Worker]]:
    """Workers by name, ended when the context is left; each value is what to make, followed by its arguments."""
    workers: dict[str, Worker] = {}
    try:
        for name, (make, *arguments) in makers.items():
            workers[name] = Worker(name, make, *arguments)
        yield workers
    except KeyboardInterrupt:
        for worker in workers.values():
            worker.kill()
        raise
    finally:
        for worker in workers.values():
            worker.close()


def in_turn(
    workers: Mapping[str, Worker], method: str, rounds: int, between: Callable[[int], None] | None = None
) -> dict[str, list[float]]:
    """Seconds that ``method`` of each worker returns, in ``rounds`` rounds over all of them.

    Every round starts with another worker, so that none always follows the same one. ``between`` is called before
    every call, with the number of the round. Times are told on stderr as they come.

    Returns:
        One list for each worker, all equally long: ``rounds``, or after Ctrl-C, which lets the call that runs be the
        last one, as many as are whole by then. A worker that fails is not among them; it is named on stderr.
    """
    seconds: dict[str, list[float]] = {name: [] for name in workers}
    with _ctrl_c() as pressed:
        for i in range(rounds):
            alive = list(seconds)
            first = i % max(1, len(alive))
            for name in alive[first:] + alive[:first]:
                if between is not None:
                    between(i)
                if pressed.is_set():
                    return {name: found[:i] for name, found in seconds.items()}
                try:
                    seconds[name].append(workers[name].call(method))
                    print(f"round {i + 1}: {name} {seconds[name][-1]:.3g} s", file=sys.stderr, flush=True)
                except WorkerError as error:
                    print(error, file=sys.stderr, flush=True)
                    del seconds[name]
    return seconds


@contextmanager
def _ctrl_c() -> Iterator[Event]:
    """An event that Ctrl-C sets instead of interrupting; the second time it interrupts."""
    pressed = Event()
    before = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: FrameType | None) -> None:
        print("no further round: the table follows the call that runs", file=sys.stderr, flush=True)
        pressed.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, stop)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def ratio(seconds: Sequence[float], reference: Sequence[float]) -> float:
    """The median over rounds of one's seconds divided by the reference's seconds of the same round."""
    return median(a / b for a, b in zip(seconds, reference, strict=True))


def peak_megabytes() -> float:
    """The most memory that this process has had resident, in MB (2**20 bytes).

    It is the kernel's VmHWM where there is one. ``ru_maxrss`` would do elsewhere; on Linux it starts from the peak
    of the process that has spawned this one, which it would hide a small worker behind.
    """
    if STATUS.exists():
        for line in STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def reset_peak() -> bool:
    """Let the peak start again from what is resident now; false where the kernel does not do that."""
    try:
        CLEAR_REFS.write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine_line(*packages: str) -> str:
    """Date, CPU, cores, memory and versions, those of further ``packages`` too."""
    import psutil

    from carp.versions import versions

    found = versions() | {name: version(name) for name in packages}
    memory = psutil.virtual_memory().total / 2**30
    named = ", ".join(f"{name} {number}" for name, number in found.items())
    return f"{datetime.now():%Y-%m-%d %H:%M}; {_cpu_model()}, {os.cpu_count()} cores, {memory:.0f} GiB; {named}"


def _cpu_model() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
