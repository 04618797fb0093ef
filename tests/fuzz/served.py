"""Targets for the web process and the assistants' server: requests, calls, stored vectors, and the marks around texts."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterator, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import httpx
import orjson

from assistant.answers import MOST_BYTES, FoundDocument, FoundPassage
from assistant.mcp_server import call
from assistant.shared_library import AssistantLibrary
from assistant.untrusted import as_text
from catchment.ledger import Ledger, Space, Vector
from catchment.ledger.library.embeddings import Watermark
from catchment.search.meaning.vectors import Vectors
from tests.fuzz.asked import library
from tests.fuzz.target import Target, shaped, woven
from web.__main__ import desk_of
from web.app import application
from web.guard import Guard
from web.readiness import Readiness
from web.warm_library import WarmLibrary

_SPACE = Space(1, "model", "use", 8)
_ROWS = """
abcdefgh
␀␀␀␀␀␀␀␀
zzzzzzzz
a
"""
_TEXTS = """
![
a](
http://evil.example/
(x)
)
<img src=
<svg/onload=
>
</untrusted
</untrusted id=
<untrusted id=
␤
[
]
\u200b
\u202e
\U000e0041
\ufe0f
\x1b[31m
\x1b]8;;
data:
title:␠
"""
_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("search", {"query": "gauge", "limit": 5, "offset": 0}),
    ("search", {"query": "-weir OR source:papers has:link"}),
    ("read", {"document": 1, "limit": 100, "offset": 2}),
    ("related", {"document": 1, "limit": 1}),
    ("status", {"offset": 0}),
    ("why", {"item": "a.md"}),
    ("plan", {"source": "papers", "offset": 1}),
)
_ASKED: tuple[dict[str, Any], ...] = (
    {
        "text": "gauge",
        "limit": 5,
        "offset": 0,
        "by_conversation": True,
        "lanes": "words",
        "now": "2026-01-31T12:00:00Z",
    },
    {"text": "gauge after:2025", "lanes": "meaning"},
    {"document": 1, "limit": 2},
)
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\ufe00-\ufe0f\U000e0000-\U000e01ef]"
)
_LOADED = re.compile(r"!\[|<(img|svg|script|iframe)\b|\]\(\s*<?\s*(https?:|data:|//)", re.IGNORECASE)


def targets() -> Iterator[Target]:
    """Return the targets for everything that the two servers receive or pass on."""
    yield Target("web-request", _web_request, shaped(*_ASKED))
    yield Target("assistant-call", _assistant_call, shaped(*map(list, _CALLS)))
    yield Target("untrusted-text", _untrusted_text, woven(_TEXTS))
    yield Target("vectors", _vectors, woven(_ROWS.replace("␀", "\x00"), most=12))


def _web_request(data: bytes) -> None:
    """Any body is answered or refused in JSON, and never by an internal error."""
    for path in ("/api/v1/search", "/api/v1/related"):
        response = _loop().run(_web().post(path, content=data))
        assert response.status_code in (200, 400, 404, 413, 503), response.text
        assert isinstance(response.json(), dict | list)


def _assistant_call(data: bytes) -> None:
    """Any call is answered in both forms with 20 kB at most, or refused in one line."""
    given = orjson.loads(data)
    if not isinstance(given, list) or len(given) != 2 or not isinstance(given[1], dict):
        return
    result = call(_assistant(), str(given[0]), given[1])
    [content] = result.content
    assert content.type == "text"
    assert not _INVISIBLE.search(content.text)
    if result.is_error:
        assert "\n" not in content.text and len(content.text) <= 500 and "internal error" not in content.text
    else:
        assert max(len(content.text.encode()), len(orjson.dumps(result.structured_content))) <= MOST_BYTES


def _untrusted_text(data: bytes) -> None:
    """A text cannot end its fence, hide characters, or have a client load an address."""
    words = data.decode("utf-8", "replace")
    passage = FoundPassage(title=words, place=words, author=words, passage=words, address=words)
    hit = FoundDocument(
        document=1,
        source="a",
        kind="b",
        media_type="c",
        date=None,
        state=None,
        found_by="words",
        copies=0,
        untrusted=passage,
    )
    text = as_text(hit)
    [fence] = re.findall(r"<untrusted id=(\w{8})>", text)
    assert text.endswith(f"</untrusted id={fence}>")
    assert len(re.findall(r"<[/\s]*untrusted", text, re.IGNORECASE)) == 2
    assert not _LOADED.search(text) and not _INVISIBLE.search(text)


def _vectors(data: bytes) -> None:
    """Of vectors with any values, each cosine is a number from -1 to 1."""
    width = _SPACE.dimensions
    starts = range(0, len(data) - width + 1, width)
    rows = [Vector(number, number, number, data[start : start + width]) for number, start in enumerate(starts, 1)]
    vectors = Vectors(cast(Ledger, SimpleNamespace(embeddings=_Stored(rows))), _SPACE)
    vectors.refresh()
    found = vectors.nearest([math.sqrt(1 / 8)] * 8, 5)
    assert all(-1.001 <= near.cosine <= 1.001 for near in found)
    mean, deviation = vectors.random
    assert -1.001 <= mean <= 1.001 and 0 <= deviation <= 1.001
    for near in found:
        assert all(-1.001 <= other.cosine <= 1.001 for other in vectors.related(near.content_id, 5))


class _Stored:
    """The embeddings of a ledger with these rows."""

    def __init__(self, rows: Sequence[Vector]) -> None:
        self._rows = rows

    def watermark(self) -> Watermark:
        return Watermark(len(self._rows), len(self._rows), 0)

    def vectors(self, _space: Space, after: int) -> Iterator[Sequence[Vector]]:
        if new := self._rows[after:]:
            yield new

    title_vectors = vectors


@cache
def _loop() -> asyncio.Runner:
    return asyncio.Runner()


@cache
def _web() -> httpx.AsyncClient:
    """A client of the web application, without a socket."""
    warm = WarmLibrary(library().home, lambda _reason: None)
    web = application(warm, Readiness(warm, None), desk_of(warm.home), "token")
    app = Guard(web.app, web.check, 8000)
    headers = {"Authorization": "Bearer token"}
    transport = httpx.ASGITransport(app=cast(Any, app))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000", headers=headers)


@cache
def _assistant() -> AssistantLibrary:
    return AssistantLibrary(library().home)
