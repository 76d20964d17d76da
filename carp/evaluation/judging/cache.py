"""Answers on disk: each is there for good as soon as it has come, so that no question is asked twice."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from carp.errors import InputError
from carp.evaluation.judging.asking import Reply

CACHE = "~/.cache/carp/judge.sqlite"


class AnswerCache:
    """Replies by their keys, in an SQLite file.

    Every reply is a transaction of its own, on the disk when :meth:`put` returns: a process that is killed loses the
    answers that were under way, no others. Several processes may share a file.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def get(self, key: str) -> Reply | None:
        """The reply to a question, if it has been asked."""
        row = self._connection.execute("SELECT reply FROM answers WHERE key = ?", (key,)).fetchone()
        return None if row is None else Reply(**json.loads(row[0]))

    def put(self, key: str, reply: Reply) -> None:
        """Keep a reply; the first one of a key stays."""
        text = json.dumps(asdict(reply), ensure_ascii=False)
        with self._connection:
            self._connection.execute("INSERT OR IGNORE INTO answers VALUES (?, ?)", (key, text))


@contextmanager
def answer_cache(path: str | Path = CACHE) -> Iterator[AnswerCache]:
    """Open a cache, or make one.

    Raises:
        InputError: if the file is something else, or cannot be written.
    """
    file = Path(path).expanduser()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(file, timeout=60)
    except (OSError, sqlite3.Error) as error:
        raise InputError(f"--cache {path}: cannot be opened ({error}); name another file") from error
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, reply TEXT NOT NULL)")
        yield AnswerCache(connection)
    except sqlite3.Error as error:
        raise InputError(f"--cache {path}: not a cache of answers ({error}); name another file") from error
    finally:
        connection.close()
