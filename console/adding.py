"""How a source comes and goes: all is checked before anything is written, and a failure leaves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from catchment.errors import BadInput, NotFound
from console import session, values

if TYPE_CHECKING:
    from deployments.sources_file import SourceEntry, SourcesFile


_FALLBACK = "15m"


@dataclass(frozen=True, slots=True)
class Timing:
    """When a source is to be synced, as it was typed."""

    every: str | None = None
    cron: str | None = None
    rrule: str | None = None
    watch: bool = False
    debounce: float | None = None


def entries() -> dict[str, SourceEntry]:
    """The sources that are written down, by name."""
    return {entry.name: entry for entry in _file().entries}


def entry(name: str) -> SourceEntry:
    """The source of this name. Raises NotFound, with a name that is close."""
    known = entries()
    if name in known:
        return known[name]
    close = get_close_matches(name, known, 1)
    hint = f"did you mean {close[0]}?" if close else "see `catchment sources list`"
    raise NotFound(f"there is no source {name!r}; {hint}")


def prepare(kind: str, location: str, name: str, given: Mapping[str, Any], timing: Timing) -> SourceEntry:
    """Make a source of what was typed. Nothing is written; raises BadInput with the remedy."""
    from connectors import connector_class
    from deployments.sources_file import SourceEntry, schedule_of

    connector = connector_class(kind)
    located = connector.settings.located(location)
    for key in located:
        if key in given:
            raise BadInput(f"{key} is the location itself; leave --set {key}=… out")
    settings = values.typed(connector.settings, {**given, **located})
    if timing.debounce is not None and not timing.watch:
        raise BadInput("--debounce is for a source that is watched; give --watch too")
    quiet = None if timing.debounce is None else round(timing.debounce, 3)
    every = timing.every
    if timing.watch and not (every or timing.cron or timing.rrule):
        every = _FALLBACK  # finds what the system never told the watcher
    schedules = schedule_of(every=every, cron=timing.cron, rrule=timing.rrule)
    return SourceEntry(name, kind, settings, schedules, timing.watch, paused=False, quiet=quiet)


def commit(entry: SourceEntry) -> str:
    """Write a source down, deploy it if the server runs, and say what its probe said. A failure changes nothing."""
    told = probe(entry)
    home = session.home()
    with session.writing() as ledger:
        file = _file()
        file.add(entry)
        file.save()
        try:
            if server := session.running():
                from deployments.deploy import deploy

                deploy(home, server, [entry.name])
            ledger.sources.put(entry.name, entry.kind, entry.settings.priority)
        except BaseException:
            file.remove(entry.name)
            file.save()
            raise
    return told


def probe(entry: SourceEntry) -> str:
    """What the source says of itself now. Raises SourceError or BadInput with the remedy."""
    from connectors import connector_class

    if server := session.running():
        from deployments.blocks import read_blocks_of

        read_blocks_of(server)
    return connector_class(entry.kind)(entry.settings).probe()


def withdraw(name: str, actor: str, reason: str) -> None:
    """Take a source out of the file, the server and the library."""
    home, server = session.home(), session.running()
    with session.writing() as ledger:
        if server:
            from deployments.deploy import undeploy

            undeploy(home, server, name)
        file = _file()
        if any(entry.name == name for entry in file.entries):
            file.remove(name)
            file.save()
        # A source that a person wrote into the file and that was never synced is not in the ledger.
        with suppress(NotFound):
            ledger.sources.remove(name, actor, reason)


def _file() -> SourcesFile:
    from deployments.sources_file import SourcesFile

    return SourcesFile.load(session.home().sources_file)
