"""`/api/v1/documents` for programs that push: POST, PUT, DELETE, and the state of a document, each with the program's token.

A response depends on the source of the token alone. A document is on the disk before its response is sent.
"""

from __future__ import annotations

import math
import shutil
import time
from collections import defaultdict
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from catchment.content import pushed_files
from catchment.errors import BadInput
from catchment.model import RawContent
from deployments.actions import pushed
from deployments.actions.desk import Desk
from deployments.actions.pushed import push_place
from web.guard import ANY_SIZE, PATIENCE, error
from web.push.envelopes import PushFields, envelopes_of, fields_of
from web.warm_library import WarmLibrary

PATH = "/api/v1/documents"
_TOKEN = "push-token"
_NO_TOKEN = "token missing or wrong"
_SECONDS = 60.0
"""Time in which the body of a push must arrive."""
_AT_ONCE = 2
"""Requests of one source in work, each with its body in memory."""
_PAUSE = 0.1
"""Seconds between the requests of one source, on the average of `_PERIOD`."""
_PERIOD, _FIRST_PERIOD = 60.0, 6.0
"""Seconds whose requests a source may send at once; and after a start of this process, which must not permit more."""
_RECOUNT = 60.0
"""Seconds until the documents of a full source are counted again."""
_SPARED_BYTES = 1_000_000_000
"""Free space of the disk below which no push is accepted."""


@dataclass(slots=True)
class _Load:
    """The load of one source.

    Attributes:
        used_until: The end of the pauses of its requests, in the time of `time.monotonic`.
        held: Bytes that its documents take at most. Counted at `counted`; each push adds to it, and no deletion subtracts.
        running: Number of requests in work.
    """

    used_until: float
    held: float = math.inf
    counted: float = -math.inf
    running: int = 0


