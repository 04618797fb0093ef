"""How a source comes and goes: all is checked before anything is written, and a failure leaves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from catchment.errors import BadInput, CatchmentError, NotFound, Refused
from console import arguments, session

if TYPE_CHECKING:
    from catchment.ledger import Ledger, Source
    from console.sources.consent import Agreement
    from deployments.sources.sources_file import SourceEntry, SourcesFile


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


def known(ledger: Ledger, name: str) -> Source:
    """The source as the ledger knows it; one that a person wrote into the file themselves is made known now."""
    try:
        return ledger.sources.get(name)
    except NotFound:
        written = entry(name)
        return ledger.sources.put(name, written.kind, written.settings.priority)


def prepare(kind: str, location: str, name: str, given: Mapping[str, Any], timing: Timing) -> SourceEntry:
    """Make a source of what was typed. Nothing is written; raises BadInput with the remedy."""
    from connectors import connector_class
    from deployments.sources.sources_file import QUIET_AT_MOST, SourceEntry, schedule_of

    connector = connector_class(kind)
    if not location.strip():
        # As a path it would be the folder that the command is given in, and all that is below it.
        raise BadInput("the location is empty; say where the source is, as `catchment sources add --help` shows")
    located = connector.settings.located(location)
    for key in located:
        if key in given:
            raise BadInput(f"{key} is the location itself; leave --set {key}=… out")
    settings = arguments.typed(connector.settings, {**given, **located})
    if timing.debounce is not None and not timing.watch:
        raise BadInput("--debounce is for a source that is watched; give --watch too")
    if timing.debounce is not None and not 0 <= timing.debounce <= QUIET_AT_MOST:
        raise BadInput(f"--debounce is a number of seconds from 0 to {QUIET_AT_MOST:g}")
    quiet = None if timing.debounce is None else round(timing.debounce, 3)
    every = timing.every
    if timing.watch and not (every or timing.cron or timing.rrule):
        every = _FALLBACK  # finds what the system never told the watcher
    schedules = schedule_of(every=every, cron=timing.cron, rrule=timing.rrule)
    return SourceEntry(name, kind, settings, schedules, timing.watch, paused=False, quiet=quiet)


def commit(entry: SourceEntry, agreed: Agreement) -> str:
    """Write a source down with the consent to it, deploy it if the server runs, and say what its probe said.

    A failure changes nothing. A command that was killed before the consent was given is completed by the same command.
    """
    told = probe(entry)
    home, server = session.home(), session.running()
    with session.writing() as ledger:
        if ledger.sources.is_being_removed(entry.name):
            remedy = f"where that was broken off, `catchment sources remove {entry.name}` finishes it"
            raise Refused(f"{entry.name} is being removed, and can be added when that is done; {remedy}")
        with _changing() as file:
            if entry not in file.entries or ledger.consents.agreed(entry.name):
                file.add(entry)
        try:
            if server:
                from deployments.sources.deploy import deploy

                deploy(home, server, [entry.name])
            source = ledger.sources.put(entry.name, entry.kind, entry.settings.priority)
            ledger.consents.give(source.id, agreed.scopes, session.operator(), agreed.until)
        except BaseException:
            # What is told is what went wrong first. The next `up` takes off a server that is away now what the file lacks.
            with suppress(CatchmentError):
                _take_out_of_file(entry.name)
                _take_off_server(entry.name)
            raise
    return told


def probe(entry: SourceEntry) -> str:
    """What the source says of itself now. Raises SourceError or BadInput with the remedy."""
    from connectors import connector_class

    read_blocks()
    return connector_class(entry.kind)(entry.settings).probe()


def read_blocks() -> None:
    """Let secrets in blocks of the server be read by this process, if a server runs."""
    if server := session.running():
        from deployments.server.blocks import read_blocks_of

        read_blocks_of(server)


def require_consent(entry: SourceEntry) -> None:
    """Raise NoConsent unless the source may be read now."""
    with suppress(NotFound), session.reading() as ledger:
        # What was agreed to is all that is ever wanted, but for settings that were changed: of those the sync itself tells.
        if ledger.consents.agreed(entry.name):
            return
    from catchment.sync.preflight import consented
    from connectors import connector_class

    with session.writing() as ledger:
        source = ledger.sources.put(entry.name, entry.kind, entry.settings.priority)
        consented(ledger, source, connector_class(entry.kind)(entry.settings))


def withdraw(name: str, actor: str, reason: str) -> None:
    """Take a source out of the file, the server and the library; may be called again, after it was broken off."""
    from catchment.sync.revoke import forget_files

    home = session.home()
    with session.writing() as ledger:
        _take_off_server(name)
        _take_out_of_file(name)
        # As long as the ledger knows the source it can be asked for again.
        forget_files(home, name)
        # A source that a person wrote into the file and that was never synced is not in the ledger.
        with suppress(NotFound):
            ledger.sources.remove(name, actor, reason)
        # A sync that was at work may have kept more of it.
        forget_files(home, name)


def _take_off_server(name: str) -> None:
    if server := session.running():
        from deployments.sources.deploy import undeploy

        undeploy(session.home(), server, name)


def _take_out_of_file(name: str) -> None:
    with _changing() as file, suppress(NotFound):
        file.remove(name)


def _file() -> SourcesFile:
    from deployments.sources.sources_file import SourcesFile

    return SourcesFile.load(session.home().sources_file)


def _changing() -> AbstractContextManager[SourcesFile]:
    from deployments.sources.sources_file import SourcesFile

    return SourcesFile.changing(session.home().sources_file)
