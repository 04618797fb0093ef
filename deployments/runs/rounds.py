"""The recovery rounds of a home's worker: every half minute they correct runs and syncs that died without a report.

The functions below the rounds release jobs in the ledger. Each opens the ledger and may wait for it: call it in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Set
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient

from catchment.errors import CatchmentError, NotFound
from catchment.ledger import OFF, Ledger
from catchment.runtime.home import Home
from catchment.runtime.membership import ANY
from catchment.runtime.server_report import ServerReport
from catchment.sync import revoke
from catchment.telemetry.incidents import ReasonCode
from connectors import connector_class
from deployments.runs import recovery
from deployments.runs.deliveries import deploy_sinks
from deployments.runs.live_runs import Ending
from deployments.runs.recovery import Executed
from deployments.runs.state_tags import mark
from deployments.server.planned import read_report
from deployments.server.running import Running, running
from deployments.sources.sources_file import SourcesFile
from tasks.background_work import request_background
from tasks.coalesce import request_once
from tasks.run_states import COALESCED, COMPLETED, INTERRUPTED, SKIPPED
from tasks.source_events import emit

_SECONDS = 30.0
_SOON_SECONDS = 3.0
"""Time until the next round after an incomplete one."""
_FIRST_SECONDS = 10.0
"""Time for the first round, during which no run starts."""
_REPORT_SECONDS = 90.0
"""Time between two reports of the server's plans: each can cost it half a second."""
_PLANNED_SECONDS = 6.0
"""Time from a change of a deployment until the server has planned its runs, which are then reported, too."""
_SETTLE_SECONDS = 1.0
"""Time from a change to its report: the server emits an event before it commits, and changes arrive in bursts."""
_BEAT_SECONDS = 10.0
_UNMARKED = (COMPLETED.name, SKIPPED.name, COALESCED.name)
"""States of runs after which a source without a mark needs none."""
_LOOK_BACK = timedelta(minutes=10)
"""Maximum age of a crash that is resumed. The first round resumes crashes of any age."""


