"""`catchment vault`: how well a vault is kept, and where its links lead."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import BadInput
from catchment.model import Document, Extraction
from console import arguments, render, session
from console.help_pages import CommandGroup

if TYPE_CHECKING:
    from catchment.content.extract.vault import QualityReport
    from catchment.ledger import Ledger

app = CommandGroup("See how well a vault is kept.")

_NOTES = (".md", ".canvas")


@app.command()
def report(
    name: session.SourceName,
    as_json: arguments.Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
) -> int:
    """Report broken links, bad frontmatter, orphans and more.

    Looks at the notes as they are in the library. Exits with 1 when a link or a frontmatter is broken.
    """
    from catchment.content.extract.vault import quality_report

    with session.reading() as ledger:
        source = ledger.sources.get(name)
        if source.kind != "obsidian":
            raise BadInput(f"{name} is no vault but a source of kind {source.kind}; give one of kind obsidian")
        found = quality_report(files(ledger, source.id), _notes(ledger, source.id))
    if as_json:
        render.show_json(json.loads(found.to_json()))
    elif markdown:
        render.say(render.clean_block(found.to_markdown()))
    else:
        _print(found)
    return found.exit_code


def files(ledger: Ledger, source_id: int) -> list[str]:
    """Every file of a source that is there, those that became no document too: a link may lead to a picture."""
    known = ledger.intake.known(source_id)
    return [locator for container in known.containers() for locator in known.within(container)]


def _notes(ledger: Ledger, source_id: int) -> Iterator[tuple[str, Document, Extraction]]:
    for named in ledger.library.names(source_id):
        if named.locator.lower().endswith(_NOTES):
            shown = ledger.library.document(named.document)
            yield named.locator, shown.content, Extraction((), shown.links, shown.entities)


def _print(found: QualityReport) -> None:
    counts = (render.count(found.notes, "note"), render.count(found.files, "file"), render.count(found.links, "link"))
    render.say(f"{counts[0]}, {counts[1]} in all, {counts[2]}, {found.backlinks} of them between notes")
    if not found.findings:
        render.say("nothing is wrong")
        return
    render.say()
    rows = [(f.flaw.replace("_", " "), f.path, f.line or None, f.detail) for f in found.findings]
    render.show_table(("WHAT", "ITEM", "LINE", "DETAIL"), rows)
