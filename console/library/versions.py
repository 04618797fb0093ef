"""Commands about the versions of a document: `history`, `diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from console import arguments, render, session
from console.library import documents

if TYPE_CHECKING:
    from catchment.views.versions.versions import DocumentVersion

_COLOURS = {"+": "green", "-": "red", "@": "dim"}


def history(
    document: documents.Document,
    limit: Annotated[int, typer.Option(help="Maximum number of versions.", min=1, max=1_000)] = 20,
    as_json: arguments.Json = False,
) -> None:
    """List the versions of a document: since when, and what changed.

    SINCE is when the library got it, MODIFIED the document's own date. Deleted documents are found by number or path.
    Versions are kept for 30 days, or `keep_days` of the source.

    Example: catchment history ~/Vault/Bees.md
    """
    from catchment.views import resolver
    from catchment.views.versions import versions

    with session.reading() as ledger:
        item = resolver.item(ledger, document, documents.settings)
        view = versions.history(ledger, item.id, limit)
    if as_json:
        render.show_json(view)
        return
    rows = [
        (_local(version), render.local(version.modified) if version.modified else "", version.sync, version.what)
        for version in view.versions
    ]
    render.say(render.clean(f"{view.source}: {view.path} (document {view.document})"))
    render.show_table(("SINCE", "MODIFIED", "SYNC", "CHANGES"), rows)
    if view.has_more:
        render.note(f"older versions are not listed; raise --limit {limit}")
    elif view.expired:
        render.note(view.expired)


def diff(document: documents.Document, since: arguments.Since = None, as_json: arguments.Json = False) -> None:
    """Compare a document with an earlier version.

    Without --since, with the version before its last change.

    Example: catchment diff ~/Vault/Bees.md --since 7d
    """
    from catchment.views import resolver
    from catchment.views.versions import versions

    with session.reading() as ledger:
        item = resolver.item(ledger, document, documents.settings)
        difference = versions.diff(ledger, item.id, since)
    if as_json:
        render.show_json(difference)
        return
    for sign, version in (("---", difference.before), ("+++", difference.after)):
        by_sync = f", sync {version.sync}" if version.sync else ""
        render.say(render.paint(render.clean(f"{sign} {version.path} ({_local(version)}{by_sync})"), "bold"))
    for field in difference.after.fields:
        if field.name != "path":
            change = f"{field.name}: {field.before or '(none)'} → {field.after or '(none)'}"
            render.show_paragraph([(change, False)], 4)
    if not difference.after.what:
        render.note(f"no change since {_local(difference.before)}")
    for line in difference.lines:
        parts = line.parts if line.marked else [(line.text, line.sign != " ")]
        render.show_change("" if line.sign == "@" else line.sign, parts, _COLOURS.get(line.sign, "dim"))


def _local(version: DocumentVersion) -> str:
    if version.since is None:
        return "unknown" if version.is_there else "not there"
    return render.local(version.since)
