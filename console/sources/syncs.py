"""`catchment sync`: bring one source up to date now."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from catchment.errors import CatchmentError, NotFound, Refused, TryAgain
from catchment.runtime.home import expanded
from console import arguments, render, session
from console.sources import source_lifecycle

if TYPE_CHECKING:
    from catchment.ledger import Source, SyncRow
    from deployments.runs.runs import RunView


_STILL_SECONDS = 30.0
"""After which a run that is in the same state may be so because its end, or its beginning, cannot be written down."""

_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def sync(
    name: session.SourceName,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is done and say what it did.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Compare contents, not only sizes and times.")] = False,
    plan: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Do what this plan says and nothing else; see `catchment plan`.")
    ] = None,
    as_json: arguments.Json = False,
) -> int:
    """Bring a source up to date now.

    With --wait the exit code says how it went: 0 done (items in quarantine are told, and are no error), 1 failed,
    10 the source is held or rests. A source that is paused, or that nobody agreed to have read, is refused with 5.
    """
    entry = source_lifecycle.entry(name)
    _may_run(name)
    source_lifecycle.require_consent(entry)
    server = session.needs_server()
    from deployments.runs import runs

    started = datetime.now(UTC)
    followed, deep = (None, deep) if plan is None else _follow(plan, name)
    run = runs.start_sync(server, entry.kind, name, deep=deep, plan=followed)
    if not wait:
        if as_json:
            render.show_json({"source": name, "run": run})
        else:
            render.say(f"{name}: started; see it at {server.url} or with `catchment status`")
        return 0
    return _wait(name, run, started, as_json)


def _wait(name: str, run: str, started: datetime, as_json: bool) -> int:
    from deployments.runs import runs

    try:
        with _Progress(name) as show:
            view = runs.wait(session.needs_server(), run, show)
    except KeyboardInterrupt:
        render.note(f"the sync of {name} goes on in the background; see `catchment status`")
        raise
    return _report(name, view, started, as_json)


def _follow(file: Path, name: str) -> tuple[str, bool]:
    """Keep a plan for the run; what it is called there, and whether it was made by comparing contents."""
    from catchment.sync import plan

    file = expanded(file)
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"There is no file {file.name}; make a plan with `catchment plan {name} --out FILE`") from None
    home = session.home()
    kept = plan.keep(home, data)
    return kept, plan.kept(home, kept, name).deep


def _may_run(name: str) -> None:
    source = _source(name)
    if source is None:
        return
    why = f" ({render.clean(source.state_reason)})" if source.state_reason else ""
    if source.state == "held":
        raise TryAgain(f"{name} is held{why}; release it with `catchment sources resume {name}`")
    if source.state == "paused":
        raise Refused(f"{name} is paused{why}; go on with `catchment sources resume {name}`")


def _source(name: str) -> Source | None:
    try:
        with session.reading() as ledger:
            return ledger.sources.get(name)
    except NotFound:
        return None


def _report(name: str, view: RunView, started: datetime, as_json: bool) -> int:
    source = _source(name)
    last = _last(source, started)
    held = source is not None and source.state == "held"
    if view.state_name == "Skipped":
        source_lifecycle.require_consent(source_lifecycle.entry(name))
        raise TryAgain(render.clean(view.message))
    completed = view.state_type == "COMPLETED"
    if as_json:
        render.show_json(
            {
                "source": name,
                "run": view.id,
                "state": view.state_name,
                "message": view.message,
                "summary": last.summary if last else {},
            }
        )
    elif completed:
        render.say(f"{name}: {arguments.summary(last.summary) if last else 'done'}")
        if last and last.summary.get("quarantined"):
            render.say(f"See what could not be read: `catchment quarantine list --source {name}`")
    if completed:
        return 0
    if session.disk_is_full() or (view.state_type == "CRASHED" and _hardly_any_room()):
        # Of a crash neither the run nor the server could tell why.
        raise TryAgain(session.DISK_IS_FULL)
    why = render.clean(last.error if last and last.error else view.message or view.state_name)
    if held:
        raise TryAgain(f"{name} is held: {why}; release it with `catchment sources resume {name}`")
    render.note(f"catchment: the sync of {name} ended {view.state_name}: {why}; see {view.ui_url}")
    return 1


def _hardly_any_room() -> bool:
    from catchment import status

    return status.disk(session.home().path).verdict is status.Verdict.FAIL


def _last(source: Source | None, started: datetime) -> SyncRow | None:
    """The sync that our run made; not one from before it, should it have died before it began."""
    if source is None:
        return None
    with session.reading() as ledger:
        last = ledger.syncs.last(source.id)
    return last if last and last.began >= started.replace(microsecond=0) else None


class _Progress:
    """One line that says how far a sync is: kept up to date on a terminal, else one line per change of state."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._state = "asked for"
        self._since = time.monotonic()
        self._most = 0
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True) if render.can_rewrite() else None

    def __enter__(self) -> Callable[[RunView], None]:
        if self._ticker:
            self._ticker.start()
        return self._show

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._ticker:
            self._ticker.join()
            render.rewrite("")

    def _show(self, view: RunView) -> None:
        state = in_words(view.state_name)
        is_still = state == self._state and time.monotonic() - self._since > _STILL_SECONDS
        if (is_still or state == "late") and session.disk_is_full():
            # Nothing can be written of it, and nobody else would say why.
            raise TryAgain(session.DISK_IS_FULL)
        if state == self._state:
            return
        if self._ticker is None:
            render.note(f"{self._name}: {render.clean(state)}")
        self._state, self._since = state, time.monotonic()

    def _tick(self) -> None:
        while not self._ended.wait(0.5):
            render.rewrite(f"{self._name}: {render.clean(self._state)}{self._how_far()}")

    def _how_far(self) -> str:
        # A line of progress is not worth an error; the next one may tell.
        with suppress(CatchmentError), session.reading() as ledger:
            source = ledger.sources.get(self._name).id
            left, last = ledger.queue.left(source), ledger.syncs.last(source)
            self._most = max(self._most, left)
            return how_far(left, self._most, last.expected if last and last.outcome is None else None)
        return ""


def in_words(state: str) -> str:
    """The name of a state of Prefect's as a person writes it: "awaiting concurrency slot"."""
    return _CAPITAL.sub(" ", state).lower()


def how_far(left: int, most: int, expected: datetime | None) -> str:
    """How many jobs of a sync are done, when so many are left of the `most` there were at once, and when it will be done."""
    if not left:
        return ""
    ends = f", done about {render.clock(expected)}" if expected and expected > datetime.now(UTC) else ""
    return f" {render.bar(1 - left / most)} {most - left} of {most}{ends}"
