"""A document to read, alone or in its conversation, with what is linked to it and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from urllib.parse import urlsplit

from markupsafe import Markup

from catchment.errors import NotFound
from catchment.ledger import Shown
from catchment.views import documents, items
from catchment.views.documents import DocumentView
from web import words
from web.site import Data, WebPage
from web.warm_library import RelatedRequest, WarmLibrary

_NEAREST = 8
_AROUND = 25
"""Messages shown before and after one."""
_RELATIONS = {
    "linked from": "Linked from",
    "links to": "Links to",
    "attached": "Attachments",
    "attached to": "Attached to",
    "same content": "Same content",
    "near-duplicate": "Nearly the same",
    "similar": "Similar",
}


def _document(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    ledger = library.ledger
    shown = _shown(library, parameters["document"])
    view = documents.document(shown)
    nearest = RelatedRequest(document=shown.document, limit=_NEAREST)
    found = documents.related(ledger, shown, lambda: library.related(nearest))
    item = ledger.intake.of_document(shown.document)
    relations = {
        _RELATIONS[relation]: list(group)
        for relation, group in groupby(sorted(found.documents, key=lambda one: one.relation), lambda one: one.relation)
        if relation in _RELATIONS
    }
    return {
        "view": view,
        "shown": shown,
        "body": _body(view),
        "relations": relations,
        "meaning_off": found.meaning_off,
        "why": items.why(ledger, item, words.ago) if item else None,
        "crumbs": shown.item.split("/"),
        "address": _address(shown),
    }


def _thread(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    shown = _shown(library, parameters["document"])
    if not shown.conversation:
        raise NotFound(f"document {shown.document}: is not a message; open /documents/{shown.document}")
    position = documents.document(shown).position
    around = shown.conversation[max(0, position - _AROUND) : position + _AROUND + 1]
    messages = [documents.document(library.ledger.library.document(message.document)) for message in around]
    people: dict[str, int] = {}
    for message in messages:
        for sender in map(words.person, message.senders):
            people[sender] = people.get(sender, 0) + 1
    return {
        "shown": shown,
        "messages": messages,
        "total": len(shown.conversation),
        "people": people,
        "attached": [(message, file) for message in messages for file in message.shown.attached],
    }


def _body(view: DocumentView) -> Markup:
    """Return the text of a document as HTML."""
    return Markup('<pre class="plain-text">{}</pre>').format(view.shown.content.text)


def _address(shown: Shown) -> str | None:
    """Return the page of a document on the web."""
    url = shown.metadata.get("url")
    return url if isinstance(url, str) and urlsplit(url).scheme in ("https", "http") else None


def _shown(library: WarmLibrary, number: str) -> Shown:
    return library.ledger.library.document(min(int(number), 2**62))


PAGES = (
    WebPage("/documents/{document:int}", "document.html", _document),
    WebPage("/threads/{document:int}", "thread.html", _thread),
)
