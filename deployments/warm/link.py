"""The worker's side of the fork server: start it, order runs from it, replace it when the code changed or when it died."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import asdict, dataclass, field
from typing import Any

from catchment.errors import TryAgain
from deployments.server.environment import with_room_for_a_run
from deployments.warm.forge import STALE, Order

_LINE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run's process ended: its exit code or minus the signal, CPU seconds, and bytes of memory, read and written."""

    code: int
    cpu: float = 0.0
    memory: int = 0
    read: int = 0
    written: int = 0


@dataclass(slots=True)
class ForkedRun:
    """A run whose process was started."""

    pid: int
    key: int
    _server: _Server
    _ended: asyncio.Future[Ended]
    _asked: bool = False

    async def wait(self) -> Ended:
        """Wait for its end; may be called by several and again."""
        return await asyncio.shield(self._ended)

    async def end(self, grace: float) -> Ended:
        """Ask it to end, and kill it with all it started if it has not after `grace` seconds; may be called again."""
        if not self._asked:
            # A second request would disturb what the first one set going.
            self._asked = True
            self._server.send({"signal": signal.SIGTERM, "to": self.key})
        try:
            return await asyncio.wait_for(self.wait(), grace)
        except TimeoutError:
            self.kill()
            return await self.wait()

    def kill(self) -> None:
        """Kill it at once, with all it started; may be called again."""
        self._server.send({"signal": signal.SIGKILL, "to": self.key})


@dataclass(slots=True, eq=False)
class _Server:
    """One fork server process, and the messages to and from it; `over` waits until the process is gone."""

    over: Callable[[], Awaitable[object]]
    writer: asyncio.StreamWriter
    ready: asyncio.Future[None]
    stale: bool = False
    dead: bool = False
    answers: dict[int, asyncio.Future[ForkedRun]] = field(default_factory=dict)
    running: dict[int, tuple[int, asyncio.Future[Ended]]] = field(default_factory=dict)

    def send(self, message: dict[str, Any]) -> None:
        # What is said to a fork server that died needs no answer: its end is reported by `lost`.
        if not self.dead:
            self.writer.write(json.dumps(message).encode() + b"\n")

    def hear(self, message: dict[str, Any]) -> None:
        if "started" in message:
            key, pid = message["started"], message["pid"]
            ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
            self.running[key] = (pid, ended)
            _give(self.answers.pop(key), ForkedRun(pid, key, self, ended))
        elif "ended" in message:
            _give(self.running.pop(message.pop("ended"))[1], Ended(**message))
        elif "refused" in message:
            _refuse(self.answers.pop(message["refused"]), message["why"])
        elif "ready" in message:
            _give(self.ready, None)
        else:
            self.stale = True

    def lost(self) -> None:
        """It died, and by the system's promise its runs with it; what they had started is killed here."""
        self.dead = True
        self.writer.close()
        _give(self.ready, None)
        for answer in self.answers.values():
            _refuse(answer, "the fork server ended; the next run starts another")
        for pid, ended in self.running.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            _give(ended, Ended(-signal.SIGKILL))
        self.answers.clear()
        self.running.clear()


class Link:
    """Runs, forked from a fork server that is there when it is needed and has the code as it is now."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._keys = itertools.count(1)
        self._server: _Server | None = None
        self._servers: set[_Server] = set()
        self._starting = asyncio.Lock()
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def prepare(self) -> None:
        """Start a fork server, unless there is one that will do."""
        await self._serving()

    async def start(self, order: Order) -> ForkedRun:
        """Fork a run. Raises TryAgain when no process can be started."""
        while True:
            server = await self._serving()
            if server.dead:
                raise TryAgain("the fork server does not start; the worker's log says why")
            key = next(self._keys)
            answer: asyncio.Future[ForkedRun] = asyncio.get_running_loop().create_future()
            server.answers[key] = answer
            server.send({"start": key, "order": asdict(order)})
            try:
                return await answer
            except TryAgain as refusal:
                if str(refusal) != STALE:
                    raise

    async def close(self) -> None:
        """End the fork servers, and with them every run that is left."""
        self._closed = True
        while self._tasks:
            for server in self._servers:
                server.writer.close()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serving(self) -> _Server:
        async with self._starting:
            if self._server is None or self._server.dead or self._server.stale:
                if self._server is not None:
                    self._server.send({"retire": True})
                self._server = await self._spawn()
            server = self._server
        await asyncio.shield(server.ready)
        return server

    async def _spawn(self) -> _Server:
        if self._closed:
            raise TryAgain("the worker is stopping; another one takes the run")
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "deployments.warm.forge", str(theirs.fileno())),
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,
                env=with_room_for_a_run(os.environ),
            )
        return await self._linked(ours, process.wait)

    async def _linked(self, link: socket.socket, over: Callable[[], Awaitable[object]]) -> _Server:
        reader, writer = await asyncio.open_unix_connection(sock=link, limit=_LINE_BYTES)
        server = _Server(over, writer, asyncio.get_running_loop().create_future())
        self._servers.add(server)
        self._task(self._listen(server, reader))
        return server

    async def _listen(self, server: _Server, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if failed := message.get("ready"):
                    self._warn(f"Could not be done before the first run: {', '.join(failed)}")
                server.hear(message)
                if server.stale and server is self._server and not self._closed:
                    # So that the next run need not wait for the imports.
                    self._task(self.prepare())
        finally:
            server.lost()
            await server.over()
            self._servers.discard(server)

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _give(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)


def _refuse(answer: asyncio.Future[ForkedRun], why: str) -> None:
    # Who asked may wait no more.
    if not answer.done():
        answer.set_exception(TryAgain(why))
