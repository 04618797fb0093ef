"""`/api/v1`: the same as JSON, for the command line and other programs, with the token. Errors are `{"error": "…"}`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from catchment.errors import BadInput, CatchmentError, IllegalTransition, LedgerCorrupt, NotFound, Refused, TookTooLong
from catchment.search.remote import TOO_LONG
from catchment.search.results import Hit, Results
from web.guard import QUERY_BYTES, error
from web.warm_library import RelatedRequest, SearchRequest, WarmLibrary

_SEARCH = TypeAdapter(SearchRequest)
_RELATED = TypeAdapter(RelatedRequest)
_RESULTS = TypeAdapter(Results)
_HITS = TypeAdapter(list[Hit])
_ANY = TypeAdapter[object](Any)

View = Callable[[WarmLibrary, Mapping[str, str]], object]
"""Returns records, from the library and the parameters of path and query. Raises CatchmentError."""

T = TypeVar("T")


def routes(library: WarmLibrary, views: Mapping[str, View]) -> list[BaseRoute]:
    """Return the routes, to be mounted at `/api/v1`. `views`: what the pages show, by address."""

    async def answer(request: Request, kind: TypeAdapter[T], find: Callable[[T], bytes]) -> Response:
        try:
            query = await _query(request, kind)
        except ValidationError as invalid:
            return error(400, explained(invalid))
        if isinstance(query, SearchRequest) and len(query.text.encode("utf-8", "replace")) > QUERY_BYTES:
            return error(413, "text: too long")
        try:
            content = await library.read(lambda: find(query))
        except CatchmentError as failure:
            return error(status_of(failure), str(failure))
        return Response(content, 200, media_type="application/json")

    async def search(request: Request) -> Response:
        return await answer(request, _SEARCH, lambda query: _RESULTS.dump_json(library.search(query)))

    async def related(request: Request) -> Response:
        return await answer(request, _RELATED, lambda query: _HITS.dump_json(library.related(query)))

    def showing(view: View) -> Callable[[Request], Any]:
        async def show(request: Request) -> Response:
            parameters = {**request.query_params, **{name: str(value) for name, value in request.path_params.items()}}
            try:
                content = await library.read(lambda: _ANY.dump_json(view(library, parameters)))
            except CatchmentError as failure:
                return error(status_of(failure), str(failure))
            return Response(content, 200, media_type="application/json")

        return show

    return [
        *(Route(address, showing(view)) for address, view in views.items()),
        Route("/search", search, methods=["GET", "POST"]),
        Route("/related", related, methods=["GET", "POST"]),
    ]


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
        return kind.validate_json(await request.body())
    return kind.validate_python(dict(request.query_params))


def explained(invalid: ValidationError) -> str:
    """Describe the invalid parameters, without their values."""
    found: list[Any] = list(invalid.errors(include_input=False, include_url=False, include_context=False))
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'body'}: {one['msg']}" for one in found)