@dataclass(eq=False)
class RecoveryRounds:
    """Corrects the runs and syncs that the worker does not execute. `live` are its runs, including starting ones.

    While `looking` is held the worker starts no run. `has_ended(owner, run)`: whether the owner of a sync in the ledger is
    the worker's runner and does not execute the run; called in a thread.
    """

    home: Home
    executed: Executed
    live: Callable[[], Set[UUID]]
    has_ended: Callable[[str, str | None], bool]
    looking: asyncio.Lock
    warn: Callable[[str], None]
    _since: timedelta | None = None
    _has_requested: bool = False
    _marked: Set[str] = frozenset()
    _silent: Set[str] = frozenset()
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _due: asyncio.Event = field(default_factory=asyncio.Event)

    async def first(self, client: PrefectClient) -> None:
        """Correct the states of runs before the worker takes any: no run that the server believes active can be alive."""
        with suppress(TimeoutError), self._postponed():
            async with asyncio.timeout(_FIRST_SECONDS):
                await self._correct(client)

    async def run(self, client: PrefectClient) -> None:
        """Run a round every half minute, sooner after an incomplete one or when a host falls silent, until cancelled."""
        while True:
            is_correct = is_resumed = False
            with self._postponed():
                is_correct = await self._correct(client)
            await self.reclaim()
            with self._postponed():
                is_resumed = await self._resume(client)
            if self.executed.host:
                with self._postponed():
                    await asyncio.to_thread(clear_for_other_hosts, self.home)
                await self._recover_silent_hosts(client)
            if is_resumed and not self._has_requested:
                self._has_requested = True
                await self._request_background()
                with self._postponed():
                    await asyncio.to_thread(deploy_sinks, self.home)
            if is_resumed:
                await self._supply_sinks()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), _SECONDS if is_correct and is_resumed else _SOON_SECONDS)
            self._due.clear()

    async def follow(self) -> None:
        """Write the facts that only the server has to a file, and mark the deployments, until cancelled.

        Every 90 seconds, and at once and seconds after `changed` and `ended`. The file is for readers without Prefect, and for
        the time while the server is down.
        """
        while True:
            seconds, has_changed = _SOON_SECONDS, self._changed.is_set()
            self._changed.clear()
            with self._postponed():
                if await self._report():
                    seconds = _PLANNED_SECONDS if has_changed else _REPORT_SECONDS
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)
            await asyncio.sleep(_SETTLE_SECONDS)

    def changed(self) -> None:
        """Note that a deployment was created, changed or deleted."""
        self._changed.set()

    def ended(self, source: str, state: str | None) -> None:
        """Note the final state of a run of a source, which may change its mark."""
        if source in self._marked or state not in _UNMARKED:
            self._changed.set()

    async def beat(self) -> None:
        """Store a heartbeat of this host for the other hosts every ten seconds, until cancelled."""
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            await self.beat_once()

    async def beat_once(self, *, is_last: bool = False) -> None:
        """Store a heartbeat of this host for the other hosts, or with `is_last` that it stops."""
        try:
            silent = await asyncio.to_thread(beat, self.home, is_last=is_last)
        except CatchmentError as error:
            self.warn(f"The other hosts may take this one for silent ({error})")
            return
        if silent - self._silent:
            self._due.set()
        self._silent = silent

    async def reclaim(self) -> None:
        """Close the syncs in the ledger that no process executes."""
        with self._postponed():
            await asyncio.to_thread(reclaim, self.home, self.has_ended)

    async def _correct(self, client: PrefectClient) -> bool:
        """Correct the states of runs and drop overdue runs. Returns False if the server refused some."""
        async with self.looking:
            await recovery.drop_overdue(client, self.executed, self.live())
        return await recovery.correct(client, self.executed, self.live)

    async def _resume(self, client: PrefectClient) -> bool:
        """Resume the sources after crashes of their runs. Returns False if it is too early for that."""
        # Until Catchment has started, the deployments may differ from the sources file.
        if running(self.home) is None:
            return False
        for source in await recovery.resume_all(client, self.executed, self._since):
            if source.is_resumed:
                self.warn(str(source))
        self._since = _LOOK_BACK
        return True

    async def _recover_silent_hosts(self, client: PrefectClient) -> None:
        """Interrupt the runs of hosts that do not answer, and continue those of the queue `any`. One host at a time does it."""
        with self._postponed(), ExitStack() as stack:
            silent = await asyncio.to_thread(stack.enter_context, silent_hosts(self.home))
            for host in silent:
                executed = Executed(self.executed.pool, host)
                ending = Ending(f"host {host} does not answer", state=INTERRUPTED, may_restart=True)
                await recovery.correct(client, executed, frozenset, ending)
                for source in await recovery.resume_all(client, executed, _LOOK_BACK, queue=ANY):
                    self.warn(str(source))

    async def _request_background(self) -> None:
        """Request the embeddings and texts of pictures that an earlier program or an interrupted run left out."""
        with self._postponed():
            if await asyncio.to_thread(Ledger.ask, self.home, may_lack_embeddings, False):
                await request_background("embed")
            if await asyncio.to_thread(Ledger.ask, self.home, lambda ledger: ledger.recognition.needs_run(), False):
                await request_background("recognize")

    async def _supply_sinks(self) -> None:
        """Request deliveries that no sync requested: after an undo, a revocation, a failure or a restart."""
        with self._postponed():
            for name in await asyncio.to_thread(Ledger.ask, self.home, lambda ledger: ledger.outbox.due(), list[str]()):
                await request_once("deliver", name)

    async def _report(self) -> bool:
        """Return whether the server responded."""
        if (state := running(self.home)) is None or (report := await asyncio.to_thread(read_report, state)) is None:
            return False
        await asyncio.to_thread(report.write, self.home)
        self._marked = await asyncio.to_thread(mark_deployments, self.home, state, report)
        return True

    @contextmanager
    def _postponed(self) -> Iterator[None]:
        """Leave a step that fails to the next round, with a warning."""
        try:
            yield
        except (CatchmentError, httpx.HTTPError) as error:
            self.warn(f"Recovery postponed ({type(error).__name__}: {error})")


