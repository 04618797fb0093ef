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

import httpx

from catchment.errors import BadInput, DocumentRefused, Refused, SinkUnavailable
from catchment.model import DocumentCopy
from catchment.runtime.addresses import host_of

_API = "/api/v2/tenants/default_tenant/databases/default_database/collections"
_NAME = re.compile(r"[a-zA-Z0-9][\w.-]{1,200}[a-zA-Z0-9]\Z", re.ASCII)
_SECONDS = 30.0
_PAGE = 5_000
_INVALID = (400, 413, 422)
_ANY_VECTOR = [1.0]
"""Chroma has no records without one."""


class Chroma:
    """Two collections of a Chroma server."""

    batch = 100
    wants_vectors = True

    def __init__(self, place: str, password: str = "", *, create: bool = False) -> None:
        address = urlsplit(place)
        self._name = address.path.strip("/")
        if address.scheme not in ("http", "https") or not host_of(place) or not _NAME.match(self._name):
            raise BadInput("chroma: not an address with a collection; write http://HOST:8000/COLLECTION")
        headers = {"Authorization": f"Bearer {password}", "X-Chroma-Token": password} if password else {}
        base = f"{address.scheme}://{address.netloc}"
        # A proxy would receive the texts.
        self._client = httpx.Client(base_url=base, headers=headers, timeout=_SECONDS, trust_env=False)
        try:
            self._most = int(self._ask("GET", "/api/v2/pre-flight-checks")["max_batch_size"])
            if create and self._exists(self._name):
                raise Refused(f"chroma: the collection {self._name} exists already; choose another name")
            self._passages = self._collection(self._name, create)
            self._documents = self._collection(f"{self._name}-documents", create)
        except BaseException:
            self._client.close()
            raise

    def close(self) -> None:
        self._client.close()

    def versions(self, after: int, last: int) -> Mapping[int, str]:
        found = dict[int, str]()
        where = {"$and": [{"document": {"$gt": after}}, {"document": {"$lte": last}}]}
        while True:
            body = {"where": where, "limit": _PAGE, "offset": len(found), "include": ["metadatas"]}
            rows = self._ask("POST", f"{_API}/{self._documents}/get", body)["metadatas"]
            found |= {row["document"]: row["version"] for row in rows}
            if len(rows) < _PAGE:
                return found

    def write(self, changed: Sequence[DocumentCopy], removed: Collection[int]) -> None:
        """Delete all earlier passages first, because a shorter document has fewer. The version comes last."""
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
        known = self._ask("GET", f"{_API}/{self._name}-documents")["metadata"] or {}
        stamp: str | None = known.get("stamp")
        return stamp

    def _upsert(self, rows: Sequence[Mapping[str, Any]], collection: str | None = None) -> None:
        for start in range(0, len(rows), self._most):
            part = rows[start : start + self._most]
            body = {f"{key}s": [row[key] for row in part] for key in ("id", "embedding", "document", "metadata")}
            self._ask("POST", f"{_API}/{collection or self._passages}/upsert", body)

    def _dimension(self) -> int | None:
        found: int | None = self._ask("GET", f"{_API}/{self._name}").get("dimension")
        return found

    def _exists(self, name: str) -> bool:
        return any(row["name"] == name for row in self._ask("GET", f"{_API}?limit=1000"))

    def _collection(self, name: str, create: bool) -> str:
        """Return the ID of a collection. Raises SinkUnavailable if it is missing."""
        if not create:
            try:
                return str(self._ask("GET", f"{_API}/{name}")["id"])
            except DocumentRefused:
                raise SinkUnavailable(f"the collection {name} is missing; restore it, or remove the sink") from None
        body = {"name": name, "get_or_create": True, "configuration": {"hnsw": {"space": "cosine"}}}
        return str(self._ask("POST", _API, body)["id"])

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        try:
            answer = self._client.request(method, path, json=body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            problem = f"the Chroma server does not respond ({type(error).__name__})"
            raise SinkUnavailable(f"{problem}; start it, or correct its address") from error
        if answer.status_code in (*_INVALID, 404):
            raise DocumentRefused(f"refused by Chroma (status {answer.status_code})")
        if not answer.is_success:
            raise SinkUnavailable(f"the Chroma server failed (status {answer.status_code}); see its log")
        return answer.json() if answer.content else None


def _passages(document: DocumentCopy) -> Iterator[dict[str, Any]]:
    for one in document.vectors:
        chunk = document.chunks[one.chunk]
        yield {
            "id": f"{document.id}:{one.chunk}:{one.part}",
            "embedding": one.values,
            "document": document.text[chunk.start : chunk.end],
            "metadata": {**_metadata(document), "chunk": one.chunk, "part": one.part, "heading": chunk.heading},
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
