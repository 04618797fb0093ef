"""A document, alone or in its conversation, with its links, origin, versions and file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote, urlencode, urlsplit

from anyio import CapacityLimiter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from catchment.errors import BadInput, CatchmentError, MeaningOff, NotFound
from catchment.ledger import Shown
from catchment.model import PART, PlacedWord
from catchment.search.language import parse_words, without_filters
from catchment.search.present import marks, pattern
from catchment.search.results import Hit
from catchment.views.documents import DocumentView
from catchment.views.hosts import elsewhere
from catchment.views.reading import FileKind, ReadingView, ReadMessage, reading
from catchment.views.served_files import ServedFile, drawn_page, keeps_file, served_file
from catchment.views.versions import versions
from catchment.views.versions.versions import DocumentDiff, DocumentHistory
from web import rendering, template_filters
from web.guard import error
from web.json_interface import status_of
from web.site import Data, WebPage
from web.warm_library import WarmLibrary

_NEAREST = 8
_LISTED = 100
"""Links of one kind that are listed."""
_MOST_VERSIONS = 100
_MOST_SCANS = 20
_MOST_LINES = 1_000
"""Lines of a diff that are shown."""
_MOST_HTML = 36_000
"""Characters of the texts of a conversation on one page."""
_SCHEME = re.compile("^https?://")
_PAGE = re.compile(r"[1-9][0-9]{0,5}")
_UNSAFE = re.compile(r"[^\w .()+-]", re.ASCII)
_CLOSED = "default-src 'none'; frame-ancestors 'none'"
_POLICIES = {"application/pdf": "default-src 'none'; frame-ancestors 'self'"}
"""The page of a document shows its PDF in a frame, and Chromium shows none in a sandbox. No file is ever a page: its type
follows from its bytes, and is never guessed."""


def file_route(library: WarmLibrary) -> Route:
    """Return the route of the file of a document, or with `embed` of a file that its text embeds."""

    async def show(request: Request) -> Response:
        document, embed = request.path_params["document"], request.query_params.get("embed")
        return await _sent(
            library, lambda: served_file(library.home, library.ledger, library.settings, document, embed)
        )

    return Route("/documents/{document:number}/file", show)


def page_route(library: WarmLibrary) -> Route:
    """Return the route of the pictures of recognized pages. One is drawn at a time."""
    alone = CapacityLimiter(1)

    async def show(request: Request) -> Response:
        document, page = request.path_params["document"], request.path_params["page"]
        async with alone:
            return await _sent(
                library, lambda: drawn_page(library.home, library.ledger, library.settings, document, page)
            )

    return Route("/documents/{document:number}/pages/{page:number}", show)


async def _sent(library: WarmLibrary, read: Callable[[], ServedFile]) -> Response:
    try:
        file = await library.read(read)
    except CatchmentError as failure:
        return error(status_of(failure), str(failure))
    plain = _UNSAFE.sub("_", file.name)
    headers = {
        "Content-Security-Policy": _POLICIES.get(file.media_type, f"{_CLOSED}; sandbox"),
        "Content-Disposition": f"inline; filename=\"{plain}\"; filename*=UTF-8''{quote(file.name, safe='', errors='replace')}",
        "Cache-Control": "private, no-cache",
    }
    return Response(file.data, headers=headers, media_type=file.media_type)


def _document(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    view = reading(library.ledger, library.home, int(parameters["document"]), _time(parameters, "as_of"))
    shown = view.shown
    page_text, parts = parameters.get("page", ""), rendering.parts(view)
    page = min(int(page_text), parts) if _PAGE.fullmatch(page_text) else 1
    similar, meaning_off = ([], None) if view.version else _similar(library, view)
    host = elsewhere(library.home, shown.source) if view.file else None
    is_lost = view.file is not None and PART in shown.item and not keeps_file(library.home, library.ledger, shown)
    has_file = view.file is not None and not host and not is_lost
    related_documents = {"Linked from": view.linked_from, "Links to": view.links_to}
    return {
        "reading": view,
        "view": view.view,
        "shown": shown,
        "body": rendering.body(view, page),
        "page": page,
        "parts": parts,
        "file": rendering.file_address(shown.document) if has_file else None,
        "host": host,
        "is_lost": is_lost,
        "is_picture": view.file is FileKind.PICTURE and has_file,
        "scans": _scans(library, shown, parameters.get("q", "")) if has_file else [],
        "related": {
            title: (documents[:_LISTED], len(documents)) for title, documents in related_documents.items() if documents
        },
        "similar": similar,
        "meaning_off": meaning_off,
        "crumbs": _SCHEME.sub("", shown.item.partition(";UIDVALIDITY=")[0]).rstrip("/").split("/")
        + [shown.file] * bool(shown.file),
        "opener": None if view.version else _opener(shown),
    }


def _versions(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    number = int(parameters["document"])
    item = versions.item_of(library.ledger, number)
    return {"view": versions.history(library.ledger, item.id, _MOST_VERSIONS), "number": number, "item": item}


def _diff(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    number = int(parameters["document"])
    item = versions.item_of(library.ledger, number)
    since, until = _time(parameters, "since"), _time(parameters, "until")
    view = versions.diff(library.ledger, item.id, since, until)
    return {"view": view, "number": number, "lines": view.lines[:_MOST_LINES], "more": len(view.lines) - _MOST_LINES}


def _conversation(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    view = reading(library.ledger, library.home, int(parameters["document"]))
    document = view.shown.document
    if not view.conversation:
        raise NotFound(f"document {document}: is not a message; open /documents/{document}")
    bodies = rendering.messages(view)
    first, last = _page_range(view, bodies)
    messages, everyone = view.conversation[first : last + 1], [entry.message for entry in view.conversation]
    return {
        "shown": view.shown,
        "everyone": everyone,
        "messages": messages,
        "bodies": bodies,
        "earlier": (_edge(view, first - 1), first),
        "later": (_edge(view, last + 1), len(everyone) - last - 1),
        "people": Counter(template_filters.person(message.author) for message in everyone if message.author),
        "attachments": [file for entry in messages if entry.view for file in entry.view.attached],
        "copies": view.copies,
    }


def _page_range(view: ReadingView, bodies: Mapping[int, str]) -> tuple[int, int]:
    """Return the first and last index of the messages around the shown one, as many as fit into a page."""
    documents = [entry.message.document for entry in view.conversation]
    first = last = documents.index(view.shown.document)
    room = _MOST_HTML - len(bodies[documents[first]])
    for _ in documents:
        for place in (last + 1, first - 1):
            if not 0 <= place < len(documents) or documents[place] not in bodies:
                continue
            if (room := room - len(bodies[documents[place]])) < 0:
                return first, last
            first, last = min(first, place), max(last, place)
    return first, last


def _edge(view: ReadingView, place: int) -> ReadMessage | None:
    """Return the message of a conversation at a place, None outside."""
    return view.conversation[place] if 0 <= place < len(view.conversation) else None


def _similar(library: WarmLibrary, view: ReadingView) -> tuple[list[Hit], str | None]:
    """Return the documents of similar meaning that are not linked yet, or why there are none. Never waits for the model."""
    if library.meaning_off is not None:
        return [], library.meaning_off
    shown = view.shown
    shown_documents = {
        shown.document,
        *(entry.message.document for entry in view.conversation),
        *(copy.document for copy in view.copies),
    }
    shown_documents |= {link.document for link in (*view.links_to, *view.linked_from)}
    try:
        hits = library.near(shown.content_id, _NEAREST)
    except MeaningOff as unavailable:
        return [], str(unavailable)
    return [hit for hit in hits if hit.document not in shown_documents], None


def _scans(library: WarmLibrary, shown: Shown, query: str) -> list[tuple[int, list[PlacedWord]]]:
    """Return the first recognized pages of a document, each with its words that match the words of a query."""
    if not shown.content.recognized:
        return []
    pages = library.ledger.recognition.texts({shown.content_hash}).get(shown.content_hash, {})
    patterns = [
        pattern(replace(term, prefix=True)) for terms in parse_words(without_filters(query)).wanted for term in terms
    ]
    return [
        (number, [word for word in page.words if marks(word.text, patterns, ())])
        for number, page in sorted(pages.items())
        if page.text
    ][:_MOST_SCANS]


def _opener(shown: Shown) -> tuple[str, str] | None:
    """Return the address that opens a document elsewhere, and the words for that place; None without such an address."""
    url, vault = shown.metadata.get("url"), shown.metadata.get("vault")
    if isinstance(url, str) and urlsplit(url).scheme in ("https", "http"):
        return url, "on the web"
    if isinstance(vault, str):
        return f"obsidian://open?{urlencode({'vault': vault, 'file': shown.item}, quote_via=quote)}", "in Obsidian"
    return None


def _time(parameters: Mapping[str, str], name: str) -> datetime | None:
    if not (text := parameters.get(name)):
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadInput(f"{name}: not a time; example: 2026-11-20T14:00:00Z") from None


PAGES = (
    WebPage(
        "/documents/{document:number}", "document.html", _document, ("text",), shared=DocumentView, query=("as_of",)
    ),
    WebPage("/documents/{document:number}/versions", "versions.html", _versions, shared=DocumentHistory),
    WebPage("/documents/{document:number}/diff", "diff.html", _diff, shared=DocumentDiff, query=("since", "until")),
    WebPage("/conversations/{document:number}", "conversation.html", _conversation),
)
