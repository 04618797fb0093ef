"""`catchment ledger` and `catchment config`: check the ledger and the configuration."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Annotated

import typer

from catchment.errors import ConfigError
from catchment.views.upkeep import Configuration, ConfiguredSource, LedgerCheck, MovedLedger, Vacuumed
from console import arguments, render, session
from console.help_pages import CommandGroup

ledger_app = CommandGroup("Check and compact the ledger.\n\nExample: catchment ledger check")
config_app = CommandGroup("Check and show the configuration.\n\nExample: catchment config validate")


@ledger_app.command()
def check(
    deep: Annotated[
        bool, typer.Option("--deep", help="Also read all texts, and compare tables, index and counters.")
    ] = False,
    as_json: arguments.Json = False,
) -> int:
    """Check the invariants of the ledger.

    Prints violated invariants and exits with 1.

    Example: catchment ledger check --deep
    """
    from catchment.views.health import LastCheck

    with session.reading() as ledger:
        broken = ledger.check(deep=deep)
    LastCheck(datetime.now(UTC), len(broken)).write(session.home().make())
    if as_json:
        render.show_json(LedgerCheck(not broken, broken))
    elif broken:
        for line in broken:
            render.note(f"invariant violated: {render.clean(line)}")
    else:
        render.say("all invariants hold")
    return 1 if broken else 0


@ledger_app.command()
def vacuum(as_json: arguments.Json = False) -> None:
    """Return unused space of the ledger to the disk.

    Temporarily needs as much space as the ledger. Not possible while a sync runs.

    Example: catchment ledger vacuum
    """
    with session.writing() as ledger:
        before, after = ledger.vacuum(ledger.alive)
    if as_json:
        render.show_json(Vacuumed(before, after))
    else:
        render.say(f"ledger: {render.size(after)}, was {render.size(before)}")


@ledger_app.command()
def adopt() -> int:
    """Transfer the ledger from another home to this one.

    For a ledger outside the home (CATCHMENT_DATABASE_URL) whose owner no longer exists. The other home can then only read. Its
    sinks are adopted, too; exits with 1 if one cannot be reached.

    Example: catchment ledger adopt
    """
    from deployments.actions import library

    adopted = library.adopt(session.desk(), session.operator())
    for name, problem in adopted.items():
        if problem:
            render.note(f"{name}: not adopted: {problem} (then: `catchment sinks adopt {name}`)")
        else:
            render.say(f"{name}: adopted")
    render.say("this home owns the ledger now; start with `catchment up --detach`")
    return int(any(adopted.values()))


@ledger_app.command()
def move(
    url: Annotated[str, typer.Argument(metavar="URL", help="Empty database: postgresql://… or sqlite:////….")],
    as_json: arguments.Json = False,
) -> None:
    """Move the library with its history to another database.

    Catchment must not be running. The old database stays. The file `environment` in the home names the new one.

    Example: catchment ledger move postgresql://me@localhost/catchment
    """
    from catchment.ledger import without_password
    from deployments.actions import library

    rows = library.move(session.desk(), url, session.operator())
    if as_json:
        render.show_json(MovedLedger(without_password(url), rows))
        return
    render.say(f"moved to {without_password(url)}: {render.count(rows, 'row')} of history, all counts equal")
    if os.environ.get("CATCHMENT_DATABASE_URL"):
        render.note("unset CATCHMENT_DATABASE_URL: it names the old database and comes first")


@config_app.command()
def validate() -> None:
    """Check all keys, values and schedules in the settings.

    Example: catchment config validate
    """
    from connectors import problem
    from deployments.health.announcing import AlertSettings

    entries = session.desk().entries()
    for entry in entries.values():
        if text := problem(entry.kind):
            raise ConfigError(f"sources.yaml: {entry.name}: {text}")
    AlertSettings.load(session.home())
    render.say(f"sources.yaml: valid, {render.count(len(entries), 'source')}")


@config_app.command("show")
def show_config(as_json: arguments.Json = False) -> None:
    """Show the home folder, the ledger and all settings.

    Example: catchment config show --json
    """
    from catchment.ledger import without_password

    home = session.home()
    entries = session.desk().entries().values()
    shown = [ConfiguredSource(entry.name, entry.kind, entry.settings.model_dump(mode="json")) for entry in entries]
    ledger = without_password(home.database_url)
    if as_json:
        render.show_json(Configuration(home.path, ledger, shown))
        return
    render.show_fields({"home": home.path, "ledger": ledger})
    for entry in shown:
        render.say()
        render.show_fields({"source": entry.name, "kind": entry.kind, **arguments.flat(entry.settings)})


@config_app.command()
def path() -> None:
    """Print the path of sources.yaml.

    Example: catchment config path
    """
    render.say(str(session.home().sources_file))
