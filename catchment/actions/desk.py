"""What actions need besides the ledger's rules: the sources file, the connectors and the running system."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from catchment.contracts import Connector
from catchment.errors import NotFound
from catchment.ledger import Ledger, Source
from catchment.runtime.server_report import ServerReport
from catchment.settings import Home, SourceSettings


@dataclass(frozen=True, slots=True)
class Timing:
    """When and where a source is synced, as typed. None leaves a part as it is, or without a schedule for a new source.

    Give one of `every` ("15m"), `cron` and `rrule`. `debounce`: seconds without a change before the sync of a watched source.
    `on`: this host or `any`, for a new source of a joined host.
    """

    every: str | None = None
    cron: str | None = None
    rrule: str | None = None
    watch: bool | None = None
    debounce: float | None = None
    on: str | None = None


class WrittenSource(Protocol):
    """A source as the sources file has it."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def settings(self) -> SourceSettings: ...

    @property
    def schedules(self) -> Sequence[object]: ...

    @property
    def watch(self) -> bool: ...

    @property
    def quiet(self) -> float | None: ...


E = TypeVar("E", bound=WrittenSource)


class Desk(Protocol[E]):
    """The surroundings of an action. Every method that needs a running system raises TryAgain if it does not respond."""

    @property
    def home(self) -> Home: ...

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds of source."""
        ...

    def reading(self) -> AbstractContextManager[Ledger]:
        """Open the ledger for reading. Raises NotFound if there is none yet."""
        ...

    def writing(self) -> AbstractContextManager[Ledger]:
        """Open the ledger for changes; create it if necessary."""
        ...

    def entries(self) -> Mapping[str, E]:
        """Return the sources of the sources file, by name. Raises ConfigError."""
        ...

    def entry(self, name: str) -> E:
        """Return a source of the sources file, or of another host. Raises NotFound with a similar name."""
        ...

    def draft(self, kind: str, location: str, name: str, settings: Mapping[str, Any], timing: Timing) -> E:
        """Return a new source from typed values, without writing it. Raises BadInput, Refused for another host."""
        ...

    def revised(self, entry: E, settings: Mapping[str, Any], timing: Timing) -> E:
        """Return a source with some settings replaced; None removes one. The file stays as before. Raises BadInput."""
        ...

    def web_address(self, text: str) -> tuple[str, str]:
        """Return a web address in its one spelling, and the name of its host for consent. Raises BadInput."""
        ...

    def secret_setting(self, kind: str) -> str | None:
        """Return the setting that refers to the password or token of a kind; None if it needs none. Raises BadInput."""
        ...

    def connector(self, entry: E) -> Connector:
        """Return the connector of a source, able to resolve its secrets."""
        ...

    def connector_here(self, entry: E) -> Connector:
        """Return the connector to read the source now. Raises Refused if only another host has its files or secret."""
        ...

    def adding(self, entry: E, *, is_written: bool) -> AbstractContextManager[None]:
        """Write a source to the file, unless `is_written`, and deploy it. A failure of the block removes both again.

        Raises BadInput if the name is taken or invalid.
        """
        ...

    def changing(self, entry: E) -> AbstractContextManager[None]:
        """Change a source in the file and its deployment. A failure of the block restores both. Raises ConfigError."""
        ...

    def moving(self, name: str, to: str) -> AbstractContextManager[E]:
        """Yield a source as it will run on this host or `any`; then write and deploy it here, unless the block fails.

        Raises NotFound, BadInput for a source that exists on one machine only, Refused for another host, TryAgain.
        """
        ...

    def require_defined_here(self, name: str) -> None:
        """Raise Refused for a source that another host defines."""
        ...

    def remove(self, name: str) -> None:
        """Remove the deployment of a source, then its entry in the file. Idempotent."""
        ...

    def switch(self, kind: str, name: str, *, on: bool) -> None:
        """Show a pause, or its end, in the Prefect UI. No effect without a running system or a deployment."""
        ...

    def require_running(self) -> None:
        """Raise TryAgain if Catchment is not running."""
        ...

    def start(
        self, kind: str, name: str, *, deep: bool = False, plan: str | None = None, backfill: int | None = None
    ) -> str:
        """Start a sync and return the ID of its run. Raises TryAgain if Catchment is not running, NotFound if not deployed."""
        ...

    def retry_now(self, names: Collection[str]) -> None:
        """Start the planned retries of sources now. No effect without a running system. Raises TryAgain."""
        ...

    def cancel(self, run: str) -> None:
        """Ask the system to cancel a run. Raises TryAgain if Catchment is not running, NotFound for an unknown run."""
        ...

    def run_address(self, run: str) -> str | None:
        """Return the address of a run in the Prefect UI; None if Catchment is not running."""
        ...

    def report(self) -> ServerReport | None:
        """Return the present plans of the server; None if it does not answer."""
        ...


def known(desk: Desk[E], ledger: Ledger, name: str) -> Source:
    """Return the source from the ledger; add it there if it was written to the sources file by hand."""
    try:
        return ledger.sources.get(name)
    except NotFound:
        written = desk.entry(name)
        return ledger.sources.put(name, written.kind, written.settings.priority)
