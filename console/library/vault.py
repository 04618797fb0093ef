"""`catchment vault`: the quality report of an Obsidian vault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import BadInput
from catchment.model import Document, Extraction
from console import arguments, render, session
from console.help_pages import CommandGroup

if TYPE_CHECKING:
    from catchment.content.extract.vault import QualityReport
    from catchment.ledger import Ledger, Named

app = CommandGroup("Report on an Obsidian vault.\n\nExample: catchment vault report notes")

_NOTES = (".md", ".canvas")


@app.command()
def report(
    name: session.SourceName,
    as_json: arguments.Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
) -> int:
    """Report broken links, invalid frontmatter, orphans and more.

    Uses the notes in the library. Exits with 1 if a link or a frontmatter is broken.

    Example: catchment vault report notes --markdown
    """
    from catchment.content.extract.vault import quality_report
    from catchment.search.related import files

    with session.reading() as ledger:
        source = ledger.sources.get(name)
        if source.kind != "obsidian":
            raise BadInput(f"{name}: a {source.kind} source, not an Obsidian vault; name an obsidian source")
        names = ledger.library.names(source.id)
        quality = quality_report(files(ledger, source.id, names), _notes(ledger, names))
    if as_json:
        render.show_json(quality)
    elif markdown:
        render.say(render.clean_block(quality.to_markdown()))
    else:
        _print(quality)
    return quality.exit_code


def _notes(ledger: Ledger, names: Sequence[Named]) -> Iterator[tuple[str, Document, Extraction]]:
    for named in names:
        if named.locator.lower().endswith(_NOTES):
            shown = ledger.library.document(named.document)
            yield named.locator, shown.content, Extraction((), shown.links, shown.entities)


def _print(quality: QualityReport) -> None:
    notes, files = render.count(quality.notes, "note"), render.count(quality.files, "file")
    render.say(f"{notes} ({files} in total), {render.count(quality.links, 'link')}, {quality.backlinks} between notes")
    if not quality.findings:
        render.say("no problems found")
        return
    render.say()
    rows = [(f.flaw.replace("_", " "), f.path, f.line or None, f.detail) for f in quality.findings]
    render.show_table(("PROBLEM", "ITEM", "LINE", "DETAIL"), rows)
