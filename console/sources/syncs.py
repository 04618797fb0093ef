"""`catchment sync`: sync one source or all of them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from catchment.errors import BadInput, CatchmentError, NotFound, PageSilent, Refused, TryAgain, UserError
from catchment.model import JobState
from catchment.runtime import web_process
from catchment.runtime.home import expanded
from console import arguments, render, session

if TYPE_CHECKING:
    from catchment.views.sources import LastSync, SourceStanding
    from deployments.runs.runs import RunView


_STALLED_SECONDS = 30.0
"""How long a run may stay in one state before a full disk is suspected: its next state could not be recorded."""

_RECENT: Final = timedelta(minutes=1)
_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")

Publish = Callable[["EndedSync"], None]


@dataclass(frozen=True)
class RequestedSync:
    """A sync that was started, or is to stop, by the ID of its run."""

    source: str
    run: str


@dataclass(frozen=True)
class EndedSync(RequestedSync):
    """An ended sync: the state and the message of its run, and its changes, by name."""

    state: str
    message: str
    summary: Mapping[str, int]


def sync(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name of the source.", autocompletion=session.source_names),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Sync all sources.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is done and show the result.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Compare contents instead of sizes and times.")] = False,
    plan: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Apply only the changes of this plan; see `catchment plan`.")
    ] = None,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Stop the running sync of the source after its current step.")
    ] = False,
    reason: arguments.Why = "",
    as_json: arguments.Json = False,
) -> int:
    """Sync a source, or all sources, now.

    With --wait, exits with 1 if the sync failed and 10 if the source is held or throttled. Quarantined items are reported,
    but are not a failure. Exits with 5 if the source is paused or has no consent; --all skips such sources.

    Example: catchment sync notes --wait
    """
    if everything == (name is not None):
        raise BadInput("NAME: name one source, or pass --all")
    if cancel and (name is None or wait or deep or plan is not None):
        raise BadInput("--cancel: cannot be combined with other options; name the source alone")
    if name is None:
        if plan is not None:
            raise BadInput("--plan: cannot be combined with --all; name the source of the plan")
        return sync_all(reason, wait=wait, deep=deep, as_json=as_json)
    if cancel:
        from deployments.actions import outcomes, syncs

        run = syncs.cancel(session.desk(), name, session.operator(), reason)
        if as_json:
            render.show_json(RequestedSync(name, run))
        else:
            render.say(outcomes.SYNC_CANCELLED.format(name))
        return 0
    started = datetime.now(UTC)
    run = _start(name, reason, deep, None if plan is None else _read_plan(plan, name))
    if wait:
        return _wait(name, run, started, render.show_json if as_json else None)
    if as_json:
        render.show_json(RequestedSync(name, run))
    else:
        _show_started(name)
    return 0


def _start(name: str, reason: str, deep: bool, plan: bytes | None) -> str:
    """Start a sync and return the ID of its run: by the web process, or here if it refuses or does not answer."""
    if plan is None:
        # A refusal is repeated here, with its class. A run that was requested without an answer includes the second one.
        with suppress(PageSilent):
            return str(web_process.act(session.home(), "syncs.start", {"name": name, "deep": deep, "reason": reason}))
    from deployments.actions import syncs

    return syncs.start(session.desk(), name, session.operator(), reason, deep=deep, plan=plan)


def sync_all(reason: str, *, wait: bool, deep: bool, as_json: bool) -> int:
    """Start a sync of every source, and wait for all of them if requested. Return the worst exit code."""
    desk = session.desk()
    if desk.entries():
        session.needs_server()
    from deployments.actions import syncs

    started, codes = datetime.now(UTC), {0}
    running: dict[str, str] = {}
    for name, run in syncs.start_all(desk, session.operator(), reason, deep=deep).items():
        if isinstance(run, str):
            running[name] = run
        elif isinstance(run, Refused):
            render.note(f"skipped {_about(name, run)}")
        else:
            render.note(f"catchment: {_about(name, run)}")
            codes.add(run.exit_code)
    results: list[RequestedSync] = []
    for name, run in running.items():
        if not wait:
            results.append(RequestedSync(name, run))
            continue
        try:
            codes.add(_wait(name, run, started, results.append if as_json else None))
        except UserError as error:
            render.note(f"catchment: {_about(name, error)}")
            codes.add(error.exit_code)
    if as_json:
        render.show_json(results)
    elif not wait:
        for name in running:
            _show_started(name)
    return 1 if 1 in codes else max(codes)


def _about(name: str, error: UserError) -> str:
    """Return the message of an error, which may be one of the system, with the name of the source that it concerns."""
    return f"{name}: {render.clean(error).removeprefix(f'{name}: ')}"


def _show_started(name: str) -> None:
    from deployments.actions import outcomes

    render.say(
        f"{outcomes.SYNC_STARTED.format(name)}; follow it at {session.needs_server().url} or with `catchment status`"
    )


def _wait(name: str, run: str, started: datetime, publish: Publish | None) -> int:
    from deployments.runs import runs

    progress = _Progress(name)
    try:
        with render.ticking(progress.line):
            view = runs.wait(session.needs_server(), run, progress.show)
    except KeyboardInterrupt:
        render.note(f"{name}: the sync continues in the background; see `catchment status`")
        raise
    return _report(name, view, started, publish)


def _read_plan(file: Path, name: str) -> bytes:
    file = expanded(file)
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"{file.name}: no such file; make a plan with `catchment plan {name} --out FILE`") from None


def _standing(name: str) -> SourceStanding | None:
    """Return a source, by the web process or read here; None if it was never synced."""
    from catchment.views import sources

    rows: Sequence[SourceStanding]
    try:
        rows = [line.standing for line in web_process.fetch(session.home(), "/sources", list[sources.SourceLine])]
    except PageSilent:
        rows = session.asked(lambda ledger: sources.standings(ledger, session.home()), ())
    return next((row for row in rows if row.name == name), None)


def _report(name: str, view: RunView, started: datetime, publish: Publish | None) -> int:
    """Show the result of a finished run: pass it to `publish`, or print it."""
    from tasks.run_states import SKIPPED

    source = _standing(name)
    last = source and source.last_sync
    if last and last.began < started.replace(microsecond=0):
        last = None  # the run ended before its sync started
    if view.state_name == SKIPPED.name:
        from deployments.actions import consents

        desk = session.desk()
        consents.require(desk, desk.entry(name))
        raise TryAgain(render.clean(view.message))
    is_completed = view.state_type == "COMPLETED"
    if publish:
        summary = last.summary if last else {}
        publish(EndedSync(name, view.id, view.state_name, view.message, summary))
    elif is_completed:
        render.say(f"{name}: {arguments.summary(last.summary) + _earlier(name, last, started) if last else 'done'}")
        if last and last.summary.get("quarantined"):
            render.say(f"{name}: see quarantined items: `catchment quarantine list --source {name}`")
    if is_completed:
        return 0
    if session.disk_is_full() or (view.state_type == "CRASHED" and _disk_is_nearly_full()):
        # After a crash neither the run nor the server recorded the cause.
        raise TryAgain(session.DISK_IS_FULL)
    problem = render.clean((last and last.error) or view.message or view.state_name)
    if source and source.state == "held":
        raise TryAgain(f"{name}: held ({problem}); resume with `catchment sources resume {name}`")
    render.note(f"catchment: {name}: sync ended {view.state_name} ({problem}); see {view.ui_url}")
    return 1


def _earlier(name: str, last: LastSync, started: datetime) -> str:
    """If the last sync found no changes, return the result of a sync shortly before, for example one of the watcher."""
    from catchment.views.sources import SourceView

    if arguments.summary(last.summary) == arguments.NOTHING:
        with suppress(PageSilent):
            for row in web_process.fetch(session.home(), f"/sources/{name}", SourceView).syncs:
                is_recent = row.ended is not None and row.ended > started - _RECENT
                if is_recent and (effects := arguments.summary(row.summary)) != arguments.NOTHING:
                    return f"; {effects} by the sync {render.ago(row.ended)}"
    return ""


def _disk_is_nearly_full() -> bool:
    from catchment.views import health

    return health.disk(session.home().path).verdict == "fail"


class _Progress:
    """Progress of a sync: one line that is updated on a terminal, otherwise one line per change of state."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._state = self._words = "requested"
        self._since = time.monotonic()
        self._most = 0

    def show(self, view: RunView) -> None:
        state = in_words(view.state_name)
        is_stalled = state == self._state and time.monotonic() - self._since > _STALLED_SECONDS
        if (is_stalled or state == "late") and session.disk_is_full():
            # No state can be recorded, so the cause is reported here.
            raise TryAgain(session.DISK_IS_FULL)
        if state == self._state:
            return
        self._words = render.clean(state)
        if state == "late" and (source := _standing(self._name)) and (wait := source.wait):
            self._words = render.clean(f"waits: {wait.why}; {wait.remedy}")
        if not render.can_rewrite():
            render.note(f"{self._name}: {self._words}")
        self._state, self._since = state, time.monotonic()

    def line(self) -> str:
        """Return the state of the sync, and how far it is."""
        # An error is ignored: the next update may succeed.
        with suppress(CatchmentError):
            if source := _standing(self._name):
                left = sum(source.jobs.get(state, 0) for state in (JobState.PENDING, JobState.RUNNING))
                last = source.last_sync
                self._most = max(self._most, left)
                share = share_done(left, self._most, last.expected if last and not last.outcome else None)
                return f"{self._name}: {self._words}{share}"
        return f"{self._name}: {self._words}"


def in_words(state: str) -> str:
    """Return the name of a Prefect state in lower-case words: "waiting for the sync that runs"."""
    from tasks.run_states import AWAITING_SLOT

    return "waiting for the sync that runs" if state == AWAITING_SLOT.name else _CAPITAL.sub(" ", state).lower()


def share_done(left: int, most: int, expected: datetime | None) -> str:
    """Return a progress bar and the expected end of a sync with `left` jobs out of `most`."""
    if not left:
        return ""
    ends = f", done about {render.clock(expected)}" if expected and expected > datetime.now(UTC) else ""
    return f" {render.bar(1 - left / most)} {most - left} of {most}{ends}"
