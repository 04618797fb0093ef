"""Live parts of pages: one poller for all tabs, and for each visible tab a stream of server-sent events.

An event of a page is `[[id, html], …]`: its parts that changed, by the ID of their element. The ID of an event names the
state of all parts. A tab that reconnects with the ID of the present state gets only later changes; any other gets every part.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from catchment.errors import BadInput, CatchmentError
from web.guard import defect, error

_LOOK_SECONDS = 0.5
_SHARE = 20
"""Rendering takes at most this fraction of the time, so that many changes cost little."""
_HEARTBEAT_SECONDS = 15.0
_RETRY = b"retry: 2000\n\n"
_HEARTBEAT = b": alive\n\n"

Parts = Mapping[str, str]


def view_address(request: Request) -> str:
    """Return the address of the page that the parameter `view` names. Raises BadInput."""
    view = request.query_params.get("view", "/")
    if not view.startswith("/"):
        raise BadInput("view: not the address of a page; it begins with /")
    return view


def page_event(parts: Parts) -> str:
    """Return the lines of the event for the parts of a page that changed."""
    return f"event: parts\ndata: {json.dumps([*parts.items()])}"


@dataclass(slots=True)
class _LivePage:
    """A page that at least one tab shows."""

    parts: Parts = field(default_factory=dict)
    readers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def tag(self) -> str:
        return sha256(json.dumps(self.parts).encode()).hexdigest()[:16]

    def update(self, parts: Parts) -> None:
        if parts != self.parts:
            self.parts = parts
            self.wake()

    def wake(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


class Live:
    """The streams of this process.

    Args:
        stamp: Returns, quickly, a value that differs after each change of the system.
        render: Returns the parts of the page at an address.
        most: Streams at a time: others need connections, too.
        event: Returns the lines of the event for the parts that changed.
    """

    def __init__(
        self,
        stamp: Callable[[], Awaitable[object]],
        render: Callable[[str], Awaitable[Parts]],
        most: int,
        event: Callable[[Parts], str] = page_event,
    ) -> None:
        self._stamp, self._render, self._most, self._event = stamp, render, most, event
        self._pages: dict[str, _LivePage] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = False

    async def poll(self) -> None:
        """Render the visible pages again after each change, until cancelled."""
        self._loop = asyncio.get_running_loop()
        last: object = None
        while True:
            began = time.perf_counter()
            if self._pages and (stamp := await self._stamp()) != last:
                for address, page in [*self._pages.items()]:
                    await self._refresh(address, page)
                last = stamp
            took = time.perf_counter() - began
            await asyncio.sleep(max(_LOOK_SECONDS, _SHARE * took))

    async def respond(self, request: Request) -> Response:
        """Stream the changes of the page at the address `view`. Raises BadInput."""
        view = view_address(request)
        if self._is_stopping or sum(page.readers for page in self._pages.values()) >= self._most:
            return error(503, "too many open streams; close one")
        stream = self._events(view, request.headers.get("last-event-id"))
        return StreamingResponse(stream, media_type="text/event-stream")

    def stop(self) -> None:
        """End all streams. Safe in a signal handler."""
        self._is_stopping = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for page in self._pages.values():
            page.wake()

    async def _refresh(self, address: str, page: _LivePage) -> None:
        try:
            page.update(await self._render(address))
        except CatchmentError:
            return  # The ledger cannot be read now, and the page keeps its state.
        except Exception as failure:  # noqa: BLE001 - a defect of one page must not stop the others
            sys.stderr.write(f"live parts of {address.partition('?')[0]}: {defect(failure)}\n")

    async def _events(self, address: str, known_tag: str | None) -> AsyncIterator[bytes]:
        page = self._pages.setdefault(address, _LivePage())
        page.readers += 1
        try:
            yield _RETRY
            await self._refresh(address, page)
            known: Parts = page.parts if known_tag == page.tag else {}
            while not self._is_stopping:
                changed = page.changed
                if parts := {name: html for name, html in page.parts.items() if known.get(name) != html}:
                    known = page.parts
                    yield f"id: {page.tag}\n{self._event(parts)}\n\n".encode()
                    continue
                try:
                    await asyncio.wait_for(changed.wait(), _HEARTBEAT_SECONDS)
                except TimeoutError:
                    yield _HEARTBEAT
        finally:
            page.readers -= 1
            if not page.readers:
                self._pages.pop(address, None)
