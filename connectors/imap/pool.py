"""The few connections to one account: opened when they are needed, kept, and opened anew when they were lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from catchment.errors import ItemError, SourceUnavailable
from catchment.pacing import Pace
from connectors.imap.auth import Login
from connectors.imap.errors import ResponseTooLarge
from connectors.imap.session import ImapSession
from connectors.imap.settings import ImapSettings

MOST = 2
"""Connections of a sync at once, and the watcher has a third: providers allow between four and fifteen for all programs."""

T = TypeVar("T")


class Request(Protocol):
    """Puts a question to the server, over some connection, and gives the answer; `cost`: it is so many questions in one."""

    def __call__(self, question: Callable[[ImapSession], T], *, cost: int = 1) -> T: ...


class Pool:
    """Asks questions over whichever connection is free. Safe for threads. What pickles is the settings alone."""

    def __init__(self, settings: ImapSettings, seconds: float, max_bytes: int) -> None:
        """`seconds` and `max_bytes` are those of `ImapSession`."""
        self._made_from = (settings, seconds, max_bytes)
        self.login = Login(settings)
        self._free: list[ImapSession] = []
        self._places = threading.BoundedSemaphore(MOST)

    def __reduce__(self) -> tuple[type[Pool], tuple[Any, ...]]:
        return Pool, self._made_from

    def ask(self, pace: Pace, question: Callable[[ImapSession], T], cost: int = 1) -> T:
        """The answer to a question, which is asked a second time, over a new connection, when this one was lost."""
        with self._places:
            try:
                return self._ask(pace, cost, self._any(), question)
            except SourceUnavailable:
                # Servers hang up on who was silent for long, and restart.
                self._drop_all()
            return self._ask(pace, cost, None, question)

    def connect(self) -> ImapSession:
        """A connection beside the others, for whoever keeps it and closes it."""
        return ImapSession(self.login, *self._made_from[1:])

    def close(self) -> None:
        """Log out; the next question connects again."""
        while session := self._any():
            session.close()

    def _ask(self, pace: Pace, cost: int, session: ImapSession | None, question: Callable[[ImapSession], T]) -> T:
        with pace.transfer(cost):
            session = session or self.connect()
            try:
                answer = question(session)
            except ResponseTooLarge:
                session.drop()
                raise
            except ItemError:
                self._free.append(session)
                raise
            except BaseException:
                session.drop()
                raise
            self._free.append(session)
            return answer

    def _drop_all(self) -> None:
        while session := self._any():
            session.drop()

    def _any(self) -> ImapSession | None:
        try:
            return self._free.pop()
        except IndexError:
            return None
