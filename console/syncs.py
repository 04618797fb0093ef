"""`catchment sync`: bring one source up to date now."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.errors import Refused, TryAgain
from console import adding, render, session, values

if TYPE_CHECKING:
    from deployments.runs import RunView

    from catchment.ledger import Source, SyncRow


def sync(
    name: Annotated[str, typer.Argument(help="The source.", autocompletion=session.source_names)],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is done and say what it did.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Compare contents, not only sizes and times.")] = False,
    as_json: values.Json = False,
) -> int:
    """Bring a source up to date now.

    With --wait the exit code says how it went: 0 done (items in quarantine are told, and are no error), 1 failed,
    10 the source is held.
    """
    entry = adding.entry(name)
    _may_run(name)
    server = session.needs_server()
    from deployments import runs

    started = datetime.now(UTC)
    run = runs.start_sync(server, entry.kind, name, deep=deep)
    if not wait:
        if as_json:
            render.show_json({"source": name, "run": run})
        else:
            render.say(f"{name}: started; see it at {server.url} or with `catchment status`")
        return 0
    progress = _Progress(name)
    try:
        view = runs.wait(server, run, progress.show, timeout=None)
    except KeyboardInterrupt:
        progress.end()
        render.note(f"the sync of {name} goes on in the background; see `catchment status`")
        raise
    progress.end()
    return _report(name, view, started, as_json)


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
    from catchment.errors import NotFound

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
        raise TryAgain(f"{name} was left alone: {render.clean(view.message)}")
    completed = view.state_type == "COMPLETED" and view.state_name != "Skipped"
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
        render.say(f"{name}: {values.summary(last.summary) if last else 'done'}")
        if last and last.summary.get("quarantined"):
            render.say(f"See what could not be read: `catchment quarantine list --source {name}`")
    if completed:
        return 0
    why = render.clean(last.error if last and last.error else view.message or view.state_name)
    if held:
        raise TryAgain(f"{name} is held: {why}; release it with `catchment sources resume {name}`")
    render.note(f"catchment: the sync of {name} ended {view.state_name}: {why}; see {view.ui_url}")
    return 1


def _last(source: Source | None, started: datetime) -> SyncRow | None:
    """The sync that our run made; not one from before it, should it have died before it began."""
    if source is None:
        return None
    with session.reading() as ledger:
        last = ledger.syncs.last(source.id)
    return last if last and last.began >= started.replace(microsecond=0) else None


class _Progress:
    """One line that says how far a sync is: rewritten in place on a terminal, else one line per change of state."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._shown = ""
        self._live = sys.stderr.isatty()

    def show(self, view: RunView) -> None:
        text = f"{self._name}: {view.state_name.lower()}{self._jobs() if self._live else ''}"
        if text == self._shown:
            return
        self._shown = text
        if self._live:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
        else:
            render.note(text)

    def end(self) -> None:
        if self._live and self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _jobs(self) -> str:
        with session.reading() as ledger:
            jobs: dict[str, Any] = dict(ledger.queue.counts().get(self._name, {}))
        left = sum(jobs.get(state, 0) for state in ("pending", "running", "retrying"))
        done = sum(jobs.get(state, 0) for state in ("succeeded", "skipped", "quarantined"))
        return f", {done} done, {left} to go" if left or done else ""
