"""Commands that read the library: `search`, `show`, `related`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from console import render, session

if TYPE_CHECKING:
    from catchment.ledger import Hit

Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


def search(
    words: Annotated[list[str], typer.Argument(help='Words; "a phrase" in quotes, prefix*, -without.')],
    source: Annotated[
        str | None, typer.Option(help="Only in this source.", autocompletion=session.source_names)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="At most so many hits.")] = 20,
    as_json: Json = False,
) -> None:
    """Find documents by their words, best first.

    To search for what is NOT there, put `--` before the words: catchment search -- garden -winter
    """
    with session.reading() as ledger:
        if source:
            ledger.sources.get(source)
        hits = ledger.library.search(" ".join(words), source=source, limit=limit)
    if as_json:
        render.show_json([_hit(hit) for hit in hits])
    elif hits:
        for hit in hits:
            _print_hit(hit)
    else:
        render.note("nothing found")


def _hit(hit: Hit) -> dict[str, Any]:
    return {
        "document": hit.document,
        "title": hit.title,
        "source": hit.source,
        "item": hit.item,
        "snippet": hit.snippet,
        "score": hit.score,
        "places": [{"source": source, "item": item} for source, item in hit.places],
    }


def _print_hit(hit: Hit) -> None:
    place = f"{hit.source}: {hit.item}"
    render.say(f"{render.paint(render.clean(hit.title) or '(no title)', 'bold')}  {render.paint(hit.document, 'dim')}")
    render.say(f"  {render.paint(render.clean(place), 'dim')}")
    render.show_paragraph(hit.snippet, indent=2)
