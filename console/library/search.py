"""`catchment search`: the query, the hits, and how the query was understood."""

from __future__ import annotations

from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.errors import BadInput, NotFound, PageSilent
from catchment.model import PARTS
from console import arguments, completion, render, session

if TYPE_CHECKING:
    from catchment.ledger import Ledger
    from catchment.search.results import Hit, Results, Word

_EXAMPLE = "catchment search leak tag:water after:2025"


def search(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORDS]...",
            help='Words or a question, "a phrase", prefix*, -without, this OR that, filters.',
            autocompletion=completion.query,
        ),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Only in this source.", autocompletion=session.source_names)
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="Only in sources of this kind.", autocompletion=session.kind_names)
    ] = None,
    media_type: Annotated[
        str | None, typer.Option("--type", help="Only documents of this type.", autocompletion=completion.names("type"))
    ] = None,
    tag: Annotated[
        str | None,
        typer.Option(help="Only with this tag, or one below it.", autocompletion=completion.names("tag")),
    ] = None,
    after: Annotated[str | None, typer.Option(help="Only from this date on: 2025, 2025-03, yesterday.")] = None,
    before: Annotated[str | None, typer.Option(help="Only before this date.")] = None,
    by_words: Annotated[bool, typer.Option("--words", help="Search by words only.")] = False,
    by_meaning: Annotated[
        bool, typer.Option("--meaning", help="Search by meaning only; works without `catchment up`, a second slower.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Maximum number of results.")] = 20,
    page: Annotated[int, typer.Option(min=1, max=10_000, help="Number of the page of results.")] = 1,
    conversations: Annotated[
        bool, typer.Option("--conversations", "--threads", help="One result per conversation.")
    ] = False,
    open_hit: Annotated[
        int | None, typer.Option("--open", min=1, metavar="N", help="Open the N-th result, as `catchment open`.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show how the query was understood and ranked.")] = False,
    as_json: arguments.Json = False,
) -> None:
    """Find documents by their words and their meaning, best first.

    A word also finds its other forms, and an unknown word is corrected. Filters, in any order:
    source: kind: type: tag: title: path: in: from: to: lang: has: date: after: before: added: is: label:
    sort:date lists the newest first.
    A minus before a word or filter excludes it.

    Examples: catchment search girder tag:bridge after:2025
              catchment search how do I get a deleted file back
              catchment search 'type:mail from:maria date:"last month"'
              catchment search garden -winter
    """
    options = {"source": source, "kind": kind, "type": media_type, "tag": tag, "after": after, "before": before}
    query = " ".join([*(words or ()), *(f'{name}:"{value}"' for name, value in options.items() if value is not None)])
    if not query.strip():
        raise BadInput(f"search: no words or filters given; example: {_EXAMPLE}")
    if by_words and by_meaning:
        raise BadInput("--words and --meaning: exclude each other; omit both to search by both")
    lanes = "words" if by_words else "meaning" if by_meaning else "both"
    results = find(query, source, lanes, limit=limit, offset=(page - 1) * limit, by_conversation=conversations)
    show_understanding(results)
    if open_hit is not None:
        _open(results, open_hit)
        return
    if as_json:
        render.show_json(results if explain else results.hits)
        return
    if explain:
        _show_explanation(results)
    for hit, others in results.folded:
        show_hit(hit, explain=explain)
        if others:
            names = (f"{other.item.removeprefix(hit.archive + PARTS)} ({other.document})" for other in others)
            line = f"+{len(others)} in {hit.archive}: {', '.join(names)}"
            render.say(f"  {render.paint(render.clean(line), 'dim')}")
    _show_position(results, (page - 1) * limit, page)


def _open(results: Results, number: int) -> None:
    rows = results.folded
    if number > len(rows):
        raise NotFound(f"--open {number}: the search shows {render.count(len(rows), 'result')}; see --page")
    from console.library.open_document import open_document

    hit = rows[number - 1][0]
    show_hit(hit)
    open_document(str(hit.document))


def find(
    query: str, source: str | None, lanes: str, *, limit: int, offset: int = 0, by_conversation: bool = False
) -> Results:
    """Search by the running system, or in this process if it does not answer."""
    from catchment.search import remote

    now = datetime.now().astimezone()
    page: dict[str, Any] = {"limit": limit, "offset": offset, "by_conversation": by_conversation}
    try:
        return remote.search(session.home(), query, now, lanes=lanes, **page)
    except BadInput:
        if source:
            with session.reading() as ledger:
                ledger.sources.get(source)
        raise
    except PageSilent as silent:
        with session.reading() as ledger:
            if source:
                ledger.sources.get(source)
            return _find_here(ledger, query, now, lanes, str(silent), page)


