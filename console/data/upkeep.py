"""`catchment ledger` and `catchment config`: whether what is stored and what is configured is right."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import typer

from console import arguments, render, session
from console.help_pages import CommandGroup

ledger_app = CommandGroup("Examine the ledger.")
config_app = CommandGroup("Examine the configuration.")


@ledger_app.command()
def check(
    deep: Annotated[
        bool, typer.Option("--deep", help="Also read every text, and compare tables, index and counters.")
    ] = False,
    as_json: arguments.Json = False,
) -> int:
    """Prove that every invariant holds.

    Names those that do not, and exits with 1.
    """
    from catchment.status import record_check

    with session.reading() as ledger:
        broken = ledger.check(deep=deep)
    with suppress(OSError):  # a full disk takes nothing from the answer
        record_check(session.home().make(), len(broken))
    if as_json:
        render.show_json({"holds": not broken, "broken": broken})
    elif broken:
        for line in broken:
            render.note(f"broken: {render.clean(line)}")
    else:
        render.say("every invariant holds")
    return 1 if broken else 0


@ledger_app.command()
def vacuum(as_json: arguments.Json = False) -> None:
    """Give room that the ledger does not need back to the disk.

    Takes as much room again while it goes on, and refuses while a sync runs.
    """
    from catchment.runtime.process import alive

    with session.writing() as ledger:
        before, after = ledger.vacuum(alive)
    if as_json:
        render.show_json({"before": before, "after": after})
    else:
        render.say(f"the ledger takes {render.size(after)}; before it was {render.size(before)}")


@config_app.command()
def validate() -> None:
    """Check every key, value and schedule of the sources."""
    from deployments.sources.sources_file import SourcesFile

    file = SourcesFile.load(session.home().sources_file)
    render.say(f"{render.count(len(file.entries), 'source')}, all valid")


@config_app.command("show")
def show_config(as_json: arguments.Json = False) -> None:
    """Show where things are, and every source's settings."""
    from catchment.ledger.db.database import without_password
    from deployments.sources.sources_file import SourcesFile

    home = session.home()
    entries = SourcesFile.load(home.sources_file).entries
    shown: list[dict[str, Any]] = [
        {"name": entry.name, "kind": entry.kind, "settings": entry.settings.model_dump(mode="json")}
        for entry in entries
    ]
    ledger = without_password(home.database_url)
    if as_json:
        render.show_json({"home": str(home.path), "ledger": ledger, "sources": shown})
        return
    render.show_fields({"home": home.path, "ledger": ledger})
    for entry in shown:
        render.say()
        render.show_fields({"source": entry["name"], "kind": entry["kind"], **arguments.flat(entry["settings"])})


@config_app.command()
def path() -> None:
    """Print where the file of the sources is."""
    render.say(str(session.home().sources_file))
