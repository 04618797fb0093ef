"""The Prefect UI, kept to this machine: its pages would report their use to an analytics service, whatever the settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Callable[[], Awaitable[Message]], Send], Awaitable[None]]


def confined(app: App, port: int) -> App:
    """The same application, whose pages a browser lets talk to this server and to nobody else, and puts in no frame."""
    here = f"'self' http://127.0.0.1:{port} ws://127.0.0.1:{port}"
    policy = (
        f"default-src 'self' data: blob:; connect-src {here}; style-src 'self' 'unsafe-inline'; "
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; frame-ancestors 'none'; form-action 'self'"
    ).encode()

    async def with_policy(scope: Message, receive: Callable[[], Awaitable[Message]], send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"content-security-policy", policy)]
            await send(message)

        await app(scope, receive, sending if scope["type"] == "http" else send)

    return with_policy