def _find_here(ledger: Ledger, query: str, now: datetime, lanes: str, reason: str, page: dict[str, Any]) -> Results:
    """Search in this process. Only a search by meaning alone loads the model, which takes a second."""
    from catchment.search.results import Lanes
    from catchment.search.search import search

    if lanes == Lanes.MEANING:
        from catchment.search.meaning.index import MeaningIndex

        return search(ledger, query, now, meaning=MeaningIndex(ledger), lanes=Lanes.MEANING, seconds=inf, **page)
    return search(ledger, query, now, meaning_off=reason if lanes == Lanes.BOTH else None, lanes=Lanes.WORDS, **page)


def show_understanding(results: Results) -> None:
    """Note how the hits differ from the query, and what may be missing."""
    if results.notice:
        render.note(results.notice)
    for line in results.missing:
        render.note(line)


def _show_position(results: Results, offset: int, page: int) -> None:
    if not results.hits and not results.notice:
        render.note("nothing found")
    last = offset + len(results.hits)
    more = f"; the next: --page {page + 1}" if results.total > last else ""
    if results.hits and (more or page > 1):
        best = f"the best {last}" if page == 1 else f"{offset + 1} to {last} of the best"
        render.note((best if results.is_partial else f"{offset + 1} to {last} of {_total(results)} hits") + more)


def _total(results: Results) -> str:
    return f"more than {results.total}" if results.is_capped else str(results.total)


def _show_explanation(results: Results) -> None:
    understood = results.understood
    order = "by words" if understood.words else "latest first"
    if understood.meaning is not None:
        order = f"by both ({understood.literal})" if understood.literal else "by both"
    if "type:task" in understood.filters:
        order = "earliest due date first"
    render.show_fields(
        {
            "words": "; ".join(map(_word, understood.words)),
            "excluded": ", ".join(understood.excluded),
            "filters": " ".join(understood.filters),
            "meaning": understood.meaning or "not searched",
            "least cosine": None if understood.floor is None else f"{understood.floor:.2f}",
            "order": order,
            "results": f"the best {results.total}" if results.is_partial else _total(results),
        }
    )
    render.say()


def _word(word: Word) -> str:
    facts = [f"in {render.count(word.count, 'passage')}"] if word.count else []
    for name, others in (("forms", word.forms), ("parts", word.parts), ("corrections", word.corrections)):
        if others:
            facts.append(f"{name}: {', '.join(others)}")
    return f"{word.text} ({'; '.join(facts)})" if facts else word.text


def show_hit(hit: Hit, *, explain: bool = False) -> None:
    """Show a hit in three lines: title and number, location, passage. `explain` adds its ranks and scores."""
    # In a mailbox the folder is more useful than the number of the message.
    place, is_message, _ = hit.item.partition(";UIDVALIDITY=")
    facts = [f"{hit.source}: {place}", *filter(None, [is_message and hit.file])]
    if hit.author and (is_message or hit.media_type == "message/rfc822"):
        facts.insert(0, hit.author)
    facts += [hit.symbol] if hit.symbol else []
    if hit.number is not None:
        facts.append(f"#{hit.number} {hit.state or ''}".rstrip())
    if hit.moment is not None:
        facts.append(f"{hit.moment.astimezone():%Y-%m-%d}")
    if len(hit.places) > 1:
        facts.append(f"+{render.count(len(hit.places) - 1, 'copy', 'copies')}")
    if hit.alike > 1:
        facts.append(f"and {render.count(hit.alike - 1, 'more message')} of this conversation")
    if hit.lexical_rank is None and hit.semantic_rank is not None:
        facts.append("by meaning")
    if hit.is_recognized:
        facts.append("recognized")
    title = render.clean(hit.title) or "(no title)"
    render.say(f"{render.paint(title, 'bold')}  {render.paint(str(hit.document), 'dim')}")
    render.say(f"  {render.paint(render.clean(' · '.join(facts)), 'dim')}")
    if explain:
        render.say(f"  {render.paint(_ranks(hit), 'dim')}")
    if hit.snippet:
        render.show_paragraph(hit.parts, indent=2)


def _ranks(hit: Hit) -> str:
    parts = [f"score {hit.score:.4f}"]
    if hit.lexical_rank is not None:
        parts.append(f"words: rank {hit.lexical_rank}, score {hit.lexical_score or 0:.2f}")
    if hit.semantic_rank is not None:
        parts.append(f"meaning: rank {hit.semantic_rank}, cosine {hit.cosine or 0:.2f}")
    return " · ".join(parts)
