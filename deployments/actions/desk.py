"""The tools of actions besides the ledger's rules: the sources file, the connectors, and Prefect's API over HTTP.

Does not import Prefect, so that every process can act.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from catchment.errors import BadInput, CatchmentError, NotFound, Refused, did_you_mean
from catchment.runtime.membership import ANY, Membership, host_for
from catchment.settings import Home
from connectors import connector_class, kinds, problem, problems
from deployments.server.running import require_running, running
from deployments.sources.entries import Timing, prepare, revise
from deployments.sources.sources_file import SourceEntry, SourcesFile

if TYPE_CHECKING:
    from catchment.contracts import Connector, Manifest
    from catchment.ledger import Ledger, Source
    from catchment.runtime.server_report import ServerReport

__all__ = ["Desk", "Timing", "known", "manifest"]

Opening = Callable[[], AbstractContextManager["Ledger"]]


@dataclass(frozen=True)
class Desk:
    """The surroundings of an action. Every method that needs a running system raises TryAgain if it does not respond.

    `reading`, `writing`: open the ledger. They differ by process, for example in the reports of a migration.
    """

    home: Home
    reading: Opening
    writing: Opening

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds of source."""
        return kinds()

    @property
    def usable_kinds(self) -> Sequence[str]:
        """The kinds of source that can be added."""
        return [kind for kind in kinds() if problem(kind) is None]

    @property
    def problems(self) -> Sequence[str]:
        """The problems of packages that add to Catchment, with the remedies."""
        return problems()

    def entries(self) -> Mapping[str, SourceEntry]:
        """Return the sources of the sources file, by name. Raises ConfigError."""
        return {entry.name: entry for entry in SourcesFile.load(self.home.sources_file).entries}

    def entry(self, name: str) -> SourceEntry:
        """Return a source of the sources file, or of another host. Raises NotFound with a similar name."""
        known = self.entries()
        if name in known or name in (known := {**self.elsewhere(), **known}):
            return known[name]
        raise NotFound(f"{name!r}: no such source; {did_you_mean(name, known, 'see `catchment sources list`')}")

    def draft(self, kind: str, location: str, name: str, settings: Mapping[str, Any], timing: Timing) -> SourceEntry:
        """Return a new source from typed values, without writing it. Raises BadInput, Refused for another host."""
        entry = prepare(kind, location, name, settings, timing)
        host = Membership.of(self.home)
        if host is None and timing.on:
            raise BadInput("--on: this home runs alone; see `catchment join --help`")
        return replace(entry, queue=self._queue(entry, timing.on or "", host)) if host else entry

    def revised(self, entry: SourceEntry, settings: Mapping[str, Any], timing: Timing) -> SourceEntry:
        """Return a source with some settings replaced; None removes one. The file stays as before. Raises BadInput."""
        return revise(entry, settings, timing)

    def web_address(self, text: str) -> tuple[str, str]:
        """Return a web address in its one spelling, and the name of its host for consent. Raises BadInput."""
        from connectors.web.address import host_of, name_of, normalized

        address = normalized(text)
        return address, name_of(host_of(address))

    def secret_setting(self, kind: str) -> str | None:
        """Return the setting that refers to the password or token of a kind; None if it needs none. Raises BadInput."""
        return next((row.key for row in connector_class(kind).settings.model_construct().rows() if row.is_secret), None)

    def connector(self, entry: SourceEntry) -> Connector:
        """Return the connector of a source, able to resolve its secrets."""
        self.read_blocks()
        return connector_class(entry.kind)(entry.settings)

    def connector_here(self, entry: SourceEntry) -> Connector:
        """Return the connector to read the source now. Raises Refused if only another host has its files or secret."""
        host = Membership.of(self.home)
        if host and entry.queue not in ("", ANY, host.queue):
            # The same path on this machine is another folder.
            raise Refused(f"{entry.name}: runs on {host_for(entry.queue)}; run the command there")
        return self.connector(entry)

    def read_blocks(self) -> None:
        """Resolve secrets of the form `block:NAME` on the running server. No effect without one."""
        if server := running(self.home):
            from deployments.server.client import read_blocks_of

            read_blocks_of(server)

    @contextmanager
    def adding(self, entry: SourceEntry, *, is_written: bool) -> Iterator[None]:
        """Write a source to the file, unless `is_written`, and deploy it. A failure of the block removes both again.

        Raises BadInput if the name is taken or invalid.
        """
        if not is_written:
            with SourcesFile.changing(self.home.sources_file) as file:
                file.add(entry)
        try:
            self._deploy(entry.name)
            yield
        except BaseException:
            # Report the first error. If the server is unreachable, the next `up` deletes deployments missing in the file.
            with suppress(CatchmentError):
                self._erase(entry.name)
                self._undeploy(entry.name)
            raise

    @contextmanager
    def changing(self, entry: SourceEntry) -> Iterator[None]:
        """Change a source in the file and its deployment. A failure of the block restores both. Raises ConfigError."""
        self.require_defined_here(entry.name)
        with SourcesFile.changing(self.home.sources_file) as file:
            take_back = file.change(entry)
        try:
            self._deploy(entry.name)
            yield
        except BaseException:
            with suppress(CatchmentError):
                with SourcesFile.changing(self.home.sources_file) as file:
                    take_back(file)
                self._deploy(entry.name)
            raise

    @contextmanager
    def moving(self, name: str, to: str) -> Iterator[SourceEntry]:
        """Yield a source as it will run on this host or `any`; then write and deploy it here, unless the block fails.

        Raises NotFound, BadInput for a source that exists on one machine only, Refused for another host, TryAgain.
        """
        from deployments.runs import runs
        from deployments.sources.deploy import deploy
        from deployments.sources.placement import source_rows, written

        host = Membership.of(self.home)
        if host is None:
            raise BadInput("--to: this home runs alone; see `catchment join --help`")
        server = require_running(self.home)
        entry = self.entry(name)
        queue = self._queue(entry, to, host)
        with SourcesFile.changing(self.home.sources_file) as file:
            if any(definition.name == name for definition in file.entries):
                file.change(replace(entry, queue=queue))
            else:
                (row,) = source_rows(server, name)
                entry = file.adopt(written(row, queue))
            yield entry
        deploy(self.home, server, [name], takes_over=True)
        runs.drop_waiting(server, entry.kind, name)

    def require_defined_here(self, name: str) -> None:
        """Raise Refused for a source that another host defines."""
        host = Membership.of(self.home)
        if host and (server := running(self.home)):
            from deployments.sources.placement import of_another, other_host_of, source_rows

            with self.reading() as ledger:
                names = {host_row.name for host_row in ledger.hosts.all()}
            for row in source_rows(server, name):
                # The sources of a host that was taken out can be removed by each.
                if (definer := other_host_of(row, host)) in names:
                    raise Refused(of_another(name, definer))

    def elsewhere(self) -> Mapping[str, SourceEntry]:
        """Return the sources that other hosts define; none if Catchment does not run."""
        host = Membership.of(self.home)
        if host is None or (server := running(self.home)) is None:
            return {}
        from deployments.sources.placement import elsewhere

        return elsewhere(server, host)

    def _queue(self, entry: SourceEntry, on: str, host: Membership) -> str:
        from deployments.sources.placement import queue_of

        with self.reading() as ledger:
            return queue_of(entry, on, host, is_any_taken=any(host_row.takes_any for host_row in ledger.hosts.all()))

    def remove(self, name: str) -> None:
        """Remove the deployment of a source, then its entry in the file. Idempotent."""
        self._undeploy(name, takes_over=True)
        self._erase(name)

    def switch(self, kind: str, name: str, *, on: bool) -> None:
        """Show a pause, or its end, in the Prefect UI. No effect without a running system or a deployment."""
        if server := running(self.home):
            from deployments.runs import runs

            # A source that is not deployed yet cannot be paused there.
            with suppress(NotFound):
                runs.switch(server, kind, name, on=on)
        else:
            from deployments.sources.deploy import switch_later

            switch_later(self.home, kind, name, on=on)

    def require_running(self) -> None:
        """Raise TryAgain if Catchment is not running."""
        require_running(self.home)

    def start(
        self, kind: str, name: str, *, deep: bool = False, plan: str | None = None, backfill: int | None = None
    ) -> str:
        """Start a sync and return the ID of its run. Raises TryAgain if Catchment is not running, NotFound if not deployed."""
        from deployments.runs import runs

        return runs.start_sync(require_running(self.home), kind, name, deep=deep, plan=plan, backfill=backfill)

    def retry_now(self, names: Collection[str]) -> None:
        """Start the planned retries of sources now. No effect without a running system. Raises TryAgain."""
        if server := running(self.home):
            from deployments.runs import runs

            runs.retry_now(server, names)

    def cancel(self, run: str) -> None:
        """Ask the system to cancel a run. Raises TryAgain if Catchment is not running, NotFound for an unknown run."""
        from deployments.runs import runs

        runs.cancel(require_running(self.home), run)

    def run_address(self, run: str) -> str | None:
        """Return the address of a run in the Prefect UI; None if Catchment is not running."""
        server = running(self.home)
        return server.run_url(run) if server else None

    def report(self) -> ServerReport | None:
        """Return the present plans of the server; None if it does not answer."""
        from deployments.server.planned import read_report

        server = running(self.home)
        return read_report(server) if server else None

    def server_url(self) -> str | None:
        """Return the address of the server; None if Catchment does not run."""
        server = running(self.home)
        return server.url if server else None

    def _deploy(self, name: str) -> None:
        if server := running(self.home):
            from deployments.sources.deploy import deploy

            deploy(self.home, server, [name])

    def _undeploy(self, name: str, *, takes_over: bool = False) -> None:
        if server := running(self.home):
            from deployments.sources.deploy import undeploy

            undeploy(self.home, server, name, takes_over=takes_over)

    def _erase(self, name: str) -> None:
        with SourcesFile.changing(self.home.sources_file) as file, suppress(NotFound):
            file.remove(name)


def manifest(kind: str) -> Manifest:
    """Return the words about a kind of source."""
    return connector_class(kind).manifest


def known(desk: Desk, ledger: Ledger, name: str) -> Source:
    """Return the source from the ledger; add it there if it was written to the sources file by hand."""
    try:
        return ledger.sources.get(name)
    except NotFound:
        entry = desk.entry(name)
        return ledger.sources.put(name, entry.kind, entry.settings.priority)