class PushDoor:
    """The routes of pushing programs, and the check of their requests."""

    def __init__(self, library: WarmLibrary, desk: Desk) -> None:
        self._library, self._desk = library, desk
        start = time.monotonic()
        self._loads: defaultdict[str, _Load] = defaultdict(lambda: _Load(start - _FIRST_PERIOD))

    @property
    def routes(self) -> list[Route]:
        """The routes, to be mounted at `/api/v1`."""
        document = "/documents/{key}"
        return [
            Route("/documents", self._receive, methods=["POST"]),
            Route(document, self._receive, methods=["PUT"]),
            Route(document, self._remove, methods=["DELETE"]),
            Route(f"{document}/state", self._show, methods=["GET"]),
        ]

    def check(self, scope: Scope) -> ASGIApp | None:
        """Admit a program with a token, and only here."""
        authorization = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
        scheme, _, secret = authorization.partition(" ")
        token = pushed.holder(self._desk.home, secret.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            return error(401, _NO_TOKEN, {"WWW-Authenticate": "Bearer", "Connection": "close"})
        scope[_TOKEN], scope[ANY_SIZE] = token, True
        return None

    @staticmethod
    def concerns(scope: Scope) -> bool:
        """Return whether a request is one of a pushing program. Others read documents there."""
        path = scope["path"]
        is_below = path == PATH or path.startswith(f"{PATH}/")
        return is_below and (scope["method"] not in ("GET", "HEAD") or path.endswith("/state"))

    async def _receive(self, request: Request) -> Response:
        load = self._admitted(request)
        load.running += 1
        try:
            place = await self._library.read(lambda: self._place(request))
            request.scope["state"][PATIENCE](_SECONDS)
            body = await _body(request, place.max_bytes)
            answer, status = await to_thread.run_sync(self._stored, request, load, body)
        finally:
            load.running -= 1
        return JSONResponse(answer, status, {"Location": answer["where"]} if "where" in answer else None)

    def _admitted(self, request: Request) -> _Load:
        """Return the load of the source, with this request. Raises HTTPException if there are too many."""
        load, now = self._loads[request.scope[_TOKEN].source], time.monotonic()
        load.used_until = max(load.used_until, now - _PERIOD)
        wait = load.used_until + _PAUSE - now
        if wait > 0 or load.running >= _AT_ONCE:
            limit = f"{_PERIOD / _PAUSE:.0f} requests a minute, or {_AT_ONCE} at once"
            headers = {"Retry-After": str(math.ceil(max(wait, 1)))}
            raise HTTPException(429, f"more than {limit}; send a batch, or wait", headers)
        load.used_until += _PAUSE
        return load

    def _place(self, request: Request) -> push_place.PushPlace:
        token = request.scope[_TOKEN]
        if not (self._desk.home.push_tokens / token.digest).exists():
            raise HTTPException(401, _NO_TOKEN)
        return push_place.place(self._desk, self._library.ledger, token.source)

    def _stored(self, request: Request, load: _Load, body: bytes) -> tuple[dict[str, Any], int]:
        """Store the documents of a request. Return their states, and the status of the response."""
        token, path_key = request.scope[_TOKEN], request.path_params.get("key")
        form, envelopes = envelopes_of(request, body, path_key)
        default_key = path_key or (None if form == "batch" else request.headers.get("idempotency-key"))
        # The token may have been revoked, and the source removed, since the first byte arrived.
        place = self._place(request)
        _require_room(load, place, len(body) + 2 * pushed_files.SMALLEST * len(envelopes))

        def store(fields: PushFields, file: RawContent | None) -> dict[str, Any]:
            if fields.source not in (None, token.source) or (path_key and fields.key not in (None, path_key)):
                raise BadInput("source, key: not those of the token and of the address")
            key, raw = fields.document(token.name, file, default_key)
            changed = push_place.store(place, key, raw)
            state = {"state": "waiting"} if changed else self._state(request, key)
            return {"key": key, **state, "changed": changed, "where": f"{PATH}/{key}/state"}

        if form != "batch":
            ((values, file),) = envelopes
            result = store(fields_of(values), file)
            # The add-on SingleFile takes any other status for a failure.
            success = HTTPStatus.CREATED if form else HTTPStatus.ACCEPTED
            return result, HTTPStatus.OK if result["state"] == "ready" and not form else success
        results = []
        for line, (values, file) in enumerate(envelopes, 1):
            try:
                if values != b"":
                    results.append({"line": line, **store(fields_of(values), file)})
            except BadInput as problem:
                results.append({"line": line, "error": str(problem)})
        return {"results": results}, 422 if any("error" in result for result in results) else 202

    def _state(self, request: Request, key: str) -> dict[str, Any]:
        source = request.scope[_TOKEN].source
        return push_place.state(self._library.ledger, source, self._place(request), key)

    async def _remove(self, request: Request) -> Response:
        self._admitted(request)
        key: str = request.path_params["key"]
        removed = await self._library.read(lambda: pushed_files.remove(self._place(request).root, key))
        return JSONResponse({"key": key, "removed": removed}, HTTPStatus.ACCEPTED)

    async def _show(self, request: Request) -> Response:
        key: str = request.path_params["key"]
        return JSONResponse({"key": key, **await self._library.read(lambda: self._state(request, key))})


def _require_room(load: _Load, place: push_place.PushPlace, size: int) -> None:
    """Raise HTTPException if the source or the disk is full. Count the documents at first, and when they may be too many."""
    now = time.monotonic()
    if shutil.disk_usage(place.root).free < _SPARED_BYTES:
        raise HTTPException(507, "the disk is nearly full; make room")
    if load.held + size > place.most_bytes and now - load.counted > _RECOUNT:
        load.held, load.counted = pushed_files.held(place.root), now
    if load.held + size > place.most_bytes:
        raise HTTPException(
            507, f"more than {place.most_bytes / 1e9:g} GB; remove documents, or raise max_gb of the source"
        )
    load.held += size


async def _body(request: Request, most: int) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise HTTPException(413, f"larger than {most / 1e6:g} MB; see limits.max_mb of the source")
    return bytes(body)
