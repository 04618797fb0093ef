"""A person at a terminal: the installed command with a home of its own, and what it leaves running."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from catchment.errors import TryAgain
from catchment.runtime.home import Home
from deployments.server.client import api
from deployments.server.running import Running, running
from tests.prefect_tables import lay_tables
from tests.waiting import until

PROJECT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("catchment")
_SECONDS = 240


@dataclass(frozen=True, slots=True)
class Said:
    """What one command said, and how it ended."""

    asked: Sequence[str]
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What `--json` printed."""
        return json.loads(self.out)

    def ok(self) -> Said:
        """The same, if the command did what was asked."""
        assert self.code == 0, self
        return self

    def refused(self, code: int, *words: str) -> Said:
        """The same, if it ended with this code and one line that holds these words."""
        assert (self.code, len(self.err.splitlines())) == (code, 1), self
        assert self.err.startswith("catchment: "), self
        for word in words:
            assert word in self.err, self
        return self


@dataclass(frozen=True, slots=True)
class Person:
    """Types commands, in a folder that is not the project, with nothing set but the home."""

    home: Path
    before: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str | Path) -> Said:
        """Type a command and wait until it ends. `before`: words typed before it."""
        words = [*self.before, str(COMMAND), *map(str, arguments)]
        if arguments[0] == "up":
            lay_tables(self.home)
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
        """What a shell of a new machine sets, and the home."""
        kept = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
        return {**kept, "LANG": "C.UTF-8", "CATCHMENT_HOME": str(self.home), **self.variables}

    @property
    def running(self) -> Running:
        """The server and worker, which must be up."""
        found = running(Home(self.home))
        assert found is not None, "nothing is up"
        return found

    def source(self, name: str) -> dict[str, Any]:
        """What `status --json` says of a source."""
        found: dict[str, Any]
        (found,) = [source for source in self("status", "--json").ok().json["sources"] if source["name"] == name]
        return found

    def sync(self, name: str) -> dict[str, int]:
        """Sync a source to its end; the figures of what was done."""
        summary: dict[str, int] = self("sync", name, "--wait", "--json").ok().json["summary"]
        return summary

    def sync_when_ready(self, name: str) -> None:
        """Sync a source as a person does after an accident: again while it says `try again`."""
        said = until(lambda: self("sync", name, "--wait"), lambda said: said.code != 10)
        said.ok()

    def hits(self, words: str, source: str = "") -> list[dict[str, Any]]:
        """What is found of these words, in all sources or in one."""
        found: list[dict[str, Any]] = (
            self("search", words, "--json", *(["--source", source] if source else [])).ok().json
        )
        return found

    def documents(self, name: str) -> dict[str, int]:
        """The number of the document of each item of a source that is in the library."""
        jobs = self("jobs", "list", "--source", name, "--state", "succeeded", "--limit", "100000", "--json").ok().json
        shown = [self("show", item, "--json") for item in sorted({job["item"] for job in jobs})]
        # What was deleted at the source has a job that succeeded, and no document.
        return {said.json["item"]: said.json["document"] for said in shown if said.code == 0}

    def runs(self, *states: str) -> list[dict[str, Any]]:
        """The flow runs of sources that the server has in these states; the daily upkeep is nobody's source."""
        found = self.found("flow_runs", {"flow_runs": {"state": {"type": {"any_": states}}}})
        return [run for run in found if "upkeep" not in run["tags"]]

    def runs_of(self, name: str) -> list[dict[str, Any]]:
        """All flow runs of a source that the server remembers."""
        return self.found("flow_runs", {"deployments": {"name": {"any_": [name]}}})

    def states_of(self, name: str) -> list[str]:
        """How the runs of a source stand: those that have not begun, then the latest to begin, whichever was asked for first.

        The server adds those that a schedule foresees at any time: they are left out until they are begun.
        """
        runs = [run for run in self.runs_of(name) if not (run["auto_scheduled"] and run["state_type"] == "SCHEDULED")]
        runs.sort(key=lambda run: str(run["start_time"] or run["end_time"] or "later"), reverse=True)
        return [run["state_type"] for run in runs]

    def seem_to_run(self) -> list[str]:
        """The names of all runs, subflows and tasks that the server believes to go on."""
        going = {
            "operator": "or_",
            "type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]},
            "name": {"any_": ["AwaitingRetry"]},
        }
        return [
            run["name"] for kind in ("flow_runs", "task_runs") for run in self.found(kind, {kind: {"state": going}})
        ]

    def found(self, kind: str, query: dict[str, Any]) -> list[dict[str, Any]]:
        """What the server finds, which is asked again while it is away or too busy to answer."""

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

    def processes(self) -> list[psutil.Process]:
        """All that runs for this home."""
        mine = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get("CATCHMENT_HOME") == str(self.home) and process.is_running():
                    mine.append(process)
        return mine

    def left(self) -> list[str]:
        """What still runs for this home a moment after it should have ended."""
        return until(lambda: commands(self.processes()), lambda found: not found, seconds=20, must=False)


def commands(processes: Iterable[psutil.Process]) -> list[str]:
    """The command lines of those processes that have not ended meanwhile."""
    lines = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            lines.append(" ".join(process.cmdline()))
    return lines


@contextlib.contextmanager
def upright(person: Person) -> Iterator[Person]:
    """A person whose server and worker are up, and are taken down in the end."""
    person("up", "--detach").ok()
    try:
        yield person
    finally:
        person("down")
