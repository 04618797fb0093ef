"""`/api/v1`: the same as JSON, for the command line and other programs, with the token. Errors are `{"error": "…"}`."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote

from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, compile_path

from catchment.errors import BadInput, CatchmentError, IllegalTransition, LedgerCorrupt, NotFound, Refused, TookTooLong
from catchment.runtime.reports.record_json import to_json
from catchment.runtime.web_process import TOO_LONG
from web.guard import QUERY_BYTES, error
from web.warm_library import RelatedRequest, SearchRequest, WarmLibrary

_SEARCH = TypeAdapter(SearchRequest)
_RELATED = TypeAdapter(RelatedRequest)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SharedView:
    """The view of a page, as records.

    Attributes:
        address: As of a Starlette route.
        kind: The type of the records.
        query: The parameters of its query.
        read: Returns the records, from the library and the parameters of path and query. Raises CatchmentError.
    """

    address: str
    kind: Any
    query: tuple[str, ...]
    read: Callable[[WarmLibrary, Mapping[str, str]], object]


class JsonInterface:
    """The searches and the views of a library."""

    def __init__(self, library: WarmLibrary, views: Iterable[SharedView]) -> None:
        self._library = library
        self._views = [(compile_path(view.address)[0], view) for view in views]

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, to be mounted at `/api/v1`."""
        return [
            *(Route(view.address, self._view_handler(view)) for _, view in self._views),
            Route("/search", self._search, methods=["GET", "POST"]),
            Route("/related", self._related, methods=["GET", "POST"]),
        ]

    async def parts(self, address: str) -> Mapping[str, str]:
        """Return the view at an address with its query, as JSON: `view`, or `error`."""
        try:
            return {"view": await self._view(address)}
        except CatchmentError as failure:
            return {"error": json.dumps({"error": str(failure)})}

    def events_route(self, respond: Callable[[Request], Awaitable[Response]]) -> Route:
        """Return the route `/events`: `respond` streams the view at the address `view`, if there is one."""

        async def stream(request: Request) -> Response:
            await self._view(request.query_params.get("view", ""))
            return await respond(request)

        return Route("/events", stream)

    def _view_handler(self, view: SharedView) -> Callable[[Request], Any]:
        async def show(request: Request) -> Response:
            content = await self._content(view, request.query_params, request.path_params)
            return Response(content, media_type="application/json")

        return show

    async def _view(self, address: str) -> str:
        path, _, query = address.partition("?")
        for pattern, view in self._views:
            if match := pattern.match(unquote(path)):
                return await self._content(view, dict(parse_qsl(query)), match.groupdict())
        raise NotFound("view: no view has this address; see /api/v1/openapi.json")

    async def _content(self, view: SharedView, query: Mapping[str, str], path: Mapping[str, object]) -> str:
        if unknown := next((name for name in query if name not in view.query), None):
            known = f"choose {', '.join(view.query)}" if view.query else "leave it out"
            raise BadInput(f"{unknown}: no such parameter; {known}")
        parameters = {**query, **{name: str(value) for name, value in path.items()}}
        return await self._library.read(lambda: to_json(view.read(self._library, parameters)))

    async def _search(self, request: Request) -> Response:
        return await self._answer(request, _SEARCH, self._library.search)

    async def _related(self, request: Request) -> Response:
        return await self._answer(request, _RELATED, self._library.related)

    async def _answer(self, request: Request, kind: TypeAdapter[T], find: Callable[[T], object]) -> Response:
        try:
            query = await _query(request, kind)
        except ValidationError as invalid:
            return error(400, problem_of(invalid))
        if isinstance(query, SearchRequest) and len(query.text.encode("utf-8", "replace")) > QUERY_BYTES:
            return error(413, "text: too long")
        content = await self._library.read(lambda: to_json(find(query)))
        return Response(content, media_type="application/json")


def view_event(parts: Mapping[str, str]) -> str:
    """Return the lines of the event for a view that changed, or cannot be read now."""
    return "\n".join(f"event: {name}\ndata: {content}" for name, content in parts.items())


def status_of(failure: CatchmentError) -> int:
    """Return the HTTP status that stands for a failure."""
    match failure:
        case BadInput():
            return 400
        case NotFound():
            return 404
        case Refused() | IllegalTransition():
            return 409
        case LedgerCorrupt():
            return 500
        case TookTooLong():
            return TOO_LONG
    return 503


async def _query(request: Request, kind: TypeAdapter[T]) -> T:
    if request.method == "POST":
        return kind.validate_json(await request.body(), strict=True)
    return kind.validate_python(dict(request.query_params))


def problem_of(invalid: ValidationError) -> str:
    """Describe the invalid parameters, without their values."""
    errors: list[Any] = list(invalid.errors(include_input=False, include_url=False, include_context=False))
    return "; ".join(f"{'.'.join(map(str, detail['loc'])) or 'body'}: {detail['msg']}" for detail in errors)
