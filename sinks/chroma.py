"""A Chroma server by its REST interface: a collection of passages with their embeddings, and one of documents.

The place is the address of the server with the name of the collection, such as `http://127.0.0.1:8000/library`. The collection
`library-documents` has the version of each document that is complete in `library`, also of those without embeddings, and the
stamp in its metadata.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from catchment.errors import BadInput, DocumentRefused, Refused, SinkUnavailable
from catchment.model import DocumentCopy
from catchment.pacing.json_server import JsonServer, ServerFailed
from catchment.runtime.addresses import PASSWORD_IN_ADDRESS, host_of

_API = "/api/v2/tenants/default_tenant/databases/default_database/collections"
_NAME = re.compile(r"[a-zA-Z0-9][\w.-]{1,200}[a-zA-Z0-9]\Z", re.ASCII)
_SECONDS = 30.0
_MOST_BYTES = 16 * 1024 * 1024
_PAGE = 500
_MOST_PAGES = 10_000
"""Five million documents. A server may give new pages without end."""
_MOST_ROWS = 10_000
"""Rows of a request, however many the server would take."""
_INVALID = (400, 413, 422)
_MISSING = (*_INVALID, 404)
_ANY_VECTOR = [1.0]
"""Chroma has no records without one."""


class Chroma:
    """Two collections of a Chroma server."""

    batch = 100
    wants_vectors = True
    is_folder = False

    def __init__(self, place: str, password: str = "", *, create: bool = False) -> None:
        address = urlsplit(place)
        self._name = address.path.strip("/")
        if address.scheme not in ("http", "https") or not host_of(place) or not self._name:
            raise BadInput("chroma: not an address with a collection; write http://HOST:8000/COLLECTION")
        if "@" in address.netloc:
            raise BadInput(f"chroma: {PASSWORD_IN_ADDRESS}")
        if not _NAME.match(self._name):
            raise BadInput(
                "chroma: not a name of a collection; use 3 to 202 letters, digits and ._- (a letter or digit at both ends)"
            )
        token = password.encode()
        headers = {b"Authorization": b"Bearer " + token, b"X-Chroma-Token": token} if password else {}
        base = f"{address.scheme}://{address.netloc}"
        self._server = JsonServer(base, headers, seconds=_SECONDS, most_bytes=_MOST_BYTES)
        most = self._object("GET", "/api/v2/pre-flight-checks").get("max_batch_size")
        if not isinstance(most, int) or most < 1:
            raise _unusable()
        self._most = min(most, _MOST_ROWS)
        if create and self._found(self._name) is not None:
            raise Refused(f"chroma: the collection {self._name} exists already; choose another name")
        self._passages = self._collection(self._name, create)
        self._documents = self._collection(f"{self._name}-documents", create)

    def close(self) -> None:
        return

    def versions(self, after: int, last: int) -> Mapping[int, str]:
        versions = dict[int, str]()
        where = {"$and": [{"document": {"$gt": after}}, {"document": {"$lte": last}}]}
        for page in range(_MOST_PAGES):
            body = {"where": where, "limit": _PAGE, "offset": page * _PAGE, "include": ["metadatas"]}
            rows = self._object("POST", f"{_API}/{self._documents}/get", body).get("metadatas")
            if not isinstance(rows, list) or len(rows) > _PAGE:
                raise _unusable()
            for row in rows:
                number, version = _version_in(row)
                if not after < number <= last or number in versions:
                    raise _unusable()
                versions[number] = version
            if len(rows) < _PAGE:
                return versions
        raise _unusable()

    def write(self, changed: Sequence[DocumentCopy], removed: Collection[int]) -> None:
        """Delete all earlier passages first, because a shorter document has fewer. Write the version last."""
        numbers = [*removed, *(document.id for document in changed)]
        where = {"document": {"$in": numbers}}
        self._ask("POST", f"{_API}/{self._documents}/delete", {"where": where})
        self._ask("POST", f"{_API}/{self._passages}/delete", {"where": where})
        rows = [row for document in changed for row in _passages(document)]
        try:
            self._upsert(rows)
        except DocumentRefused:
            # Another model has other dimensions. All other passages are sent again, too.
            if not rows or self._dimension() in (None, len(rows[0]["embedding"])):
                raise
            self._ask("DELETE", f"{_API}/{self._name}")
            self._passages = self._collection(self._name, create=True)
            self._upsert(rows)
        self._upsert([_version(document) for document in changed], self._documents)

    def mark(self, stamp: str) -> None:
        self._ask("PUT", f"{_API}/{self._documents}", {"new_metadata": {"stamp": stamp}})

    def stamp(self) -> str | None:
        known = self._object("GET", f"{_API}/{self._name}-documents").get("metadata")
        stamp = known.get("stamp") if isinstance(known, dict) else known
        if not isinstance(stamp, str | None):
            raise _unusable()
        return stamp

    def _upsert(self, rows: Sequence[Mapping[str, Any]], collection: str | None = None) -> None:
        for start in range(0, len(rows), self._most):
            part = rows[start : start + self._most]
            body = {f"{key}s": [row[key] for row in part] for key in ("id", "embedding", "document", "metadata")}
            status, _ = self._answer("POST", f"{_API}/{collection or self._passages}/upsert", body, _INVALID)
            if status in _INVALID:
                raise DocumentRefused(f"refused by Chroma (status {status})")

    def _dimension(self) -> int | None:
        dimension = self._object("GET", f"{_API}/{self._name}").get("dimension")
        if not isinstance(dimension, int | None):
            raise _unusable()
        return dimension

    def _found(self, name: str) -> str | None:
        """Return the ID of a collection; None if there is none."""
        status, value = self._answer("GET", f"{_API}/{name}", None, _MISSING)
        return None if status in _MISSING else _id_in(value)

    def _collection(self, name: str, create: bool) -> str:
        """Return the ID of a collection. Raises SinkUnavailable if it is missing."""
        if create:
            body = {"name": name, "get_or_create": True, "configuration": {"hnsw": {"space": "cosine"}}}
            return _id_in(self._ask("POST", _API, body))
        if (collection := self._found(name)) is None:
            raise SinkUnavailable(f"the collection {name} is missing; restore it, or remove the sink")
        return collection

    def _object(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        value = self._ask(method, path, body)
        if not isinstance(value, dict):
            raise _unusable()
        return value

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        return self._answer(method, path, body, ())[1]

    def _answer(self, method: str, path: str, body: Any, expected: Collection[int]) -> tuple[int, Any]:
        """Return status and value of a success, or of an expected failure."""
        try:
            status, value = self._server.ask(method, path, body)
        except ServerFailed as failure:
            raise SinkUnavailable(f"the Chroma server {failure}; start it, or correct its address") from None
        if not 200 <= status < 300 and status not in expected:
            raise SinkUnavailable(f"the Chroma server failed (status {status}); see its log")
        return status, value


def _unusable() -> SinkUnavailable:
    return SinkUnavailable(
        "the Chroma server gave an answer that is not in its format; correct its address, or update it"
    )


def _id_in(value: Any) -> str:
    """Return the ID of a collection, which becomes a part of addresses."""
    try:
        return str(UUID(value["id"]))
    except (TypeError, KeyError, ValueError, AttributeError):
        raise _unusable() from None


def _version_in(row: Any) -> tuple[int, str]:
    """Return ID and version of a document in the metadata of its record. Another program may have changed the version."""
    if not isinstance(row, dict) or not isinstance(row.get("document"), int):
        raise _unusable()
    return row["document"], str(row.get("version"))


def _passages(document: DocumentCopy) -> Iterator[dict[str, Any]]:
    for vector in document.vectors:
        chunk = document.chunks[vector.chunk]
        yield {
            "id": f"{document.id}:{vector.chunk}:{vector.part}",
            "embedding": vector.values,
            "document": document.text[chunk.start : chunk.end],
            "metadata": {**_metadata(document), "chunk": vector.chunk, "part": vector.part, "heading": chunk.heading},
        }


def _version(document: DocumentCopy) -> dict[str, Any]:
    known = {**_metadata(document), "version": document.version}
    return {"id": str(document.id), "embedding": _ANY_VECTOR, "document": document.title, "metadata": known}


def _metadata(document: DocumentCopy) -> dict[str, Any]:
    moment = document.created or document.modified
    return {
        "document": document.id,
        "title": document.title,
        "source": document.source,
        "item": document.item,
        "media_type": document.media_type,
        **({"moment": moment.isoformat()} if moment else {}),
    }
