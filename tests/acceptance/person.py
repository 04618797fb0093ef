"""A user at a terminal: the installed command with a private home, and the processes that it starts."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from catchment.errors import TryAgain
from catchment.ledger import Ledger
from catchment.runtime.home import Home
from deployments.server.client import api
from deployments.server.running import Running, running
from tests.waiting import until

PROJECT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("catchment")
_SECONDS = 240


@dataclass(frozen=True, slots=True)
class Said:
    """The output and exit code of a command."""

    asked: Sequence[str]
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return the parsed `--json` output."""
        return json.loads(self.out)

    def ok(self) -> Said:
        """Check that the command succeeded; return self."""
        assert self.code == 0, self
        return self

    def refused(self, code: int, *words: str) -> Said:
        """Check that the command failed with this code and one line that contains these words; return self."""
        assert (self.code, len(self.err.splitlines())) == (code, 1), self
        assert self.err.startswith("catchment: "), self
        for word in words:
            assert word in self.err, self
        return self


@dataclass(frozen=True, slots=True)
class Person:
    """Runs commands outside the project folder, with only the home configured."""

    home: Path
    before: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    command: Path = COMMAND

    def __call__(self, *arguments: str | Path) -> Said:
        """Run a command and wait for it. `before`: arguments that precede it."""
        words = [*self.before, str(self.command), *map(str, arguments)]
        done = subprocess.run(
            words,
            env=self.environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        return Said(words[len(self.before) + 1 :], done.returncode, done.stdout, done.stderr)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of a fresh shell plus the home."""
        kept = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
        return {**kept, "LANG": "C.UTF-8", "CATCHMENT_HOME": str(self.home), **self.variables}

    @property
    def running(self) -> Running:
        """Return the server and worker, which must be running."""
        found = running(Home(self.home))
        assert found is not None, "nothing is up"
        return found

    def source(self, name: str) -> dict[str, Any]:
        """Return the entry of `status --json` for a source."""
        found: dict[str, Any]
        (found,) = [source for source in self("status", "--json").ok().json["sources"] if source["name"] == name]
        return found

    def sync(self, name: str) -> dict[str, int]:
        """Sync a source and return its counts."""
        summary: dict[str, int] = self("sync", name, "--wait", "--json").ok().json["summary"]
        return summary

    def sync_when_ready(self, name: str) -> None:
        """Sync a source after an accident: repeat while the command reports `try again`."""
        said = until(lambda: self("sync", name, "--wait"), lambda said: said.code != 10)
        said.ok()

    def hits(self, words: str, source: str = "") -> list[dict[str, Any]]:
        """Return the hits of a search by words alone, in all sources or in one."""
        where = ["--source", source] if source else []
        found: list[dict[str, Any]] = self("search", "--words", words, "--json", *where).ok().json
        return found

    def documents(self, name: str) -> dict[str, int]:
        """Return the document number of each item of a source in the library, read directly: a command takes 0.3 s."""
        with closing(Ledger.inspect(Home(self.home).database_url)) as ledger:
            return {named.locator: named.document for named in ledger.library.names(ledger.sources.get(name).id)}

    def runs(self, *states: str) -> list[dict[str, Any]]:
        """Return the flow runs of sources in these states; the clean-up, embeddings and recognition belong to no source."""
        found = self.found("flow_runs", {"flow_runs": {"state": {"type": {"any_": states}}}})
        return [run for run in found if not {"upkeep", "embed", "recognize"}.intersection(run["tags"])]

    def runs_of(self, name: str) -> list[dict[str, Any]]:
        """Return all flow runs of a source that the server knows."""
        return self.found("flow_runs", {"deployments": {"name": {"any_": [name]}}})

    def states_of(self, name: str) -> list[str]:
        """Return the states of a source's runs: unstarted runs first, then by start time, newest first.

        Scheduled runs are left out until they start, because the server can add them at any time.
        """
        runs = [run for run in self.runs_of(name) if not (run["auto_scheduled"] and run["state_type"] == "SCHEDULED")]
        runs.sort(key=lambda run: str(run["start_time"] or run["end_time"] or "later"), reverse=True)
        return [run["state_type"] for run in runs]

    def seem_to_run(self) -> list[str]:
        """Return the names of all runs, subflows and tasks that the server considers active."""
        going = {
            "operator": "or_",
            "type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]},
            "name": {"any_": ["AwaitingRetry"]},
        }
        return [
            run["name"] for kind in ("flow_runs", "task_runs") for run in self.found(kind, {kind: {"state": going}})
        ]

    def found(self, kind: str, query: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the query result; repeat the query while the server is unavailable or busy."""

        def ask() -> list[dict[str, Any]] | None:
            try:
                with api(self.running) as client:
                    answer: list[dict[str, Any]] = client.post(f"/{kind}/filter", json=query).raise_for_status().json()
            except TryAgain:
                return None
            return answer

        found = until(ask, lambda found: found is not None)
        assert found is not None
        return found

    def files(self) -> Iterator[tuple[Path, bytes]]:
        """Yield the files of the home with their bytes, by relative path. A running system deletes some meanwhile."""
        for folder, _, names in os.walk(self.home):
            for file in (Path(folder, name) for name in names):
                with contextlib.suppress(FileNotFoundError):
                    if file.is_file():
                        yield file.relative_to(self.home), file.read_bytes()

    def processes(self) -> list[psutil.Process]:
        """Return all processes that run for this home."""
        mine = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get("CATCHMENT_HOME") == str(self.home) and process.is_running():
                    mine.append(process)
        return mine

    def left(self) -> list[str]:
        """Return the processes that still run for this home shortly after a shutdown."""
        return until(lambda: commands(self.processes()), lambda found: not found, seconds=120, must=False)


def commands(processes: Iterable[psutil.Process]) -> list[str]:
    """Return the command lines of the processes that have not exited."""
    lines = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            lines.append(" ".join(process.cmdline()))
    return lines


def without_meaning(person: Person) -> Person:
    """Switch search by meaning off, so that no process makes embeddings of many notes; return the user."""
    person("model", "off").ok()
    return person


@contextlib.contextmanager
def upright(person: Person) -> Iterator[Person]:
    """A user with a running server and worker; they are stopped at the end."""
    person("up", "--detach").ok()
    try:
        yield person
    finally:
        person("down")


@contextlib.contextmanager
def at_terminal(folder: Path) -> Iterator[Person]:
    """A user with a running system, whose shell has the command on its path; no process is left."""
    path = os.pathsep.join([str(COMMAND.parent), os.environ["PATH"]])
    with upright(Person(folder / "state", variables={"HOME": str(folder), "PATH": path})) as person:
        yield person
    assert person.left() == []
