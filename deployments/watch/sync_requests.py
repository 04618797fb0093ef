"""The watcher's access to the Prefect server: the status of a source's deployment, and the event that requests a sync."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta

from catchment.errors import TryAgain
from catchment.runtime.home import Home
from catchment.runtime.membership import Membership
from deployments.server.client import Client, api, deployment_named
from deployments.server.running import Running, running
from deployments.sources.sources_file import SourceEntry
from deployments.watch import automation
from deployments.watch.debounce import DeploymentStatus
from tasks.run_states import ACTIVE
from tasks.source_events import resource

# A worker may start a run up to this long before its scheduled time.
_AHEAD = timedelta(seconds=2)
# A source has at most one run in progress and few that wait; older runs have finished.
_RUNS = 10
_WAITING = frozenset({"SCHEDULED"})
# The worker has already taken the changed paths of a pending run, which may miss later changes.
_IN_PROGRESS = frozenset({*ACTIVE, "PAUSED"})


class Server:
    """The server of a home, over one persistent connection. Every call raises TryAgain if the server does not answer."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._client: Client | None = None
        self._open = contextlib.ExitStack()

    def status(self, kind: str, name: str) -> DeploymentStatus:
        """Return the status of a source's deployment."""
        with self._connected() as client:
            if (deployment := deployment_named(client, f"sync-{kind}", name)) is None:
                return DeploymentStatus(None)
            query = {
                "deployments": {"id": {"any_": [deployment["id"]]}},
                "flow_runs": {"expected_start_time": {"before_": (datetime.now(UTC) + _AHEAD).isoformat()}},
                "sort": "EXPECTED_START_TIME_DESC",
                "limit": _RUNS,
            }
            runs = client.post("/flow_runs/filter", json=query).raise_for_status().json()
        states = {run["state_type"] for run in runs}
        return DeploymentStatus(
            deployment["id"],
            paused=deployment["paused"],
            newest=runs[0]["id"] if runs else None,
            waiting=not states.isdisjoint(_WAITING),
            running=not states.isdisjoint(_IN_PROGRESS),
        )

    def emit(self, name: str) -> None:
        """Report that a source changed, without paths. Also raises TryAgain during shutdown, which would kill the run."""
        if self._state().stopping:
            raise TryAgain("Catchment is stopping; the next start compares every source")
        with self._connected() as client:
            client.emit(automation.EVENT, resource(name)).raise_for_status()

    def ensure(self, entries: Collection[SourceEntry]) -> dict[str, str]:
        """Make the automations match the sources, as `automation.ensure`."""
        return automation.ensure(self._state(), entries, Membership.of(self._home))

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        self._client = None
        self._open.close()

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Client]:
        """The connection. An error closes it, because a restarted server may use another port."""
        try:
            if self._client is None:
                self._client = self._open.enter_context(api(self._state()))
            yield self._client
        except TryAgain:
            self.close()
            raise

    def _state(self) -> Running:
        state = running(self._home)
        if state is None:
            raise TryAgain("not running; start Catchment with `catchment up --detach`")
        return state
