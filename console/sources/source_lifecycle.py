"""Add and remove sources. Everything is checked before anything is written, and a failure leaves no trace."""

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
    """The schedule options of `sources add`, as typed."""

    every: str | None = None
    cron: str | None = None
    rrule: str | None = None
    watch: bool = False
    debounce: float | None = None


def entries() -> dict[str, SourceEntry]:
    """Return the sources in sources.yaml, by name."""
    return {entry.name: entry for entry in _file().entries}


def entry(name: str) -> SourceEntry:
    """Return the named source. Raises NotFound with a similar name."""
    known = entries()
    if name in known:
        return known[name]
    close = get_close_matches(name, known, 1)
    hint = f"did you mean {close[0]}?" if close else "see `catchment sources list`"
    raise NotFound(f"{name!r}: no such source; {hint}")


def known(ledger: Ledger, name: str) -> Source:
    """Return the source from the ledger; add it there if it was written to sources.yaml by hand."""
    try:
        return ledger.sources.get(name)
    except NotFound:
        written = entry(name)
        return ledger.sources.put(name, written.kind, written.settings.priority)


def prepare(kind: str, location: str, name: str, given: Mapping[str, Any], timing: Timing) -> SourceEntry:
    """Make a source from the options of `sources add`, without writing anything. Raises BadInput."""
    from connectors import connector_class
    from deployments.sources.sources_file import QUIET_AT_MOST, SourceEntry, schedule_of

    connector = connector_class(kind)
    if not location.strip():
        # An empty path would mean the current folder.
        raise BadInput("LOCATION: empty; see `catchment sources add --help`")
    located = connector.settings.located(location)
    for key in located:
        if key in given:
            raise BadInput(f"{key}: already given by LOCATION; remove --set {key}=…")
    settings = arguments.typed(connector.settings, {**given, **located})
    if timing.debounce is not None and not timing.watch:
        raise BadInput("--debounce: only for watched sources; add --watch")
    if timing.debounce is not None and not 0 <= timing.debounce <= QUIET_AT_MOST:
        raise BadInput(f"--debounce: out of range; use 0 to {QUIET_AT_MOST:g} seconds")
    quiet = None if timing.debounce is None else round(timing.debounce, 3)
    every = timing.every
    if timing.watch and not (every or timing.cron or timing.rrule):
        every = _FALLBACK  # finds changes that the system did not report
    schedules = schedule_of(every=every, cron=timing.cron, rrule=timing.rrule)
    return SourceEntry(name, kind, settings, schedules, timing.watch, paused=False, quiet=quiet)


def commit(entry: SourceEntry, agreed: Agreement) -> str:
    """Write a source and its consent, and deploy it if the server runs. Return the result of its probe.

    A failure leaves no trace. If the command is killed before it recorded the consent, repeating it completes the work.
    """
    result = probe(entry)
    home, server = session.home(), session.running()
    with session.writing() as ledger:
        if ledger.sources.is_being_removed(entry.name):
            remedy = f"wait, or finish an interrupted removal with `catchment sources remove {entry.name}`"
            raise Refused(f"{entry.name}: being removed; {remedy}")
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
            # Report the first error. If the server is unreachable, the next `up` deletes deployments missing in the file.
            with suppress(CatchmentError):
                _delete_entry(entry.name)
                _delete_deployment(entry.name)
            raise
    return result


def probe(entry: SourceEntry) -> str:
    """Check that the source can be read and describe it. Raises SourceError or BadInput."""
    from connectors import connector_class

    read_blocks()
    return connector_class(entry.kind)(entry.settings).probe()


def read_blocks() -> None:
    """Make secrets in Prefect blocks available to this process, if a server runs."""
    if server := session.running():
        from deployments.server.blocks import read_blocks_of

        read_blocks_of(server)


def require_consent(entry: SourceEntry) -> None:
    """Raise NoConsent unless the source may be read now."""
    with suppress(NotFound), session.reading() as ledger:
        # Consent covers all requested scopes unless the settings changed since; the sync itself reports that case.
        if ledger.consents.agreed(entry.name):
            return
    from catchment.sync.preflight import consented
    from connectors import connector_class

    with session.writing() as ledger:
        source = ledger.sources.put(entry.name, entry.kind, entry.settings.priority)
        consented(ledger, source, connector_class(entry.kind)(entry.settings))


def withdraw(name: str, actor: str, reason: str) -> None:
    """Remove a source from the file, the server and the library. Can be repeated after an interruption."""
    from catchment.actions.revoke import forget_files

    home = session.home()
    with session.writing() as ledger:
        # Before the file forgets the source, so that `status` and `doctor` name an interrupted removal.
        with suppress(NotFound):
            ledger.sources.begin_removal(name, actor)
        _delete_deployment(name)
        _delete_entry(name)
        # Before the ledger forgets the source, so that an interrupted removal can be repeated.
        forget_files(home, name)
        # A source that was written by hand and never synced is not in the ledger.
        with suppress(NotFound):
            ledger.sources.remove(name, actor, reason)
        # A running sync may have written more files.
        forget_files(home, name)


def _delete_deployment(name: str) -> None:
    if server := session.running():
        from deployments.sources.deploy import undeploy

        undeploy(session.home(), server, name)


def _delete_entry(name: str) -> None:
    with _changing() as file, suppress(NotFound):
        file.remove(name)


def _file() -> SourcesFile:
    from deployments.sources.sources_file import SourcesFile

    return SourcesFile.load(session.home().sources_file)


def _changing() -> AbstractContextManager[SourcesFile]:
    from deployments.sources.sources_file import SourcesFile

    return SourcesFile.changing(session.home().sources_file)
