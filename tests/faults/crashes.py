"""Crash points: the moments at which a process can be killed, observed without hooks in the product.

In a forked process, `listen` observes every SQLite transaction (begin, commit, progress), every job transition and
every file rename. It reports each under a readable name: the product function and the event. `lived` runs a process to
its end, or to its kill, and waits until all its children have exited.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sqlite3
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import sqlalchemy
from sqlalchemy.engine.default import DefaultDialect

from catchment.ledger.db import job_states
from catchment.ledger.db.database import Writing
from catchment.ledger.db.job_states import states
from catchment.ledger.db.schema import jobs
from catchment.model import JobState
from catchment.sync import batch

PROJECT = Path(__file__).parents[2]
ARROW = " → "
WITHIN = ("within a statement", "within a copy")
"""Moments counted in steps or pages; their number varies between runs."""

_PRODUCT = tuple(f"{PROJECT / folder}/" for folder in ("catchment", "connectors", "deployments", "console"))
_BENEATH = frozenset(
    str(PROJECT / "catchment" / "ledger" / f"{name}.py")
    for name in ("db/connections", "db/database", "db/driver_errors", "db/job_states")
)
"""Functions of the ledger that wrap every other one, and are skipped in names."""
_FILE_TRUTHS = ("replace", "rename", "link", "unlink", "mkdir", "rmdir", "fsync")
_STEPS = 2_000
"""SQLite virtual machine instructions between two moments within one statement."""
_PAGES = 8
"""Pages between two moments within a copy."""
_SECONDS = 240

Heard = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class End:
    """The result of a process: its exit code, or the negated signal that killed it, and its error output."""

    code: int
    said: str


def lived(work: Callable[[], None], note: Path, *, seconds: float | None = None) -> End:
    """Call a function in a forked process and wait for it and all its descendants. `note` is a scratch file.

    The process is killed after `seconds`, if set. A remaining orphan is an error.
    """
    note.unlink(missing_ok=True)
    near, far = os.pipe()
    # Freeze existing objects, so that garbage collection in forked processes does not copy them.
    gc.freeze()
    child = os.fork()
    if child == 0:
        os.close(near)
        code = 1
        # Each process caches what it parses, however quickly, so that equal lives have equal moments.
        batch._WORTH_STORING_SECONDS = 0.0
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - any error must reach the waiting process
            note.write_text(traceback.format_exc(), encoding="utf-8")
        finally:
            os._exit(code)
    os.close(far)
    try:
        # Every descendant inherits the other end of the pipe, even after it is reparented.
        gone = select.select([near], [], [], _SECONDS if seconds is None else seconds)[0]
        if not gone:
            os.kill(child, signal.SIGKILL)
            gone = select.select([near], [], [], _SECONDS)[0] if seconds is not None else []
    finally:
        os.close(near)
        _, status = os.waitpid(child, 0)
    assert gone, "it did not end, or left a process behind"
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return End(code, note.read_text(encoding="utf-8") if note.exists() else "")


def killing(name: str, occurrence: int) -> Heard:
    """Return a listener that kills this process with SIGKILL at occurrence `occurrence` (from 1) of the moment `name`."""
    seen: Counter[str] = Counter()

    def heard(moment: str) -> None:
        seen[moment] += 1
        if moment == name and seen[moment] == occurrence:
            os.kill(os.getpid(), signal.SIGKILL)

    return heard


def listen(heard: Heard) -> None:
    """Observe the moments of this process's main thread from now on. Only for forked processes: it cannot be undone."""
    ears = _Ears(heard, os.getpid())
    move = job_states.move
    for module in list(sys.modules.values()):
        if vars(module).get("move") is move:
            vars(module)["move"] = ears.moving(move)
    commit = DefaultDialect.do_commit

    def do_commit(dialect: DefaultDialect, connection: Any) -> None:
        # Only SQLite reports whether a transaction writes.
        writes = getattr(connection.driver_connection, "in_transaction", True)
        commit(dialect, connection)
        if writes:
            ears.hear("after commit")

    DefaultDialect.do_commit = do_commit  # type: ignore[method-assign]
    ears.connect = sqlite3.connect
    sqlite3.connect = ears.connected  # type: ignore[assignment]
    sqlite3.dbapi2.connect = ears.connected  # type: ignore[attr-defined]
    for name in _FILE_TRUTHS:
        setattr(os, name, ears.around(name, getattr(os, name)))


class _Ears:
    """Reports the moments of one process to a listener."""

    connect: Callable[..., sqlite3.Connection]

    def __init__(self, heard: Heard, process: int) -> None:
        self._heard = heard
        self._process = process

    def hear(self, what: str) -> None:
        # The moments of other threads vary from run to run.
        if os.getpid() != self._process or threading.current_thread() is not threading.main_thread():
            return
        if (where := _where(sys._getframe(1))) is not None:
            self._heard(f"{where}: {what}")

    def moving(self, move: Callable[..., Any]) -> Callable[..., Any]:
        def moved(writing: Writing, where: Any, expected: Any, to: JobState, **values: Any) -> Any:
            expected = frozenset(expected)
            before = sqlalchemy.select(jobs.c.state).where(where, states(expected)).distinct()
            found = sorted(writing.execute(before).scalars())
            rows = move(writing, where, expected, to, **values)
            for state in found:
                self.hear(f"{state}{ARROW}{to.value}")
            return rows

        return moved

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def done(*arguments: Any, **named: Any) -> Any:
            self.hear(f"before {name}")
            result = function(*arguments, **named)
            self.hear(f"after {name}")
            return result

        return done

    def connected(self, *arguments: Any, **named: Any) -> sqlite3.Connection:
        connection = self.connect(*arguments, **({"factory": self._connection()} | named))
        connection.set_trace_callback(self._statement)
        connection.set_progress_handler(self._step, _STEPS)
        return connection

    def _connection(self) -> type[sqlite3.Connection]:
        ears = self

        class Connection(sqlite3.Connection):
            def backup(self, target: sqlite3.Connection, **named: Any) -> None:
                named = {"pages": _PAGES, "progress": lambda *_: ears.hear(WITHIN[1])} | named
                super().backup(target, **named)

        return Connection

    def _statement(self, sql: str) -> None:
        words = sql.split(None, 2)[:2]
        match words[0].upper().rstrip(";") if words else "":
            case "BEGIN" if len(words) == 2:
                self.hear("begin")
            case "COMMIT":
                self.hear("before commit")
            case "VACUUM":
                self.hear("before vacuum")

    def _step(self) -> int:
        self.hear(WITHIN[0])
        return 0


def _where(frame: FrameType | None) -> str | None:
    """Return the innermost product function outside the database wrappers; None in test code."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_PRODUCT) and file not in _BENEATH:
            return f"{Path(file).stem}.{frame.f_code.co_qualname}"
        frame = frame.f_back
    return None
