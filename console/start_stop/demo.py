"""`catchment demo`: the whole of Catchment on real input, from an empty home to searches, seen in the Prefect UI."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import BadInput, CatchmentError, Refused
from catchment.model import JobState
from catchment.runtime.home import Home, expanded
from console import render, session
from console.sources import consent, source_lifecycle
from console.sources.source_lifecycle import Timing

if TYPE_CHECKING:
    from deployments.runs.runs import RunView
    from deployments.supervisor.supervisor import Running


@dataclass(frozen=True, slots=True)
class _Source:
    name: str
    kind: str
    folder: Path
    exclude: tuple[str, ...] = ()


_PROJECT = Path(__file__).parents[2]
_STATE = _PROJECT / ".demo"
_EXAMPLES = (
    _Source("vault", "obsidian", _PROJECT / "examples" / "vault"),
    _Source("project", "local_files", _PROJECT, exclude=("/examples/vault/",)),
)
_SEARCHES = ("scouts quorum retire", "turbidity warranty", "味噌")


def demo(
    stop: Annotated[bool, typer.Option("--exit", help="Stop everything and leave when the result is shown.")] = False,
    source: Annotated[Path | None, typer.Option(help="Your own folder or vault instead of the example.")] = None,
    home: Annotated[Path, typer.Option(help="Where the demo keeps its state.")] = _STATE,
) -> int:
    """Ingest the example vault and this project; show the result."""
    os.environ["CATCHMENT_HOME"] = str(home.absolute())
    # All that it makes is to be in its own folder, also where the person's library is on PostgreSQL.
    os.environ.pop("CATCHMENT_DATABASE_URL", None)
    sources = [_own(source)] if source else _EXAMPLES
    from deployments.supervisor.supervisor import down, up

    if session.running():
        raise Refused("a demo is running already; end that one first (Ctrl-C there)")
    try:
        render.say("Starting the Prefect server and a worker …")
        up(Home.default(), detach=True, announce=render.say)
        server = session.running()
        if server is None:
            raise CatchmentError("the server did not stay up; see logs/server.log in the demo's folder")
        for one in sources:
            _add(one)
        completed = _sync(server, sources)
        _show([one.name for one in sources], _SEARCHES if source is None else ())
        _address(server)
        if not stop:
            render.say("Everything stays up until Ctrl-C.")
            _until_interrupted()
    finally:
        render.say("Stopping …")
        down(Home.default())
    return 0 if completed else 1


def _own(source: Path) -> _Source:
    folder = expanded(source).absolute()
    if not folder.is_dir():
        raise BadInput(f"{source} is not a folder; give SOURCE=/path/to/a/folder")
    kind = "obsidian" if (folder / ".obsidian").is_dir() else "local_files"
    words = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-")[:40]
    mark = hashlib.sha256(str(folder).encode()).hexdigest()[:4]
    return _Source(f"{words}-{mark}" if words else mark, kind, folder)


def _add(source: _Source) -> None:
    if source.name not in source_lifecycle.entries():
        given = {"exclude": list(source.exclude)} if source.exclude else {}
        entry = source_lifecycle.prepare(source.kind, str(source.folder), source.name, given, Timing())
        render.say(f"Added {source.name}: {source_lifecycle.commit(entry, consent.agreement(entry))}")


def _sync(server: Running, sources: Sequence[_Source]) -> bool:
    """Sync the sources side by side, telling how far each is; whether all completed."""
    from deployments.runs.runs import start_sync, view

    runs = {one.name: start_sync(server, one.kind, one.name) for one in sources}
    told = ""
    while True:
        views = {name: view(server, run) for name, run in runs.items()}
        line = " · ".join(f"{name}: {_progress(name, now)}" for name, now in views.items())
        if line != told:
            render.say(line)
            told = line
        if all(now.ended for now in views.values()):
            break
        time.sleep(0.5)
    for name, now in views.items():
        render.say(f"→ {now.name}")
        if now.state_type != "COMPLETED":
            render.note(f"the sync of {name} ended {now.state_name}: {render.clean(now.message)}")
    return all(now.state_type == "COMPLETED" for now in views.values())


def _progress(name: str, now: RunView) -> str:
    state = now.state_name.lower()
    if now.state_type != "RUNNING":
        return state
    with session.reading() as ledger:
        jobs = ledger.queue.counts().get(name, {})
    waiting = sum(jobs.get(one, 0) for one in (JobState.PENDING, JobState.RUNNING))
    return f"{state}, {sum(jobs.values()) - waiting} of {sum(jobs.values())}" if jobs else state


def _show(names: Sequence[str], searches: Sequence[str]) -> None:
    from console.start_stop.status import overview

    with session.reading() as ledger:
        rows = [r for r in overview(ledger) if r["name"] in names]
        # A run that died, or never began, has told nothing.
        told = {r["name"]: (r["last_sync"] or {}).get("summary", {}) for r in rows}
        render.say()
        render.show_table(
            ("SOURCE", "DOCUMENTS", "NEW OR CHANGED", "UNCHANGED", "SKIPPED", "QUARANTINED"),
            [
                (
                    r["name"],
                    r["documents"],
                    told[r["name"]].get("succeeded", 0),
                    told[r["name"]].get("unchanged", 0),
                    r["jobs"].get("skipped", 0),
                    r["jobs"].get("quarantined", 0),
                )
                for r in rows
            ],
        )
        if entries := [entry for entry in ledger.quarantine.list() if entry.source in names]:
            render.say("\nIn quarantine:")
            render.show_table(
                ("ITEM", "SOURCE", "REASON", "MESSAGE"), [(e.item, e.source, e.reason, e.message) for e in entries]
            )
        for words in searches:
            render.say(f"\ncatchment search {words}")
            for hit in ledger.library.search(words, limit=3):
                render.say(f"  {render.clean(hit.title)} — {render.clean(hit.item)} ({hit.source})")
                render.show_paragraph(hit.snippet, indent=4)


def _address(server: Running) -> None:
    from deployments.supervisor.supervisor import ui_login

    render.say(f"\nThe Prefect UI: {server.url}/dashboard")
    if where := ui_login(Home.default()):
        render.say(f"  the name and the password that it asks for are in {where}")


def _until_interrupted() -> None:
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()
