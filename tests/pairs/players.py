"""Players: processes that play one act each, and can be held at one of its steps, continued or killed.

The steps of an act are the moments of `tests.faults.crashes`: the begin and end of each transaction, each transition of a
job, each file that is renamed or flushed. They are counted from 1. A held player keeps its transactions and locks.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from catchment.errors import (
    HomeUnavailable,
    LedgerUnavailable,
    SinkUnavailable,
    StaleLease,
    Stopped,
    UserError,
)
from catchment.ledger.db import connections, vacuum
from catchment.ledger.items import backfills, purge, undo
from catchment.sync import discovery, revoke
from catchment.sync.shared import use_pool
from tests.engine.whole import InProcess
from tests.faults.crashes import WITHIN, listen

_REFUSALS = (UserError, Stopped, StaleLease, LedgerUnavailable, HomeUnavailable, SinkUnavailable)
_LONGEST_SECONDS = 180.0
_HELD, _REFUSED = b"h", b"r"
_GO, _AGAIN, _END = b"g", b"a", b"e"


class Fate(StrEnum):
    """How the process of an act ended."""

    DONE = "done"
    REFUSED = "refused"
    BROKEN = "broken"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of an act. `error`: the class of its refusal; `text`: its message, or the traceback of a defect."""

    fate: Fate
    error: str = ""
    text: str = ""


class Player:
    """A forked process that performs `work`. With `hold`, it stops at this step until `go_on`.

    A process that was refused keeps running, as the web process and the runner do, and can repeat the act.
    """

    def __init__(self, work: Callable[[], None], note: Path, hold: int | None = None) -> None:
        note.unlink(missing_ok=True)
        self._note = note
        self._heard, tell = os.pipe()
        wait, self._orders = os.pipe()
        # Freeze existing objects, so that garbage collection in forked processes does not copy them.
        gc.freeze()
        self._pid = os.fork()
        if self._pid == 0:
            _become(work, note, hold, tell, wait)
        os.close(tell)
        os.close(wait)
        self._answer: Answer | None = None

    def is_held(self, seconds: float = _LONGEST_SECONDS) -> bool:
        """Wait until the process is held or has answered. Return whether it is held; False also after `seconds`."""
        event = self._next(seconds)
        if event is not None:
            self._take(event)
        return event == _HELD

    def go_on(self) -> None:
        """Let the process continue, or pass its step without being held."""
        self._order(_GO)

    def kill(self) -> None:
        """Send SIGKILL to the process."""
        os.kill(self._pid, signal.SIGKILL)

    def answers_within(self, seconds: float) -> bool:
        """Wait for the answer for at most `seconds`. Return whether it has arrived."""
        end = time.monotonic() + seconds
        while self._answer is None and (event := self._next(max(0.0, end - time.monotonic()))) is not None:
            self._take(event)
        return self._answer is not None

    def answer(self) -> Answer:
        """Wait for the answer and return it. A process that does not answer is broken."""
        if not self.answers_within(_LONGEST_SECONDS):
            self.kill()
            self.answers_within(_LONGEST_SECONDS)
            return Answer(Fate.BROKEN, "Hang", "it did not end")
        assert self._answer is not None
        return self._answer

    def again(self) -> Answer:
        """Let the refused process try again."""
        self._answer = None
        self._order(_AGAIN)
        return self.answer()

    def close(self) -> None:
        """End a refused process."""
        if self._answer is not None and self._answer.fate is Fate.REFUSED:
            self._order(_END)
            os.waitpid(self._pid, 0)
        os.close(self._heard)
        os.close(self._orders)

    def _take(self, event: bytes) -> None:
        if event == _REFUSED:
            self._answer = self._noted()
        elif not event:
            _, status = os.waitpid(self._pid, 0)
            self._answer = Answer(Fate.KILLED) if os.WIFSIGNALED(status) else self._noted()

    def _next(self, seconds: float) -> bytes | None:
        """Return the next event of the process, b"" at its end; None after `seconds`."""
        if not select.select([self._heard], [], [], seconds)[0]:
            return None
        return os.read(self._heard, 1)

    def _order(self, order: bytes) -> None:
        with suppress(BrokenPipeError):
            os.write(self._orders, order)

    def _noted(self) -> Answer:
        fate, error, text = json.loads(self._note.read_text(encoding="utf-8"))
        return Answer(Fate(fate), error, text)


def _become(work: Callable[[], None], note: Path, hold: int | None, tell: int, wait: int) -> NoReturn:
    try:
        # Its output is not looked at.
        sys.stdout = sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the end
        _hurry()
        # A real pool takes a second of processor time to start, and its kills are tested elsewhere.
        use_pool(InProcess())
        gate = _Gate(hold, tell, wait)
        if hold is not None:
            listen(gate.pass_by)
        while True:
            answer = _performed(work)
            note.write_text(json.dumps([answer.fate, answer.error, answer.text]), encoding="utf-8")
            if answer.fate is not Fate.REFUSED:
                break
            os.write(tell, _REFUSED)
            while (order := os.read(wait, 1)) == _GO:
                pass
            if order != _AGAIN:
                break
            gate.step = None
    finally:
        os._exit(0)


def _performed(work: Callable[[], None]) -> Answer:
    try:
        work()
    except _REFUSALS as error:
        is_line = "\n" not in str(error)
        return Answer(Fate.REFUSED if is_line else Fate.BROKEN, type(error).__name__, str(error))
    except BaseException as error:  # noqa: BLE001 - any error must reach the waiting process
        return Answer(Fate.BROKEN, type(error).__name__, traceback.format_exc())
    return Answer(Fate.DONE)


def _hurry() -> None:
    """Let this process wait briefly for the other one, and let its acts have several transactions each."""
    changes: tuple[tuple[object, str, object], ...] = (
        (connections, "LOCK_WAIT_SECONDS", 0.4),
        (revoke, "_SYNC_ENDS_SECONDS", 0.4),
        (vacuum, "_LOG_SECONDS", 0.4),
        (undo, "_ROWS_AT_ONCE", 3),
        (purge, "_ITEMS_AT_ONCE", 5),
        (backfills, "_AT_ONCE", 4),
        (discovery, "_FLUSH", 3),
        # A kill preserves written data, and this would wait for all disks of the machine.
        (os, "sync", lambda: None),
    )
    for module, name, value in changes:
        assert hasattr(module, name), name
        setattr(module, name, value)


def is_step(moment: str) -> bool:
    """Return whether a moment is a step: its number does not vary, and it is not the creation of a folder that exists."""
    return not moment.endswith(WITHIN) and not moment.startswith("home.Home.make:")


class _Gate:
    """Stops this process at a step, once, until the order to continue."""

    def __init__(self, step: int | None, tell: int, wait: int) -> None:
        self.step = step
        self._tell = tell
        self._wait = wait
        self._number = 0

    def pass_by(self, moment: str) -> None:
        """Count a moment, and stop if it is the step."""
        if not is_step(moment):
            return
        self._number += 1
        if self._number == self.step:
            os.write(self._tell, _HELD)
            os.read(self._wait, 1)
