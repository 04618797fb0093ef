"""`catchment telemetry`: the metrics."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from console import render, session
from console.help_pages import CommandGroup
from console.operate import trends

app = CommandGroup("Show and export what is measured.\n\nExample: catchment telemetry export --format csv")
app.command("show")(trends.show)


class Format(StrEnum):
    """Form of the exported metrics."""

    PROMETHEUS = "prometheus"
    JSON = "json"
    CSV = "csv"


@app.command()
def export(
    form: Annotated[Format, typer.Option("--format", help="Text of Prometheus, JSON or CSV.")] = Format.PROMETHEUS,
    to: Annotated[Path | None, typer.Option("--to", metavar="FILE", help="Write into a file.")] = None,
) -> None:
    """Write all metrics as they are now.

    They name kinds of sources, never sources or items. docs/telemetry.md lists them.

    Example: catchment telemetry export --format json --to metrics.json
    """
    from catchment.telemetry import exposition
    from catchment.views.telemetry.gauges import current

    with session.reading() as ledger:
        tally = current(ledger, session.home())
    match form:
        case Format.PROMETHEUS:
            text = exposition.prometheus(tally).decode()
        case Format.JSON:
            text = exposition.as_json(tally)
        case Format.CSV:
            text = exposition.as_csv(tally)
    if to is None:
        render.say(text.rstrip("\n"))
    else:
        to.write_text(text, encoding="utf-8")
        render.note(f"{len(tally):,} series were written to {to.name}")
