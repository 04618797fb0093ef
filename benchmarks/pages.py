"""`python -m benchmarks.pages [--quick]`: the time of each page with a large library, and the cost of the web process.

Fills a library with 100,000 documents of four sources, 10,000 items in quarantine and 200 syncs, starts the web process, and
reads each page 20 times as a browser that is signed in. The baseline is `/live`, a response without content. Writes
build/pages.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.generated import Generated, GeneratedSettings
from benchmarks.measure import hardware, tree_cpu
from benchmarks.system import BUILD, empty
from catchment.errors import FailureClass, Reason
from catchment.ledger import FailureInfo, Ledger
from catchment.model import Item, Upsert
from catchment.settings import Home
from catchment.sync.source_sync import open_sync
from tests.web.conftest import served, signed_in

ITEMS, QUICK, SOURCES, SYNCS, ROUNDS = 100_000, 4_000, 4, 200, 20
_BATCH = 1_000
_TABS, _WATCHED = 20, 20.0
_PAGES = (
    "/live",
    "/",
    "/search?q=river+bridge",
    "/search?part=results&q=riv",
    "/documents/5000",
    "/trouble",
    "/sources",
    "/sources/new",
    "/sources/limits",
    "/syncs",
    "/syncs/1",
    "/jobs",
    "/jobs?state=quarantined",
    "/jobs/5000",
    "/why?item=Note+0000005.md",
    "/health",
)


def main() -> None:
    """Measure once, and print the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} documents")
    items = QUICK if parser.parse_args().quick else ITEMS
    with empty("pages") as place:
        home = Home(place).make()
        fill(home, items)
        with served(home) as port, signed_in(home, port) as browser:
            pages = [_measure(browser, page) for page in _PAGES]
            process = _watched(browser, port)
    (BUILD / "pages.json").write_text(
        json.dumps({"hardware": hardware(), "items": items, "pages": pages, "process": process}, indent=2) + "\n"
    )
    print(json.dumps(process))


def fill(home: Home, items: int) -> None:
    """Sync generated notes, fail a tenth as many items, and end many syncs without changes."""
    for source in range(SOURCES):
        settings = GeneratedSettings(notes=items // SOURCES)
        connector = Generated(settings)
        with open_sync(
            home, connector, f"notes-{source}", settings.policy(connector.policy), settings.priority
        ) as sync:
            sync.discover()
            while token := sync.claim(_BATCH):
                sync.process(token)
            sync.finish("completed")
    ledger = Ledger.open(home)
    source_id = ledger.sources.get("notes-0").id
    _quarantine(ledger, source_id, items // 10)
    for number in range(SYNCS):
        sync_id = ledger.syncs.begin(
            source_id, run=f"run-{number}", owner="benchmark", code_version="1", alive=lambda _: False
        ).id
        ledger.syncs.end(sync_id, "completed", {})
    ledger.close()


def _quarantine(ledger: Ledger, source_id: int, number: int) -> None:
    sync = ledger.syncs.begin(source_id, run="failing", owner="benchmark", code_version="1", alive=lambda _: False)
    failures = [f"cannot be read as application/pdf, kind {kind}; open it in its own program" for kind in range(20)]
    for start in range(0, number, _BATCH):
        part = [Item(f"bad/{n:06d}.pdf", "bad", "1", identity=f"bad-{n}") for n in range(start, start + _BATCH)]
        ledger.intake.record(sync.id, [Upsert(item) for item in part], {})
        batch = ledger.queue.claim(source_id, _BATCH, owner="benchmark")
        for job in batch.jobs:
            failure = FailureInfo(
                Reason.PARSE_ERROR, FailureClass.PERMANENT, "ParseError", failures[job.id % len(failures)]
            )
            ledger.queue.fail(batch.token, job.id, failure, retry_at=None)
    ledger.syncs.end(sync.id, "completed", {})


def _measure(browser: httpx.Client, page: str) -> dict[str, Any]:
    taken, size, status = [], 0, 0
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        response = browser.get(page)
        taken.append((time.perf_counter() - begun) * 1_000)
        size, status = len(response.content), response.status_code
    found = {"page": page, "status": status, "first_ms": taken[0], "ms": statistics.median(taken), "bytes": size}
    print(f"{page:<32}{status:>5}{found['ms']:>9.1f} ms{found['first_ms']:>9.1f} first{size:>9,} bytes", flush=True)
    return found


def _watched(browser: httpx.Client, port: int) -> dict[str, float]:
    """Measure the web process with many open tabs: processor time without changes, and private memory."""
    pid = _listening(port)
    with _tabs(browser):
        before = tree_cpu(pid)
        time.sleep(_WATCHED)
        share = (tree_cpu(pid) - before) / _WATCHED
    private = [line for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() if "Private" in line]
    return {"core_share_20_tabs": share, "private_mb": sum(int(line.split()[1]) for line in private) / 1024}


@contextmanager
def _tabs(browser: httpx.Client) -> Iterator[None]:
    """Keep the streams of open tabs, each read by a thread."""
    stop = threading.Event()

    def read(page: str) -> None:
        # The server is killed in the end.
        with suppress(httpx.TransportError), browser.stream("GET", "/events", params={"view": page}) as stream:
            for _ in stream.iter_lines():
                if stop.is_set():
                    return

    threads = [threading.Thread(target=read, args=(_PAGES[1 + n % 12],), daemon=True) for n in range(_TABS)]
    for thread in threads:
        thread.start()
    time.sleep(5)
    yield
    stop.set()


def _listening(port: int) -> int:
    return next(
        process.pid
        for process in psutil.Process().children()
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
    )


if __name__ == "__main__":
    main()
