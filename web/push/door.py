"""`/api/v1/documents` for programs that push: POST, PUT, DELETE, and the state of a document, each with the program's token.

A response depends on the source of the token alone. A document is on the disk before its response is sent.
"""

from __future__ import annotations

import shutil
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
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
from deployments.actions.pushed import PushPlace
from web.guard import ANY_SIZE, PATIENCE, error
from web.push.envelopes import PushFields, fields_of, form_of, lines_of
from web.warm_library import WarmLibrary

PATH = "/api/v1/documents"
_TOKEN = "push-token"
_ENVELOPE_BYTES = 1_000_000
_SECONDS = 60.0
"""Time in which the body of a push must arrive."""
_AT_ONCE = 2
"""Bodies of one source in memory."""
_PER_MINUTE = 600
_MOST_WAITING = 10_000
"""Documents of one source that no sync has read yet."""
_SPARED_BYTES = 1_000_000_000
"""Free space of the disk below which no push is accepted."""
_TOO_LARGE = "larger than {:g} MB; see limits.max_mb of the source"
_LINES = ("application/x-ndjson", "application/jsonl")


@dataclass(slots=True)
class _Load:
    """The load of one source: the times of its requests in the last minute, and of the documents that wait for a sync."""

    requests: deque[float] = field(default_factory=deque)
    waiting: deque[datetime] = field(default_factory=deque)
    arriving: int = 0


class PushDoor:
    """The routes of pushing programs, and the check of their requests."""

    def __init__(self, library: WarmLibrary, desk: Desk) -> None:
        self._library, self._desk = library, desk
        self._loads: defaultdict[str, _Load] = defaultdict(_Load)

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
            return error(401, "token missing or wrong", {"WWW-Authenticate": "Bearer", "Connection": "close"})
        scope[_TOKEN], scope[ANY_SIZE] = token, True
        return None

    @staticmethod
    def concerns(scope: Scope) -> bool:
        """Return whether a request is one of a pushing program. Others read documents there."""
        path = scope["path"]
        is_below = path == PATH or path.startswith(f"{PATH}/")
        return is_below and (scope["method"] not in ("GET", "HEAD") or path.endswith("/state"))

    async def _receive(self, request: Request) -> Response:
        place = await self._library.read(lambda: self._place(request))
        load = self._loads[place.source]
        self._admit(load, place.read_until)
        load.arriving += 1
        try:
            if grant := request.scope.get("state", {}).get(PATIENCE):
                grant(_SECONDS)
            body = await _body(request, place.max_bytes + _ENVELOPE_BYTES)
            answer, status = await to_thread.run_sync(self._stored, request, place, body)
        finally:
            load.arriving -= 1
        changed = sum(result.get("changed", False) for result in answer.get("results", [answer]))
        load.waiting.extend([datetime.now(UTC)] * changed)
        return JSONResponse(answer, status, {"Location": answer["where"]} if "where" in answer else None)

    def _admit(self, load: _Load, read_until: datetime | None) -> None:
        """Raise HTTPException if the source received too much, or the disk is nearly full."""
        now = time.monotonic()
        while load.requests and load.requests[0] < now - 60:
            load.requests.popleft()
        while load.waiting and read_until is not None and load.waiting[0] < read_until:
            load.waiting.popleft()
        busy = {"Retry-After": "60"}
        if len(load.requests) >= _PER_MINUTE:
            raise HTTPException(429, f"more than {_PER_MINUTE} requests a minute; send a batch, or wait", busy)
        if load.arriving >= _AT_ONCE:
            raise HTTPException(429, f"{_AT_ONCE} pushes are arriving; send one after another", {"Retry-After": "1"})
        if len(load.waiting) >= _MOST_WAITING:
            raise HTTPException(429, f"{_MOST_WAITING:,} documents wait for a sync; try again later", busy)
        if shutil.disk_usage(self._desk.home.path).free < _SPARED_BYTES:
            raise HTTPException(507, "the disk is nearly full; make room")
        load.requests.append(now)

    def _place(self, request: Request) -> PushPlace:
        return PushPlace.of(self._desk, self._library.ledger, request.scope[_TOKEN])

    def _stored(self, request: Request, place: PushPlace, body: bytes) -> tuple[dict[str, Any], int]:
        """Store the documents of a request. Return their states, and the status of the response."""
        content_type = request.headers.get("content-type", "application/octet-stream")
        media_type = content_type.partition(";")[0].strip().lower()
        path_key: str | None = request.path_params.get("key")
        is_batch = media_type in _LINES and path_key is None
        default_key = path_key or (None if is_batch else request.headers.get("idempotency-key"))
        if default_key is not None and pushed_files.KEY.fullmatch(default_key) is None:
            raise BadInput("key: use 1 to 120 letters, digits, dots, - and _, starting with a letter or digit")

        def store(fields: PushFields, file: RawContent | None = None) -> dict[str, Any]:
            if fields.source not in (None, place.source) or (path_key and fields.key not in (None, path_key)):
                raise BadInput("source, key: not those of the token and of the address")
            if fields.key is None and default_key is not None:
                fields = fields.model_copy(update={"key": default_key})
            key, raw = fields.document(request.scope[_TOKEN].name, file)
            if len(raw.data) > place.max_bytes:
                raise HTTPException(413, _TOO_LARGE.format(place.max_bytes / 1e6))
            return {"key": key, **place.put(key, raw), "where": f"{PATH}/{key}/state"}

        if is_batch:
            results = []
            for line in lines_of(body):
                try:
                    results.append(store(fields_of(line)))
                except BadInput as problem:
                    results.append({"error": str(problem)})
            return {"results": results}, 422 if any("error" in result for result in results) else 202
        if media_type == "application/json":
            result = store(fields_of(body))
        elif media_type == "multipart/form-data":
            values, file = form_of(content_type, body)
            # The add-on SingleFile takes any other status for a failure.
            return store(fields_of(values), file), HTTPStatus.CREATED
        else:
            values = {**request.query_params, **({"tags": request.query_params.getlist("tags")})}
            result = store(fields_of(values), RawContent(body, path_key or "", media_type=media_type))
        return result, HTTPStatus.OK if result["state"] == "ready" else HTTPStatus.ACCEPTED

    async def _remove(self, request: Request) -> Response:
        key, place = _key(request), await self._library.read(lambda: self._place(request))
        self._admit(self._loads[place.source], place.read_until)
        removed = await to_thread.run_sync(place.remove, key)
        return JSONResponse({"key": key, "removed": removed}, HTTPStatus.ACCEPTED)

    async def _show(self, request: Request) -> Response:
        key = _key(request)
        state = await self._library.read(lambda: self._place(request).state(key))
        return JSONResponse({"key": key, **state})


def _key(request: Request) -> str:
    key: str = request.path_params["key"]
    if pushed_files.KEY.fullmatch(key) is None:
        raise HTTPException(404, "no such document")
    return key


async def _body(request: Request, most: int) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise HTTPException(413, _TOO_LARGE.format(most / 1e6))
    return bytes(body)
