"""`python -m benchmarks.github_files [FILES] [--commits N]`: the files of a repository, compared with bare git.

Bare git fetches the newest commit into a bare repository and reads all its files. Both use the same local server.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.comparison_table import show
from benchmarks.measure import Case, in_turn
from catchment.ledger import Ledger
from catchment.settings import Home
from catchment.sync.source_sync import SourceSync, open_sync
from connectors.github import GitHub
from connectors.github.settings import GitHubSettings
from tests.connectors.github.git_host import hosting
from tests.connectors.github.repository import Repository

_BATCH = 1_000
_NAME = "ada/weir"
_LINES = 60
_MEGABYTE = 1_000_000
_edits = itertools.count()


def main() -> None:
    """Create a repository, then measure each case in a separate process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.github_files", description=__doc__)
    parser.add_argument("files", nargs="?", type=int, default=1_000, help="files, half programs and half texts")
    parser.add_argument("--commits", type=int, default=5_000, help="commits of its history")
    parser.add_argument("--case", choices=_CASES, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        print(json.dumps(_CASES[given.case](given.address, given.home)))
        return
    with tempfile.TemporaryDirectory(prefix="bench-github-") as name:
        folder = Path(name)
        work = _made(folder / "work", given.files, given.commits)
        with hosting(folder / "host") as host:
            host.publish(_NAME, work)
            place = ["--address", host.address, "--home", str(folder / "home")]

            def case(title: str, kind: str, prepare: Callable[[], object] = lambda: None) -> Case:
                return Case(title, [sys.executable, "-m", "benchmarks.github_files", "--case", kind, *place], prepare)

            cases = [
                case("bare git", "bare", lambda: shutil.rmtree(folder / "bare.git", ignore_errors=True)),
                case("first sync", "sync", lambda: shutil.rmtree(folder / "home", ignore_errors=True)),
                case("no change", "sync"),
                case("10 files changed", "sync", lambda: _edit(work, 10)),
                case("a folder renamed", "sync", lambda: _rename(work)),
            ]
            show(f"{given.files:,} files, {given.commits:,} commits", in_turn(cases, 1))


def _made(path: Path, files: int, commits: int) -> Repository:
    """Create a repository with this number of files and commits, with one import."""
    work = Repository.made(path)
    for number in range(files):
        work.put(*_file(number, 0))
    work.commit()
    stream = []
    for number in range(1, commits):
        name, text = _file(number % files, number)
        data = text.encode()
        when = f"Ada <ada@example.org> {1_700_000_000 + number} +0000"
        begin = "from refs/heads/main^0\n" if number == 1 else ""
        stream.append(
            f"commit refs/heads/main\ncommitter {when}\ndata 1\nx\n{begin}M 644 inline {name}\ndata {len(data)}\n{text}\n"
        )
    work.git("fast-import", "--quiet", "--force", given="".join(stream))
    work.git("reset", "--quiet", "--hard")
    return work


def _file(number: int, edition: int) -> tuple[str, str]:
    """A program or a text of about 3 KB, different from every other."""
    if number % 2:
        body = "".join(
            f"    def m{line}(self, x):\n        return x + {number * line + edition}\n\n" for line in range(_LINES)
        )
        return (
            f"src/p{number % 40}/m{number}.py",
            f'"""Module {number}, edition {edition}."""\n\n\nclass C{number}:\n{body}',
        )
    body = "".join(f"## Part {line}\n\nThe gauge stood at {number * line + edition} cm.\n\n" for line in range(_LINES))
    return f"docs/d{number % 40}/n{number}.md", f"# Note {number}, edition {edition}\n\n{body}"


def _edit(work: Repository, count: int) -> None:
    edition = 1_000_000 + next(_edits)
    for number in range(count):
        work.put(*_file(number, edition))
    work.commit()


def _rename(work: Repository) -> None:
    folder = max((len(list(path.iterdir())), path.name) for path in (work.path / "src").iterdir())[1]
    work.git("mv", f"src/{folder}", f"src/renamed {next(_edits)}")
    work.commit()


# The measured cases


def _bare(address: str, home: Path) -> dict[str, Any]:
    began = time.perf_counter()
    place = home.with_name("bare.git")
    subprocess.run(["git", "clone", "--quiet", "--bare", "--depth=1", f"{address}/{_NAME}.git", str(place)], check=True)
    listed = subprocess.run(["git", "ls-tree", "-r", "HEAD"], cwd=place, capture_output=True, check=True).stdout
    blobs = b"".join(line.split()[2] + b"\n" for line in listed.splitlines())
    read = subprocess.run(
        ["git", "cat-file", "--batch"], cwd=place, input=blobs, capture_output=True, check=True
    ).stdout
    return {"seconds": time.perf_counter() - began, "files": blobs.count(b"\n"), "megabytes": len(read) / _MEGABYTE}


def _sync(address: str, home: Path) -> dict[str, Any]:
    began = time.perf_counter()
    settings = GitHubSettings(repositories=(_NAME,), address=address, include=("code",))
    github = GitHub(settings)
    with closing(Ledger.open(Home(home).make().database_url)) as ledger:
        source = ledger.sources.put("weir", github.kind, settings.priority)
        ledger.consents.give(source.id, set(github.scopes()), "benchmark", None)
    with open_sync(Home(home), github, "weir", settings.policy(github.policy), settings.priority) as opened:
        opened.discover()
        with ThreadPoolExecutor(2) as two:
            list(two.map(_work, [opened, opened]))
        summary = opened.finish("completed")
    told = {name: summary[name] for name in ("listed", "succeeded", "moved", "deleted", "quarantined")}
    copied = sum(path.stat().st_size for path in Home(home).copies("weir").rglob("*") if path.is_file())
    return {"seconds": time.perf_counter() - began, **told, "copied megabytes": copied / _MEGABYTE}


def _work(opened: SourceSync) -> None:
    while (token := opened.claim(_BATCH)) is not None:
        opened.process(token)


_CASES = {"bare": _bare, "sync": _sync}

if __name__ == "__main__":
    main()
