"""The worker's side of `deployments.forked`: who asks at the home's socket has a command done in a fork of the fork server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict

from catchment.errors import TryAgain
from catchment.home import Home
from deployments.environment import NO_RUN
from deployments.forked import Command, Said, place
from deployments.warm.forge import Order
from deployments.warm.link import Ended

Execute = Callable[[Order], Awaitable[Ended]]
_LINE_BYTES = 1 << 20


@contextlib.asynccontextmanager
async def answering(home: Home, execute: Execute, warn: Callable[[str], None]) -> AsyncIterator[None]:
    """Do what is asked meanwhile; `execute` forks, and waits for the end. Who gets no answer does it without us."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, TryAgain):
            command = Command(**json.loads(await reader.readline()))
            writer.write(json.dumps(asdict(await _do(home, command, execute))).encode())
            await writer.drain()

    place(home).unlink(missing_ok=True)
    async with contextlib.AsyncExitStack() as listening:
        try:
            await listening.enter_async_context(await asyncio.start_unix_server(answer, place(home), limit=_LINE_BYTES))
        except OSError as error:
            # The path of a home may be longer than that of a socket can be.
            warn(f"Each command takes a new interpreter, for there is no socket for it ({error})")
        yield


async def _do(home: Home, command: Command, execute: Execute) -> Said:
    # In the home, for it may be the text of a document.
    with tempfile.NamedTemporaryFile(dir=home.run) as output, tempfile.NamedTemporaryFile(dir=home.run) as errors:
        environment, files = dict(command.environment), (output.name, errors.name)
        ended = await execute(Order(NO_RUN, environment, command.folder, output=files, module=command.words))
        return Said(ended.code, output.read().decode(errors="replace"), errors.read().decode(errors="replace"))
