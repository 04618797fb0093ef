"""Commands that read the library: `search`, `show`, `related`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.errors import BadInput, MeaningOff
from catchment.model import EntityKind, LinkKind
from console import arguments, render, session
from console.library import message, vault

if TYPE_CHECKING:
    from catchment.ledger import Hit, Named, Shown
    from catchment.search.search import Results

Document = Annotated[str, typer.Argument(metavar="DOCUMENT|LOCATOR", help="A document's number, or an item's path.")]


def _kinds(incomplete: str) -> list[str]:
    from connectors import kinds

    return [kind for kind in kinds() if kind.startswith(incomplete)]


def _types(incomplete: str) -> list[str]:
    from catchment.search.language import TYPES

    return [name for name in TYPES if name.startswith(incomplete)]


def search(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORDS]...", help='Words, "a phrase", prefix*, -without, this OR that, and filters.'),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Only in this source.", autocompletion=session.source_names)
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Only in sources of this kind.", autocompletion=_kinds)] = None,
    media_type: Annotated[
        str | None, typer.Option("--type", help="Only documents of this type.", autocompletion=_types)
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Only with this tag, or one below it.")] = None,
    after: Annotated[str | None, typer.Option(help="Only from this date on: 2025, 2025-03, yesterday.")] = None,
    before: Annotated[str | None, typer.Option(help="Only before this date.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="At most so many hits.")] = 20,
    page: Annotated[int, typer.Option(min=1, max=10_000, help="Which page of hits.")] = 1,
    threads: Annotated[bool, typer.Option("--threads", help="Of each conversation only the best hit.")] = False,
    as_json: arguments.Json = False,
) -> None:
    """Find documents by their words, best first.

    A word also finds its other forms, and a word that occurs nowhere is corrected. Filters, in any order:
    source: kind: type: tag: title: path: in: from: to: lang: has: date: after: before:
    With a minus before it, a word or filter excludes.

    Examples: catchment search girder tag:bridge after:2025
              catchment search "type:mail from:maria date:\"last month\""
              catchment search -- garden -winter
    """
    options = {"source": source, "kind": kind, "type": media_type, "tag": tag, "after": after, "before": before}
    query = " ".join([*(words or ()), *(f'{name}:"{value}"' for name, value in options.items() if value is not None)])
    if not query.strip():
        raise BadInput("argument missing; see `catchment search --help`")
    found = _find(query, source, limit=limit, offset=(page - 1) * limit, by_thread=threads)
    show_understanding(found)
    if as_json:
        render.show_json([_hit(hit) for hit in found.hits])
        return
    for hit in found.hits:
        show_hit(hit)
    first, last = (page - 1) * limit + 1, (page - 1) * limit + len(found.hits)
    if not found.hits:
        render.note("nothing found")
    elif found.total > last:
        render.note(f"{first} to {last} of {found.total} hits; the next: --page {page + 1}")
    elif page > 1:
        render.note(f"{first} to {last} of {found.total} hits")


def _find(query: str, source: str | None, *, limit: int, offset: int, by_thread: bool) -> Results:
    """Search by the running system, or in this process by words if none runs or the query has an error."""
    from catchment.search import remote

    now = datetime.now().astimezone()
    try:
        return remote.search(session.home(), query, now, limit=limit, offset=offset, by_thread=by_thread)
    except MeaningOff as reason:
        from catchment.ledger.library.embeddings import OFF
        from catchment.search.search import search as find

        with session.reading() as ledger:
            if source:
                ledger.sources.get(source)
            found = find(ledger, query, now, limit=limit, offset=offset, by_thread=by_thread)
            embeddings = ledger.embeddings
            has_meaning = found.understood.words and embeddings.setting != OFF and embeddings.searched()
        return replace(found, meaning_off=str(reason)) if has_meaning else found


def show_understanding(found: Results) -> None:
    """Say which words were corrected, and that no document has all of them."""
    for word in found.corrected:
        others = " or ".join(word.corrections)
        problem = "is rare; did you mean {}? It was" if word.count else "does not occur; {} was"
        render.note(f"{word.text} {problem.format(others)} searched for as well")
    if found.meaning_off:
        render.note(f"searched by words only; {found.meaning_off}")
    if found.is_partial and found.hits:
        render.note("no document has all the words; these have some of them")


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
    """Show the documents that a document links to, or that link to it.

    Also the conversation of a message, its attachments, and other places of the same content.

    Example: catchment related ~/Vault/Bees.md
    """
    with session.reading() as ledger:
        shown = ledger.library.show(document)
        relations = [*message.relations(shown), *_same(shown)]
        if shown.mentions or any(link.kind is not LinkKind.URL for link in shown.links):
            source = ledger.sources.get(shown.source).id
            named = {name.locator: name for name in ledger.library.names(source)}
            relations = [*_linked(shown, named, vault.files(ledger, source)), *relations]
    if as_json:
        render.show_json(relations)
    elif relations:
        headers = ("RELATION", "DOCUMENT", "TITLE", "SOURCE", "ITEM")
        render.show_table(headers, [tuple(relation.values()) for relation in relations])
    else:
        render.note("nothing is related")


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


def _hit(hit: Hit) -> dict[str, Any]:
    return {
        "document": hit.document,
        "title": hit.title,
        "source": hit.source,
        "item": hit.item,
        "snippet": hit.snippet,
        "score": round(hit.score, 4),
        "places": [{"source": source, "item": item} for source, item in hit.places],
        "thread": hit.thread,
        "alike": hit.alike,
        "media_type": hit.media_type,
        "author": hit.author,
        "moment": hit.moment,
    }


def show_hit(hit: Hit) -> None:
    """Show one hit in three lines: its title and number, where it is, and the passage."""
    # Of a message in a mailbox, the folder says more than its number in it.
    place, is_message, _ = hit.item.partition(";UIDVALIDITY=")
    facts = [f"{hit.source}: {place}"]
    if hit.author and (is_message or hit.media_type == "message/rfc822"):
        facts.insert(0, hit.author)
    if hit.moment is not None:
        facts.append(f"{hit.moment.astimezone():%Y-%m-%d}")
    if len(hit.places) > 1:
        facts.append(f"+{render.count(len(hit.places) - 1, 'copy', 'copies')}")
    if hit.alike > 1:
        facts.append(f"and {render.count(hit.alike - 1, 'more message')} of this conversation")
    render.say(
        f"{render.paint(render.clean(hit.title) or '(no title)', 'bold')}  {render.paint(str(hit.document), 'dim')}"
    )
    render.say(f"  {render.paint(render.clean(' · '.join(facts)), 'dim')}")
    render.show_paragraph(hit.snippet, indent=2)


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
