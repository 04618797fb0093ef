"""`catchment demo`: the whole of Catchment on real input, from an empty home to searches, seen in the Prefect UI."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import BadInput, CatchmentError
from catchment.home import Home
from console import adding, render, session
from console.adding import Timing

if TYPE_CHECKING:
    from deployments.runs import RunView
    from deployments.supervisor import Running

_PROJECT = Path(__file__).parent.parent
_STATE = _PROJECT / ".demo"
_SEARCHES = ("scouts quorum retire", "turbidity warranty", "味噌")


def demo(
    stop: Annotated[bool, typer.Option("--exit", help="Stop everything and leave when the result is shown.")] = False,
    source: Annotated[Path | None, typer.Option(help="Your own folder or vault instead of the example.")] = None,
) -> int:
    """Ingest the example vault and this project; show the result."""
    os.environ.setdefault("CATCHMENT_HOME", str(_STATE))
    names = _sources(source)
    from deployments.supervisor import down, up

    try:
        render.say("Starting the Prefect server and a worker …")
        up(Home.default(), detach=True, announce=render.say)
        server = session.running()
        if server is None:
            raise CatchmentError("the server did not stay up; see .demo/logs/server.log")
        for name, kind, location in names:
            _add(name, kind, location)
        failed = _sync_all(server, [(name, kind) for name, kind, _ in names])
        _show([name for name, _, _ in names], source is None)
        _address(server)
        if not stop:
            render.say("Everything stays up until Ctrl-C.")
            _until_interrupted()
    finally:
        render.say("Stopping …")
        down(Home.default())
    return 1 if failed else 0


def _sources(own: Path | None) -> list[tuple[str, str, Path]]:
    if own is None:
        return [("vault", "obsidian", _PROJECT / "examples" / "vault"), ("project", "local_files", _PROJECT)]
    folder = own.expanduser().absolute()
    if not folder.is_dir():
        raise BadInput(f"{own} is not a folder; give SOURCE=/path/to/a/folder")
    kind = "obsidian" if (folder / ".obsidian").is_dir() else "local_files"
    return [("mine", kind, folder)]


def _add(name: str, kind: str, location: Path) -> None:
    if name in adding.entries():
        return
    entry = adding.prepare(kind, str(location), name, {}, Timing())
    render.say(f"Added {adding.commit(entry)}")


def _sync_all(server: Running, sources: Sequence[tuple[str, str]]) -> bool:
    """Sync the sources side by side; whether one of them failed."""
    from deployments.runs import start_sync, wait

    runs = {name: start_sync(server, kind, name) for name, kind in sources}
    failed = False
    for name, run in runs.items():
        seen: set[str] = set()

        def tell(view: RunView, seen: set[str] = seen, name: str = name) -> None:
            if view.state_name not in seen:
                seen.add(view.state_name)
                render.say(f"{name}: {view.state_name.lower()}")

        view = wait(server, run, tell, timeout=3_600)
        render.say(f"→ {view.name}")
        failed |= view.state_type != "COMPLETED"
    return failed


def _show(names: Sequence[str], searches: bool) -> None:
    from console.status import overview

    with session.reading() as ledger:
        rows = [r for r in overview(ledger) if r["name"] in names]
        render.say()
        render.show_table(
            ("SOURCE", "DOCUMENTS", "NEW OR CHANGED", "UNCHANGED", "SKIPPED", "QUARANTINED"),
            [
                (
                    r["name"],
                    r["documents"],
                    (summary := r["last_sync"]["summary"])["succeeded"],
                    summary["unchanged"],
                    r["jobs"].get("skipped", 0),
                    r["jobs"].get("quarantined", 0),
                )
                for r in rows
            ],
        )
        if entries := ledger.quarantine.list():
            render.say("\nIn quarantine:")
            render.show_table(
                ("ITEM", "SOURCE", "REASON", "MESSAGE"), [(e.item, e.source, e.reason, e.message) for e in entries]
            )
        for words in _SEARCHES if searches else ():
            render.say(f"\ncatchment search {words}")
            for hit in ledger.library.search(words, limit=3):
                render.say(f"  {render.clean(hit.title)} — {render.clean(hit.item)} ({hit.source})")
                render.show_paragraph(hit.snippet, indent=4)


def _address(server: Running) -> None:
    from deployments.supervisor import ui_login

    render.say(f"\nThe Prefect UI: {server.url}/dashboard")
    if where := ui_login(Home.default()):
        render.say(f"  its password: {where}")


def _until_interrupted() -> None:
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()
