"""`catchment demo`: ingest real files into an empty home, show the result and leave the Prefect UI running."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import BadInput, CatchmentError, Refused
from catchment.model import JobState
from catchment.runtime.home import Home, base_folder, expanded
from catchment.runtime.installation import FILES, IS_CLONE
from console import render, session
from console.library.documents import related
from console.library.search import find, show_hit, show_understanding
from console.sources.syncs import sync
from console.start_stop.up_down import check_preconditions
from console.start_stop.web_page import signin_link

if TYPE_CHECKING:
    from deployments.server.running import Running


@dataclass(frozen=True, slots=True)
class _Source:
    name: str
    kind: str
    folder: Path
    exclude: tuple[str, ...] = ()
    is_watched: bool = True


_EXAMPLES = (
    _Source("vault", "obsidian", FILES / "examples" / "vault"),
    # The second and third file contain the misspelled word of the first search, which must not occur.
    _Source(
        "project",
        "local_files",
        FILES,
        exclude=("/examples/vault/", "/console/start_stop/demo.py", "/tests/golden/messages.txt"),
        is_watched=False,
    ),
)
_SEARCHES = (
    ("scouts qorum retire", "a typo, and another form of a word"),
    ("type:mail pressure switch", "a filter"),
    ("when are motors forbidden", "a question of meaning: the statutes speak of engines"),
    ("Suppe aus Japan", "another language: German finds Japanese"),
)
_SCANNED = ("padlock has:recognized", "text recognized on a scanned letter")
_RELATED = "Honey mustard.md"
_EMBEDDED_SECONDS, _RECOGNIZED_SECONDS = 90.0, 30.0


def demo(
    stop: Annotated[bool, typer.Option("--exit", help="Stop everything and exit after showing the result.")] = False,
    source: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Use your own folder or vault instead of the examples.")
    ] = None,
    home: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder for the demo's state.")] = None,
) -> int:
    """Ingest an example vault and this project, and show the result.

    Example: catchment demo --source ~/Vault
    """
    os.environ["CATCHMENT_HOME"] = str((home or _state()).absolute())
    # Keep the demo out of a library on PostgreSQL.
    os.environ.pop("CATCHMENT_DATABASE_URL", None)
    sources = [_own(source)] if source else _EXAMPLES
    from deployments.supervisor.supervisor import down, up

    if session.running():
        raise Refused("demo: already running; stop it first with Ctrl-C in its terminal")
    try:
        check_preconditions()
        render.say("Starting the Prefect server and a worker …")
        up(Home.default(), detach=True, announce=render.say)
        server = session.running()
        if server is None:
            raise CatchmentError("server: exited after starting; see logs/server.log in the demo's folder")
        completed, is_first = [], not session.desk().entries()
        for added in sources:
            _add(added)
            completed.append(sync(added.name, wait=True) == 0)
            if added is _EXAMPLES[0]:
                if is_first:
                    _await_embeddings(added.name)
                _show_searches(added.name)
        _show([added.name for added in sources])
        _show_address(server, sources[0].name)
        if not stop:
            render.say("Running. Press Ctrl-C to stop.")
            _until_interrupted()
    finally:
        render.say("Stopping …")
        down(Home.default())
    return 0 if all(completed) else 1


def _state() -> Path:
    return FILES / ".demo" if IS_CLONE else base_folder("XDG_CACHE_HOME", ".cache") / "catchment" / "demo"


def _own(source: Path) -> _Source:
    folder = expanded(source).absolute()
    if not folder.is_dir():
        raise BadInput(f"{source}: not a folder; use SOURCE=/path/to/a/folder")
    kind = "obsidian" if (folder / ".obsidian").is_dir() else "local_files"
    words = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-")[:40]
    suffix = hashlib.sha256(str(folder).encode()).hexdigest()[:4]
    return _Source(f"{words}-{suffix}" if words else suffix, kind, folder)


def _add(source: _Source) -> None:
    from deployments.actions import sources
    from deployments.actions.desk import Timing

    desk = session.desk()
    if source.name not in desk.entries():
        settings = {"exclude": list(source.exclude)} if source.exclude else {}
        timing = Timing(watch=source.is_watched)
        new = sources.NewSource(source.kind, str(source.folder), source.name, settings, timing)
        render.say(f"Added {source.name}: {sources.add(desk, new, session.operator())}")


def _show(names: Sequence[str]) -> None:
    from catchment.views.sources import standings

    with session.reading() as ledger:
        rows = [row for row in standings(ledger, session.home()) if row.name in names]
        render.say()
        render.show_table(
            ("SOURCE", "DOCUMENTS", "SKIPPED", "QUARANTINED"),
            [(row.name, row.documents, row.jobs.get(JobState.SKIPPED, 0), row.quarantined) for row in rows],
        )
        if entries := [entry for entry in ledger.quarantine.list() if entry.source in names]:
            render.say("\nQuarantined items:")
            render.show_table(
                ("ITEM", "SOURCE", "REASON", "MESSAGE"), [(e.item, e.source, e.reason, e.message) for e in entries]
            )


def _await_embeddings(source: str) -> None:
    """Wait for search by meaning, for a limited time: search by words works without."""
    render.say("Embedding the passages for search by meaning …")

    def is_complete() -> bool:
        results = find(_SEARCHES[0][0], None, "both", limit=1)
        return not results.meaning_off and source not in results.incomplete

    _await(is_complete, _EMBEDDED_SECONDS)


def _await(is_done: Callable[[], bool], seconds: float) -> bool:
    ends = time.monotonic() + seconds
    while not (is_in_time := is_done()) and time.monotonic() < ends:
        time.sleep(0.5)
    return is_in_time


def _show_searches(source: str) -> None:
    from catchment.views.work.recognition import RecognitionStatus

    for words, shows in _SEARCHES:
        _show_search(f"{words} source:{source}", shows)
    scanned = f"{_SCANNED[0]} source:{source}"
    with session.reading() as ledger:
        status = RecognitionStatus.read(ledger)
    if status.reason:
        render.say(f"\nPictures: {status.reason}")
    elif _await(lambda: bool(find(scanned, None, "words", limit=1).hits), _RECOGNIZED_SECONDS):
        _show_search(scanned, _SCANNED[1])
    else:
        render.say(f"\nPictures: their text is being recognized; then see: catchment search {scanned}")
    render.say(f'\ncatchment related "{_RELATED}"    # links, and notes with a similar meaning')
    related(_RELATED)
    render.say()


def _show_search(query: str, shows: str) -> None:
    render.say(f"\ncatchment search {query}    # {shows}")
    results = find(query, None, "both", limit=2)
    show_understanding(results)
    for hit in results.hits:
        show_hit(hit)


def _show_address(server: Running, watched: str) -> None:
    render.say(f"\nPage: {signin_link(server)}")
    render.say(f"Prefect UI: {server.url}/dashboard (the link of the page signs in to it, too)")
    render.say(f"Automations: {server.url}/automations (saving a file of {watched} starts a sync)")


def _until_interrupted() -> None:
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()
