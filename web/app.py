"""The application: `/search`, `/related`, `/live` and `/ready`. JSON in, JSON out; errors are `{"error": "…"}`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from pydantic import TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from catchment.errors import BadInput, CatchmentError, LedgerCorrupt, NotFound, TookTooLong
from catchment.search.remote import TOO_LONG
from web.guard import QUERY_BYTES, error
from web.readiness import Readiness
from web.warm_library import RelatedRequest, SearchRequest, WarmLibrary

_AT_ONCE = 3
"""Searches that run at the same time, each in a thread."""
_WAITING = 16
"""Searches that wait for a thread."""
_WARM_SECONDS = 60
_COLD_SECONDS = 5
"""Interval of checks for embeddings or a model."""
_SEARCH = TypeAdapter(SearchRequest)
_RELATED = TypeAdapter(RelatedRequest)

T = TypeVar("T")


def application(library: WarmLibrary, readiness: Readiness, on_start: Callable[[], None]) -> Starlette:
    """Build the application. Calls `on_start` when it can answer."""
    threads = CapacityLimiter(_AT_ONCE)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(readiness.tick()), asyncio.create_task(_keep_warm(library))]
        on_start()
        yield
        for task in tasks:
            task.cancel()

    async def answer(request: Request, kind: TypeAdapter[T], find: Callable[[T], bytes]) -> Response:
        try:
            query = await _query(request, kind)
        except ValidationError as invalid:
            return error(400, _explained(invalid))
        if isinstance(query, SearchRequest) and len(query.text.encode("utf-8", "replace")) > QUERY_BYTES:
            return error(413, "text: too long")
        if threads.statistics().tasks_waiting >= _WAITING:
            return error(503, "busy; try again")
        try:
            content = await to_thread.run_sync(find, query, limiter=threads)
        except CatchmentError as failure:
            return error(_status(failure), str(failure))
        return Response(content, 200, {"Cache-Control": "no-store"}, "application/json")

    async def search(request: Request) -> Response:
        return await answer(request, _SEARCH, library.search)

    async def related(request: Request) -> Response:
        return await answer(request, _RELATED, library.related)

    async def live(_request: Request) -> Response:
        return JSONResponse({"live": True}) if readiness.is_live() else error(503, "the event loop was blocked")

    async def ready(_request: Request) -> Response:
        state = await readiness.state()
        return JSONResponse(state, 200 if state["ready"] else 503)

    routes = [
        Route("/search", search, methods=["GET", "POST"]),
        Route("/related", related, methods=["GET", "POST"]),
        Route("/live", live),
        Route("/ready", ready),
    ]
    return Starlette(
        routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _refused, Exception: _unexpected}
    )


async def _keep_warm(library: WarmLibrary) -> None:
    """Load the model and the vectors as soon as there are any, and make missing embeddings every second, until cancelled."""
    alone = CapacityLimiter(1)
    while True:
        is_warm = await to_thread.run_sync(library.warm, limiter=alone)
        if not is_warm:
            await asyncio.sleep(_COLD_SECONDS)
            continue
        for _ in range(_WARM_SECONDS):
            await to_thread.run_sync(library.embed_few, limiter=alone)
            await asyncio.sleep(1)


async def _refused(_request: Request, failure: Exception) -> Response:
    assert isinstance(failure, HTTPException)
    return error(failure.status_code, failure.detail, dict(failure.headers or {}))


async def _unexpected(_request: Request, _failure: Exception) -> Response:
    return error(500, "internal error; see `catchment logs web`")


async def _query(request: Request, kind: TypeAdapter[T]) -> T:
    if request.method == "POST":
        return kind.validate_json(await request.body())
    return kind.validate_python(dict(request.query_params))


def _explained(invalid: ValidationError) -> str:
    """Describe the invalid parameters, without their values."""
    found: list[Any] = list(invalid.errors(include_input=False, include_url=False, include_context=False))
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'body'}: {one['msg']}" for one in found)


def _status(failure: CatchmentError) -> int:
    match failure:
        case BadInput():
            return 400
        case NotFound():
            return 404
        case LedgerCorrupt():
            return 500
        case TookTooLong():
            return TOO_LONG
    return 503
