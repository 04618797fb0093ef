"""The worker's side of `prefect deploy`: who asks at the home's socket has it done in a fork of the fork server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import asdict
from pathlib import Path

from catchment.errors import TryAgain
from catchment.home import Home
from deployments.deploy_command import Said, place, surroundings, words
from deployments.environment import NO_RUN
from deployments.warm.forge import Order
from deployments.warm.link import Ended

Execute = Callable[[Order], Awaitable[Ended]]
_LINE_BYTES = 1 << 20


@contextlib.asynccontextmanager
async def answering(home: Home, execute: Execute, warn: Callable[[str], None]) -> AsyncIterator[None]:
    """Do what is asked meanwhile; `execute` forks, and waits for the end. Who gets no answer does it without us."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, TryAgain):
            file, names = json.loads(await reader.readline())
            writer.write(json.dumps(asdict(await _deploy(Path(file), names, execute))).encode())
            await writer.drain()

    place(home).unlink(missing_ok=True)
    async with contextlib.AsyncExitStack() as listening:
        try:
            await listening.enter_async_context(await asyncio.start_unix_server(answer, place(home), limit=_LINE_BYTES))
        except OSError as error:
            # The path of a home may be longer than that of a socket can be.
            warn(f"Each `prefect deploy` takes a new interpreter, for there is no socket for it ({error})")
        yield


async def _deploy(file: Path, names: Collection[str], execute: Execute) -> Said:
    with tempfile.NamedTemporaryFile() as output, tempfile.NamedTemporaryFile() as errors:
        env = {**os.environ, **surroundings(file)}
        order = Order(NO_RUN, env, str(file.parent), output=(output.name, errors.name), module=words(file, names))
        ended = await execute(order)
        return Said(ended.code, output.read().decode(errors="replace"), errors.read().decode(errors="replace"))
