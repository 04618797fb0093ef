"""Commands that show one document: `show`, `related`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import PageSilent
from catchment.runtime import web_process
from console import arguments, completion, render, session
from console.library import message

if TYPE_CHECKING:
    from catchment.ledger import Ledger, Shown
    from catchment.settings import SourceSettings
    from catchment.views.documents import RelatedView

Document = Annotated[
    str,
    typer.Argument(
        metavar="DOCUMENT",
        help="A document's number, title or file name, an item's path, or a file.",
        autocompletion=completion.names("document"),
    ),
]
_OTHERS = 3


def show(
    document: Document,
    full: Annotated[bool, typer.Option("--full", help="For a message, also quotations and the signature.")] = False,
    as_of: Annotated[
        datetime | None,
        typer.Option(
            "--as-of", metavar="TIME", parser=arguments.moment, help="As it was at a time: 2h, 7d, or a date."
        ),
    ] = None,
    as_json: arguments.Json = False,
) -> None:
    """Show a document: its text, properties and warnings.

    For a message: sender and recipients, the text without quotations, attachments, and the conversation around it.
    With --as-of, also one that was deleted; `catchment history` lists the versions.

    Example: catchment show ~/Vault/Bees.md --as-of 7d
    """
    from catchment.views import documents as views
    from catchment.views import resolver
    from catchment.views.versions import versions

    version = None
    with session.reading() as ledger:
        if as_of is None:
            shown = named(ledger, document)
        else:
            version, shown = versions.as_of(ledger, resolver.item(ledger, document, settings).id, as_of)
    view = views.document(shown, version)
    if as_json:
        render.show_json(view)
        return
    is_message = view.is_message
    render.show_fields(
        {
            "title": view.title,
            "from": "; ".join(view.senders) if is_message else None,
            "to": "; ".join(view.recipients) if is_message else None,
            "copy to": "; ".join(view.copied) if is_message else None,
            "document": view.document,
            "version of": render.local(view.since) if view.since else None,
            "replaced": render.local(view.until) if view.until else None,
            "attached to": view.attached_to,
            "found in": "; ".join(f"{source}: {item}" for source, item in view.places),
            "type": view.media_type,
            "language": view.language,
            "author": None if is_message else view.author,
            "sent" if is_message else "created": view.created,
            "received" if is_message else "modified": view.modified,
            "also called": ", ".join(view.aliases),
            "tags": ", ".join(view.tags),
            "properties": "; ".join(f"{name}: {text}" for name, text in view.facts.items()),
            "links": len(view.links) or None,
            "odd": "; ".join(view.warnings),
        }
    )
    render.say()
    if is_message and not full:
        message.show_words(view)
    elif view.files_inside is None:
        render.say(render.clean_block(view.text))
    message.show_attached(view)
    message.show_conversation(view)


def related(document: Document, as_json: arguments.Json = False) -> None:
    """Show links to and from a document, and similar documents.

    Also the conversation of a message, its attachments, copies and near-duplicates. Similarity is measured by meaning.

    Example: catchment related ~/Vault/Bees.md
    """
    with session.reading() as ledger:
        view = _related(ledger, named(ledger, document))
    if view.meaning_off:
        render.note(view.meaning_off)
    render.show_rows(
        view.documents,
        as_json,
        ("RELATION", "DOCUMENT", "TITLE", "SOURCE", "ITEM"),
        lambda row: (row.relation, row.document, row.title, row.source, row.item),
        "no related documents",
    )


def named(ledger: Ledger, name: str) -> Shown:
    """Return the document with this name, and report others that have it in part. Raises NotFound or Ambiguous."""
    from catchment.views import resolver

    match = resolver.document(ledger, name, settings)
    for row in match.others[:_OTHERS]:
        render.note(render.clean(f"{name}: also document {row.document} ({row.source}: {row.locator})"))
    return ledger.library.document(match.number)


def settings() -> dict[str, SourceSettings]:
    """Return the settings of the sources, for names that are paths on the disk."""
    return {name: entry.settings for name, entry in session.desk().entries().items()}


def _related(ledger: Ledger, shown: Shown) -> RelatedView:
    """Ask the running system, or else load the vectors."""
    from catchment.views import documents as views

    try:
        return web_process.fetch(session.home(), "/related", views.RelatedView, document=str(shown.document))
    except PageSilent:
        from catchment.search.meaning.index import MeaningIndex

        return views.related(ledger, shown, MeaningIndex(ledger))
