"""`python -m benchmarks.github_api [ISSUES]`: issues and comments through GitHub's API, compared with a bare loop.

The bare loop requests every page of issues, comments and reviews with httpx and stores no item. Both use the same local server
through a counting proxy. Prints for each case the requests (and the free ones among them), the time and the memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.settings import Home
from catchment.sync.source_sync import SourceSync, open_sync
from connectors.github import GitHub
from connectors.github.settings import GitHubSettings
from tests.connectors.github.proxy import Proxy
from tests.connectors.github.server import PREFIX, TOKEN, Repo, serving_hub

_BATCH = 1_000
_NAME = "ada/weir"
_WORDS = (
    "the",
    "gauge",
    "at",
    "the",
    "upper",
    "weir",
    "sticks",
    "when",
    "water",
    "is",
    "high",
    "nobody",
    "looks",
    "after",
    "it",
)


def main() -> None:
    """Fill a server, then measure each case in a separate process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.github_api", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=2_000, help="issues; each has five comments")
    parser.add_argument("--case", choices=_CASES, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        print(json.dumps(_CASES[given.case](given.address, given.home)))
        return
    with tempfile.TemporaryDirectory(prefix="bench-github-") as name, serving_hub() as hub:
        hub.step = timedelta(seconds=20)
        repo = hub.repo(_NAME)
        proxy = Proxy(hub.port, limit=100_000)
        try:
            _fill(repo, given.count)
            for title, case in _MEASURED.items():
                if title == "10 changes":
                    _change(repo)
                _measure(title, case, proxy, Path(name) / "home")
        finally:
            proxy.close()


def _fill(repo: Repo, count: int) -> None:
    for number in range(1, count + 1):
        repo.open(f"Trouble {number} at the weir", _text(number, 120), pull=number % 4 == 0)
        for comment in range(5):
            repo.comment(number, _text(number * 7 + comment, 50))
    repo.release("v1.0")
    print(f"{count} issues and pull requests, {len(repo.comments)} comments")


def _change(repo: Repo) -> None:
    for number in range(1, 6):
        repo.comment(number * 7, "One more of it")
        repo.edit(number * 11, body=f"Written anew, {number}")


def _text(seed: int, words: int) -> str:
    return f"{seed}: " + " ".join(_WORDS[(seed * 31 + n * n) % len(_WORDS)] for n in range(words))


def _measure(title: str, case: str, proxy: Proxy, home: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.github_api", "--case", case, "--address", proxy.address]
    proxy.forget()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        [*command, "--home", str(home)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HUB_TOKEN": TOKEN},
    )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    figures = json.loads(done.stdout.splitlines()[-1])
    asked = f"{len(proxy.paths):4} requests, {proxy.free} free, {proxy.sent / 1e6:6.2f} MB"
    print(f"{title:11}{wall:7.2f} s wall {cpu:6.2f} s cpu {figures.pop('peak_mb'):5.0f} MB  {asked}  {figures}")


def _bare(address: str, _home: Path) -> dict[str, Any]:
    began, found = time.perf_counter(), 0
    with httpx.Client(base_url=address + PREFIX, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        for listing in ("issues?state=all&", "issues/comments?", "pulls/comments?", "releases?"):
            following: str | None = f"/repos/{_NAME}/{listing}per_page=100"
            while following is not None:
                answer = client.get(following)
                found += len(answer.json())
                following = answer.links.get("next", {}).get("url")
    return {"items": found, "seconds": round(time.perf_counter() - began, 2), "peak_mb": _peak()}


def _sync(address: str, home: Path, *, deep: bool = False) -> dict[str, Any]:
    include = ("issues", "pulls", "releases")
    settings = GitHubSettings(repositories=(_NAME,), address=address, include=include, token="env:HUB_TOKEN")
    github = GitHub(settings)
    _consent(home, github)
    began = time.perf_counter()
    with open_sync(Home(home), github, "hub", settings.policy(github.policy), settings.priority) as opened:
        opened.discover(deep=deep)
        discovered = time.perf_counter() - began
        with ThreadPoolExecutor(2) as two:
            list(two.map(_work, [opened, opened]))
        summary = opened.finish("completed")
    told = {name: summary.get(name, 0) for name in ("listed", "succeeded", "requests")}
    seconds = time.perf_counter() - began
    return {**told, "discover_s": round(discovered, 2), "seconds": round(seconds, 2), "peak_mb": _peak()}


def _consent(home: Path, github: GitHub) -> None:
    ledger = Ledger.open(Home(home).make().database_url)
    source = ledger.sources.put("hub", github.kind, Priority.NORMAL)
    ledger.consents.give(source.id, set(github.scopes()), "benchmark", None)
    ledger.close()


def _next_day(address: str, home: Path) -> dict[str, Any]:
    """Sync as if the last full count had been made on another day."""
    import sqlite3

    with sqlite3.connect(home / "ledger.db") as connection:
        connection.execute("UPDATE marks SET value = '2026-01-01' WHERE key LIKE '% checked'")
    return _sync(address, home)


def _deep(address: str, home: Path) -> dict[str, Any]:
    return _sync(address, home, deep=True)


def _work(opened: SourceSync) -> None:
    while (token := opened.claim(_BATCH)) is not None:
        opened.process(token)


def _peak() -> float:
    """Peak memory of this process in MB. The value of rusage would include the parent's memory at the fork."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


_MEASURED = {
    "bare loop": "bare",
    "first sync": "sync",
    "no change": "sync",
    "10 changes": "sync",
    "next day": "day",
    "deep": "deep",
}
_CASES: dict[str, Callable[[str, Path], dict[str, Any]]] = {
    "bare": _bare,
    "sync": _sync,
    "day": _next_day,
    "deep": _deep,
}

if __name__ == "__main__":
    main()