def reclaim(home: Home, has_ended: Callable[[str, str | None], bool]) -> int:
    """Close the syncs that no process executes and release their jobs. Returns the number of jobs. Idempotent.

    A sync is lost if its process has exited, or if `has_ended(owner, run)`. Raises LedgerError.
    """
    attempts = _attempts(home)
    jobs = 0
    with _opened(home) as ledger:
        if ledger is None:
            return jobs
        for source in ledger.sources.all():
            last = ledger.syncs.last(source.id)
            if (
                last is not None
                and last.outcome is None
                and ledger.alive(last.owner)
                and not has_ended(last.owner, last.run)
            ):
                continue
            # First, because closing a sync releases its jobs regardless of their attempts.
            most = attempts.get(source.name) or connector_class(source.kind).policy.retry.attempts
            recovered = ledger.queue.recover(source.id, ledger.alive, most)
            jobs += recovered.released + recovered.quarantined
        ledger.syncs.close_dead(ledger.alive, has_ended)
        return jobs


def give_back(home: Home, runner: str, culprit: str | None, hold_because: str | None) -> None:
    """Release the jobs of a lost runner without counting the attempt, except those of the source that caused the loss.

    `hold_because`: hold the culprit, for this reason. Raises LedgerError, NotFound if the culprit is not a source.
    """
    with _opened(home) as ledger:
        if ledger is None:
            return
        ledger.queue.give_back(runner, culprit)
        if culprit is not None and hold_because is not None:
            ledger.sources.hold(culprit, "worker", hold_because)
            emit("source.held", culprit, {"reason": ReasonCode.SOURCE_HELD})


def may_lack_embeddings(ledger: Ledger) -> bool:
    """Return whether the library has passages and search by meaning is on. Only the model knows which ones it lacks."""
    return ledger.embeddings.setting != OFF and ledger.embeddings.counts(None).total > 0


def clear_for_other_hosts(home: Home) -> None:
    """Delete the data of sources on this host after their consent was withdrawn on another host.

    Raises LedgerError, HomeUnavailable.
    """
    with _opened(home) as ledger:
        if ledger is not None:
            revoke.clear_for_other_hosts(home, ledger)


def mark_deployments(home: Home, state: Running, report: ServerReport) -> Set[str]:
    """Mark the deployments of the sources. Returns the sources with a mark."""
    with _opened(home) as ledger:
        return frozenset() if ledger is None else mark(home, ledger, state, report)


@contextmanager
def silent_hosts(home: Home) -> Iterator[Set[str]]:
    """Yield the hosts of the library that stopped without notice, unless another process is in such a block."""
    with _opened(home) as ledger:
        if ledger is None:
            yield frozenset()
            return
        with ledger.alone("recovery") as is_alone:
            yield _silent(ledger) if is_alone else frozenset()


def beat(home: Home, *, is_last: bool = False) -> Set[str]:
    """Store a heartbeat of this host, or with `is_last` that it stops. Return the silent hosts. Raises LedgerError."""
    with _opened(home) as ledger:
        if ledger is None:
            return frozenset()
        (ledger.hosts.end_beat if is_last else ledger.hosts.beat)()
        return _silent(ledger)


def _silent(ledger: Ledger) -> Set[str]:
    """The hosts that stopped without notice."""
    return frozenset(host.name for host in ledger.hosts.all() if host.silent_for is not None)


@contextmanager
def _opened(home: Home) -> Iterator[Ledger | None]:
    """Open the ledger; None if no source was ever synced."""
    try:
        ledger = Ledger.inspect(home)
    except NotFound:
        yield None
    else:
        with closing(ledger):
            yield ledger


def _attempts(home: Home) -> dict[str, int]:
    """Attempts allowed for a job, by source, from the source's policy; empty if the sources file is invalid."""
    try:
        entries = SourcesFile.load(home.sources_file).entries
    except CatchmentError:
        return {}
    return {entry.name: entry.settings.policy(connector_class(entry.kind).policy).retry.attempts for entry in entries}
