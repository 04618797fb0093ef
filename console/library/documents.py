"""Commands that show one document: `show`, `related`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.errors import MeaningOff
from catchment.model import EntityKind, LinkKind
from console import arguments, render, session
from console.library import message, vault

if TYPE_CHECKING:
    from catchment.ledger import Ledger, Named, Shown
    from catchment.results import Hit

Document = Annotated[str, typer.Argument(metavar="DOCUMENT|LOCATOR", help="A document's number, or an item's path.")]
_NEAREST = 10


def show(
    document: Document,
    full: Annotated[
        bool, typer.Option("--full", help="Of a message also what it quotes, and how it is signed.")
    ] = False,
    as_json: arguments.Json = False,
) -> None:
    """Show a document: its text, properties and warnings.

    For a message: sender and recipients, the text without quotations, attachments, and the conversation around it.

    Example: catchment show ~/Vault/Bees.md
    """
    with session.reading() as ledger:
        shown = ledger.library.show(document)
    if as_json:
        render.show_json(_shown(shown))
        return
    content = shown.content
    is_message = message.is_message(shown)
    said = content.properties if is_message else {}
    render.show_fields(
        {
            "title": shown.title,
            "from": "; ".join(said.get("from", ())),
            "to": "; ".join(said.get("to", ())),
            "copy to": "; ".join(said.get("cc", ())),
            "document": shown.document,
            "attached to": shown.carrier,
            "found in": "; ".join(f"{source}: {item}" for source, item in shown.places),
            "type": content.media_type,
            "language": content.language,
            "author": None if is_message else content.author,
            "sent" if is_message else "created": content.created,
            "received" if is_message else "modified": shown.modified or content.modified,
            "also called": ", ".join(shown.aliases),
            "tags": ", ".join(sorted({e.value for e in shown.entities if e.kind is EntityKind.TAG})),
            "links": len(shown.links) or None,
            "odd": "; ".join(content.warnings),
        }
    )
    render.say()
    if full or not is_message:
        render.say(render.clean_block(content.text))
    else:
        message.show_words(content.text)
    message.show_attached(shown)
    message.show_thread(shown)


def related(document: Document, as_json: arguments.Json = False) -> None:
    """Show links to and from a document, and similar documents.

    Also the conversation of a message, its attachments, copies and near-duplicates. Similarity is that of the meaning.

    Example: catchment related ~/Vault/Bees.md
    """
    with session.reading() as ledger:
        shown = ledger.library.show(document)
        relations = [*message.relations(shown), *_same(shown)]
        if shown.mentions or any(link.kind is not LinkKind.URL for link in shown.links):
            source = ledger.sources.get(shown.source).id
            named = {name.locator: name for name in ledger.library.names(source)}
            relations = [*_linked(shown, named, vault.files(ledger, source)), *relations]
        known = {relation["document"] for relation in relations} | {shown.document}
        relations += _near(ledger, shown, known)
    if as_json:
        render.show_json(relations)
    elif relations:
        headers = ("RELATION", "DOCUMENT", "TITLE", "SOURCE", "ITEM")
        keys = [header.lower() for header in headers]
        render.show_table(headers, [tuple(relation[key] for key in keys) for relation in relations])
    else:
        render.note("nothing is related")


def _near(ledger: Ledger, shown: Shown, known: Collection[int | None]) -> list[dict[str, Any]]:
    """Return the documents with a similar meaning, except known ones."""
    from catchment.search.related import SAME

    try:
        hits = _similar(ledger, shown)
    except MeaningOff as off:
        render.note(str(off))
        return []
    return [
        message.relation(
            "near-duplicate" if (hit.cosine or 0) >= SAME else "similar",
            hit.document,
            hit.title,
            hit.source,
            hit.item,
            hit.cosine,
        )
        for hit in hits
        if hit.document not in known
    ]


def _similar(ledger: Ledger, shown: Shown) -> list[Hit]:
    """Ask the running system, or else load the vectors. Raises MeaningOff."""
    from catchment.search import remote

    try:
        return remote.related(session.home(), shown.document, _NEAREST)
    except MeaningOff:
        from catchment.meaning.meaning import Meaning
        from catchment.search.related import related

        return related(ledger, Meaning(ledger), shown.content_id, _NEAREST)


def _linked(shown: Shown, named: Mapping[str, Named], paths: Iterable[str]) -> list[dict[str, Any]]:
    from catchment.content.extract.vault import VaultIndex

    index = VaultIndex(paths)
    written = [link for link in shown.links if link.kind is not LinkKind.URL and link.target]
    targets = dict.fromkeys(path for link in written if (path := index.resolve(link.target, shown.item)))
    sources = dict.fromkeys(item for item, link in shown.mentions if index.resolve(link.target, item) == shown.item)
    found = [("links to", path) for path in targets] + [("linked from", item) for item in sources]
    return [
        message.relation(how, named[item].document, named[item].title, shown.source, item)
        for how, item in found
        if item in named and item != shown.item
    ]


def _same(shown: Shown) -> list[dict[str, Any]]:
    same = [place for place in shown.places if place != (shown.source, shown.item)]
    return [message.relation("same content", None, shown.title, source, item) for source, item in same]


def _shown(shown: Shown) -> dict[str, Any]:
    content = shown.content
    return {
        "document": shown.document,
        "title": shown.title,
        "source": shown.source,
        "item": shown.item,
        "places": [{"source": source, "item": item} for source, item in shown.places],
        "media_type": content.media_type,
        "language": content.language,
        "author": content.author,
        "created": content.created,
        "modified": shown.modified or content.modified,
        "content_hash": shown.content_hash,
        "properties": content.properties,
        "metadata": shown.metadata,
        "aliases": shown.aliases,
        "warnings": content.warnings,
        "links": [
            {"kind": link.kind, "target": link.target, "anchor": link.anchor, "label": link.label}
            for link in shown.links
        ],
        "entities": [
            {"kind": entity.kind, "value": entity.value, "detail": entity.detail} for entity in shown.entities
        ],
        "text": content.text,
        **message.as_json(shown),
    }
