"""The description of `/api/v1` and of the probes in OpenAPI 3.1, made from the views, the actions and their types.

It is served at `/api/v1/openapi.json`; `python -m tests.golden.openapi` writes the same to docs/openapi.json.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter

from catchment.search.results import Results
from catchment.views.documents import RelatedView
from web.action_table import WebAction
from web.json_interface import SharedView
from web.push.envelopes import PushFields
from web.warm_library import RelatedRequest, SearchRequest

Json = dict[str, Any]

_PARAMETER = re.compile(r"{(\w+)(?::(\w+))?}")
_SEARCHES = {
    "/search": (SearchRequest, Results, "Search the library"),
    "/related": (RelatedRequest, RelatedView, "Return the documents related to one"),
}
_PUSHES = {
    ("/documents", "post"): "Push a document, or a batch as JSON lines",
    ("/documents/{key}", "put"): "Push a document with this key",
    ("/documents/{key}", "delete"): "Remove a pushed document",
    ("/documents/{key}/state", "get"): "Return the state of a pushed document",
}
_TEXT: Json = {"type": "string"}
_ACTION_RESULT: Json = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "What was done, in a sentence."},
        "result": {
            "description": "A number of items, the number of an undo, or the ID of a run; null if there is none."
        },
    },
    "required": ["message", "result"],
}
_PROBLEM: Json = {"type": "object", "properties": {"error": _TEXT}, "required": ["error"]}
_PROBE: Json = {"type": "object"}
_EVENTS = (
    "Each event `view` is the view as JSON, at first and after each change; `error` says why it cannot be read now."
)


def description(views: Iterable[SharedView], actions: Mapping[str, WebAction[Any]]) -> Json:
    """Return the description. Its schemas are made here, in about a fifth of a second."""
    views = list(views)
    kinds: list[tuple[Any, Any]] = [(view.kind, "serialization") for view in views]
    kinds += [(kind, "validation") for kind in dict.fromkeys(action.fields for action in actions.values())]
    kinds.append((PushFields, "validation"))
    for request, answer, _ in _SEARCHES.values():
        kinds += [(request, "validation"), (answer, "serialization")]
    schemas, definitions = TypeAdapter.json_schemas(
        [(number, mode, TypeAdapter(kind)) for number, (kind, mode) in enumerate(kinds)],
        ref_template="#/components/schemas/{model}",
    )
    by_kind = {kind: schemas[number, mode] for number, (kind, mode) in enumerate(kinds)}
    paths: Json = {f"/api/v1{_path(view.address)}": _view(view, by_kind[view.kind]) for view in views}
    for address, (request, answer, summary) in _SEARCHES.items():
        fields = definitions["$defs"][request.__name__]["properties"]
        paths[f"/api/v1{address}"] = {
            "get": _operation(summary, by_kind[answer], parameters=_fields_in_query(fields)),
            "post": _operation(summary, by_kind[answer], body=by_kind[request]),
        }
    for name, action in actions.items():
        operation = _operation(_summary(name), _ACTION_RESULT, body=by_kind[action.fields])
        paths[f"/api/v1/actions/{name}"] = {"post": operation}
    for (address, method), summary in _PUSHES.items():
        key = [{"name": "key", "in": "path", "required": True, "schema": _TEXT}] if "{" in address else None
        body = by_kind[PushFields] if method in ("post", "put") else None
        path = paths.setdefault(f"/api/v1{address}", {})
        path[method] = _operation(summary, _PROBE, parameters=key, body=body) | {"security": [{"push": []}]}
    view_of = _in_query("view", "Address of a view with its query, such as `/jobs?state=running`.", is_required=True)
    events = _operation("Stream a view", _TEXT, parameters=[view_of], media="text/event-stream")
    paths["/api/v1/events"] = {"get": {**events, "description": _EVENTS}}
    paths["/api/v1/openapi.json"] = {"get": _operation("Return this description", _PROBE)}
    for address, summary in (
        ("/live", "Whether the process responds"),
        ("/ready", "Whether ledger and server respond"),
    ):
        paths[address] = {"get": {**_operation(summary, _PROBE), "security": []}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Catchment", "version": "1", "description": "The library and its operation on this machine."},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {**definitions["$defs"], "Problem": _PROBLEM},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "push": {"type": "http", "scheme": "bearer", "description": "Of `catchment tokens add`."},
            },
        },
    }


def _view(view: SharedView, schema: Json) -> Json:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "integer"} if kind == "number" else _TEXT}
        for name, kind in _PARAMETER.findall(view.address)
    ]
    summary = f"What {_path(view.address)} shows"
    return {"get": _operation(summary, schema, parameters=[*in_path, *map(_in_query, view.query)])}


def _operation(
    summary: str, answer: Json, *, parameters: list[Json] | None = None, body: Json | None = None, media: str = ""
) -> Json:
    operation: Json = {"summary": summary}
    if parameters:
        operation["parameters"] = parameters
    if body:
        operation["requestBody"] = {"content": {"application/json": {"schema": body}}}
    problem = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    operation["responses"] = {
        "200": {"description": "Done", "content": {media or "application/json": {"schema": answer}}},
        "default": {"description": "Not done, and why", "content": problem},
    }
    return operation


def _in_query(name: str, description: str = "", *, is_required: bool = False) -> Json:
    extra = {"description": description} if description else {}
    return {"name": name, "in": "query", "required": is_required, "schema": _TEXT, **extra}


def _fields_in_query(fields: Mapping[str, Json]) -> list[Json]:
    """Return the parameters for the fields of a body, without lists, which only a body can have."""
    return [
        {"name": name, "in": "query", "required": "default" not in schema, "schema": schema}
        for name, schema in fields.items()
        if "array" not in str(schema)
    ]


def _summary(action: str) -> str:
    """Return the first sentence about the function of an action."""
    module, name = action.split(".")
    function = getattr(sys.modules[f"deployments.actions.{module}"], name)
    return (inspect.getdoc(function) or "").partition(".")[0]


def _path(address: str) -> str:
    return _PARAMETER.sub(r"{\1}", address)
