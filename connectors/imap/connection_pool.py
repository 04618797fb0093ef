"""A small pool of connections to one account: opened on demand, reused, and replaced when lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from catchment.errors import ItemError, SourceUnavailable
from catchment.pacing import Pace
from connectors.imap.auth import Login
from connectors.imap.connection import ImapSession
from connectors.imap.errors import ResponseTooLarge
from connectors.imap.settings import ImapSettings

MOST = 2
"""Connections of one sync; the watcher uses one more. Providers allow 4 to 15 connections for all programs together."""

T = TypeVar("T")


class Pool:
    """Runs operations on idle connections. Thread-safe."""

    def __init__(self, settings: ImapSettings, pace: Callable[[], Pace], seconds: float, max_bytes: int) -> None:
        """`pace` returns the current pace; `seconds` and `max_bytes` as for `ImapSession`."""
        self.login = Login(settings)
        self._pace = pace
        self._limits = (seconds, max_bytes)
        self._idle: list[ImapSession] = []
        self._slots = threading.BoundedSemaphore(MOST)

    def request(self, operation: Callable[[ImapSession], T], *, cost: int = 1) -> T:
        """Run an operation; retry it once on a new connection if the connection was lost. `cost`: number of its requests."""
        with self._slots:
            try:
                return self._run(cost, self._take_idle(), operation)
            except SourceUnavailable:
                # Servers close idle connections, and restart.
                while session := self._take_idle():
                    session.drop()
            return self._run(cost, None, operation)

    def in_folder(self, folder: str, validity: int, operation: Callable[[ImapSession], T]) -> T:
        """Run an operation on an open folder. Raises Vanished if its messages were renumbered since `validity`."""

        def in_open_folder(session: ImapSession) -> T:
            session.open(folder, validity)
            return operation(session)

        return self.request(in_open_folder)

    def connect(self) -> ImapSession:
        """Return an additional connection, which the caller must close."""
        return ImapSession(self.login, *self._limits)

    def close(self) -> None:
        """Log out. The next operation connects again."""
        while session := self._take_idle():
            session.close()

    def _run(self, cost: int, session: ImapSession | None, operation: Callable[[ImapSession], T]) -> T:
        with self._pace().transfer(cost):
            session = session or self.connect()
            try:
                result = operation(session)
            except ResponseTooLarge:
                session.drop()
                raise
            except ItemError:
                self._idle.append(session)
                raise
            except BaseException:
                session.drop()
                raise
            self._idle.append(session)
            return result

    def _take_idle(self) -> ImapSession | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None
