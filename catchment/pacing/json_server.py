"""A client of one HTTP server with JSON that a person configured: a model, a vector database. Trusts no answer.

Each request has a limit on its total time and its bytes. The client follows no redirects, decompresses no content and ignores
the proxies of the environment, so that no proxy receives the texts.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx


class ServerFailed(Exception):
    """A server gave no usable answer. The text follows its name in a message, and has no address and no content."""


class JsonAnswer(NamedTuple):
    """A status and, if it is one of success, the value; None without content."""

    status: int
    value: Any


class JsonServer:
    """A server by its address. Has no open connections between requests; thread-safe."""

    def __init__(
        self, address: str, headers: Mapping[bytes, bytes] | None = None, *, seconds: float, most_bytes: int
    ) -> None:
        self._address = address
        self._headers = {**(headers or {}), b"Accept-Encoding": b"identity"}
        self._seconds, self._most_bytes = seconds, most_bytes
        # Made once: a client would make one for each request, in 10 ms. Without TLS, none is used.
        self._tls = httpx.create_ssl_context(trust_env=False) if address.startswith("https:") else False

    def ask(self, method: str, path: str, body: Any = None, seconds: float | None = None) -> JsonAnswer:
        """Send a request. `seconds`: another limit than that of the server. Raises ServerFailed."""
        try:
            status, content = asyncio.run(self._exchange(method, path, body, seconds or self._seconds))
            return JsonAnswer(status, json.loads(content) if content else None)
        except TimeoutError:
            raise ServerFailed("answers too slowly") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServerFailed(f"does not answer ({type(error).__name__})") from None
        except (ValueError, RecursionError):
            raise ServerFailed("gave an answer that is not JSON") from None

    async def _exchange(self, method: str, path: str, body: Any, seconds: float) -> tuple[int, bytearray]:
        """Return the status and the content. Raises TimeoutError if connection, header and content take longer in all."""
        content = bytearray()
        # A time limit of httpx is one for each read, which a server can stretch.
        client = httpx.AsyncClient(timeout=None, trust_env=False, follow_redirects=False, verify=self._tls)
        async with (
            asyncio.timeout(seconds),
            client,
            client.stream(method, self._address + path, json=body, headers=self._headers) as response,
        ):
            if response.is_success:
                # Not decompressed: a few bytes may become gigabytes.
                async for part in response.aiter_raw():
                    content += part
                    if len(content) > self._most_bytes:
                        raise ServerFailed("gave an answer that is too large")
            return response.status_code, content
