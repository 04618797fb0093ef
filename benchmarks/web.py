"""`python -m benchmarks.web [--quick]`: 10,000 pages of 200 hosts, beside a bare loop with the same limits.

Three of the hosts are dead (refuse connections), slow (no response within the time limit) and refusing (429). The bare loop
has a coroutine for each host, requests with httpx.AsyncClient, leaves a host after its first failure, and stores no page.
Prints for each case: the seconds until the last page of the healthy hosts and until the end, requests, conditional ones among
them, pages requested twice, the shortest time between two requests to a host, peak memory, and Jain's index of the pages that
each healthy host had delivered when the first of them was done.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from benchmarks.fairness import jain
from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.settings import Home
from catchment.sync.source_sync import SourceSync, open_sync
from connectors.web import connector
from connectors.web.client import RESPONSE_SECONDS
from connectors.web.connector import WebConnector
from connectors.web.settings import WebSettings
from tests.connectors.web.server import Host, Page, SmallWeb

_POLITE, _FAST = 1.0, 0.02
"""Seconds between two requests to a host."""
_WORDS = ("gauge", "weir", "water", "high", "sticks", "nobody", "after")


def main() -> None:
    """Serve the web, and measure each case in a separate process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,000 pages of 50 hosts")
    parser.add_argument("--case", choices=_CASES, help=argparse.SUPPRESS)
    parser.add_argument("--every", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        _CASES[given.case](given.place, given.every)
        print(_peak_mb())
        return
    hosts, pages = (50, 20) if given.quick else (200, 50)
    with SmallWeb(hosts - 1) as web, tempfile.TemporaryDirectory(prefix="bench-web-") as place:
        for host in web.hosts:
            host.make = _page
        slow, refusing = web.hosts[:2]
        slow.always = Page(delay=RESPONSE_SECONDS * 2, etag="")
        refusing.always = Page(status=429, headers={"Retry-After": "3600"}, etag="")
        healthy = web.hosts[2:]
        web.dead()
        addresses = [host.address(f"/{number}") for host in web.hosts for number in range(pages)]
        for name in ("polite", "fast"):
            Path(place, name).mkdir()
            Path(place, name, "list.txt").write_text("\n".join(addresses))
        for title, case, folder, every in (
            ("bare loop", "bare", "polite", _POLITE),
            ("first sync", "sync", "polite", _POLITE),
            ("no change", "next_day", "polite", _POLITE),
            ("bare loop, fast", "bare", "fast", _FAST),
            ("first sync, fast", "sync", "fast", _FAST),
        ):
            if case == "next_day":
                # Else the waiting jobs of the first sync would slow the requests down.
                subprocess.run(_command("process", Path(place, folder), every), check=True, stdout=subprocess.DEVNULL)
            _measure(title, case, Path(place, folder), every, web, healthy)


def _command(case: str, place: Path, every: float) -> list[str]:
    return [sys.executable, "-m", "benchmarks.web", "--case", case, "--every", str(every), "--place", str(place)]


def _page(path: str) -> Page | None:
    """Return an article of about 3 KB."""
    if path == "/robots.txt":
        return None
    number = int(path[1:])
    text = "".join(
        f"<p>{n}: " + " ".join(_WORDS[(number * 31 + n * m) % len(_WORDS)] for m in range(60)) + ".</p>"
        for n in range(8)
    )
    return Page.of(f"<html><head><title>Page {number}</title></head><body><article>{text}</article></body></html>")


def _measure(title: str, case: str, place: Path, every: float, web: SmallWeb, healthy: list[Host]) -> None:
    for host in web.hosts:
        host.requests.clear()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    peak_mb = subprocess.run(
        _command(case, place, every), check=True, stdout=subprocess.PIPE, text=True
    ).stdout.split()[-1]
    seconds = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    pages = [request for host in healthy for request in host.requests if request.path != "/robots.txt"]
    first_done = min(host.requests[-1].at for host in healthy)
    shares = [sum(request.at <= first_done for request in host.requests) for host in healthy]
    figures = {
        "healthy_s": round(max(request.at for request in pages) - began, 1),
        "seconds": round(seconds, 1),
        "cpu_s": round(cpu, 1),
        "requests": len(web.requests),
        "conditional": sum(request.is_conditional for request in pages),
        "twice": sum(number - 1 for host in healthy for number in Counter(host.paths).values()),
        "shortest_gap_s": round(min(host.shortest_gap() for host in web.hosts), 3),
        "jain": round(jain(shares), 3),
        "peak_mb": round(float(peak_mb)),
    }
    print(f"{title:18}{json.dumps(figures)}", flush=True)


def _bare(place: Path, every: float) -> None:
    asyncio.run(_bare_loop((place / "list.txt").read_text().split(), every))


async def _bare_loop(addresses: list[str], every: float) -> None:
    by_host: dict[str, list[str]] = {}
    for address in addresses:
        by_host.setdefault(address.split("/")[2], []).append(address)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=RESPONSE_SECONDS, trust_env=False) as client:

        async def read(pages: list[str]) -> None:
            for address in pages:
                due = asyncio.get_running_loop().time() + every
                try:
                    (await client.get(address)).raise_for_status()
                except httpx.HTTPError:
                    return
                await asyncio.sleep(due - asyncio.get_running_loop().time())

        await asyncio.gather(*(read(pages) for pages in by_host.values()))


def _sync(place: Path, every: float) -> None:
    """List the source: all requests happen there. The documents are made by jobs, as for any other source."""
    with _opened(place, every) as opened:
        opened.discover(deep=False)
        opened.finish("completed")


def _process(place: Path, every: float) -> None:
    with _opened(place, every) as opened:
        while (token := opened.claim(1_000)) is not None:
            opened.process(token)
        opened.finish("completed")


@contextmanager
def _opened(place: Path, every: float) -> Iterator[SourceSync]:
    located = WebSettings.located(str(place / "list.txt"))
    settings = WebSettings(**located, every_seconds=every)
    web = WebConnector(settings)
    home = Home(place / "home").make()
    ledger = Ledger.open(home.database_url)
    ledger.consents.give(ledger.sources.put("web", web.kind, Priority.NORMAL).id, set(web.scopes()), "benchmark", None)
    ledger.close()
    with open_sync(home, web, "web", settings.policy(web.policy), settings.priority) as opened:
        yield opened


def _next_day(place: Path, every: float) -> None:
    later = datetime.now(UTC) + timedelta(days=8)
    connector.present = lambda: later
    _sync(place, every)


def _peak_mb() -> float:
    """Peak memory of this process. The value of rusage would include the parent's memory at the fork."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


_CASES: dict[str, Callable[[Path, float], None]] = {
    "bare": _bare,
    "sync": _sync,
    "process": _process,
    "next_day": _next_day,
}

if __name__ == "__main__":
    main()
