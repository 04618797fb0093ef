"""The requests that the server failed at, named in its log: Prefect hides them, and its clients ask again in silence."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

from deployments.server.confined import App, Message, Send

FAILED = "could not be answered: status "


def telling(app: App) -> App:
    """The same application; of each answer with a status of 500 or more, a line goes to the log."""

    async def told(scope: Message, receive: Callable[[], Awaitable[Message]], send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 500:
                sys.stderr.write(f"{scope['method']} {scope['path']} {FAILED}{message['status']}\n")
            await send(message)

        await app(scope, receive, sending if scope["type"] == "http" else send)

    return told
