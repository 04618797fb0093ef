"""Catchment as a system under test: its command, server and worker, a source per folder, and its library."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine import sync
from benchmarks.measure import Peak
from catchment import __version__
from catchment.errors import CatchmentError
from catchment.ledger import Ledger
from catchment.model import JobState
from catchment.runtime.home import Home
from tests.acceptance.person import Person
from tests.hazards.model import Held, Took, Verdict

_ESCAPED = re.compile("\ufffd([0-9a-f]{2})")


class Catchment:
    """Catchment of a user with a running system."""

    name = "catchment"

    def __init__(self, person: Person) -> None:
        self._person = person

    def ingest(self, folder: Path) -> Took:
        """Run `sources add` the first time, `sync --wait` afterwards."""
        begun = time.monotonic()
        with Peak(self._person.running.worker_pid, look=True, since_now=True) as peak:
            listed = self._person("sources", "list", "--json").ok().json
            if folder.name not in {source["standing"]["name"] for source in listed}:
                self._person("add", "local_files", folder, "--name", folder.name).ok()
            result = self._person("sync", folder.name, "--wait")
        return Took(result.code, time.monotonic() - begun, peak.mb)

    @property
    def version(self) -> str:
        return f"catchment {__version__}"

    def holds(self, folder: Path) -> Held:
        """Return the library contents; quarantined and skipped items are listed by name."""
        return held(self._person, folder.name, lambda locator, _title: _path(locator))


class Engine:
    """Catchment's engine without a command, server or worker, so that a mishap takes a second."""

    name = "engine"
    version = Catchment.version

    def __init__(self, home: Path) -> None:
        self._person = Person(home)

    def ingest(self, folder: Path) -> Took:
        """Sync once; an error reported to the user gives exit code 1."""
        begun = time.monotonic()
        try:
            sync("local_files", folder, Home(self._person.home).make(), name=folder.name)
        except CatchmentError:
            return Took(1, time.monotonic() - begun)
        return Took(0, time.monotonic() - begun)

    def holds(self, folder: Path) -> Held:
        """Return the library contents; quarantined and skipped items are listed by name."""
        return held(self._person, folder.name, lambda locator, _title: _path(locator))


@dataclass(frozen=True)
class Watched:
    """A source of a user."""

    name: str
    person: Person

    def sync(self) -> int:
        """Sync the source and return the outcome."""
        return self.person("sync", self.name, "--wait").code

    def state(self) -> str:
        return str(self.person.source(self.name)["state"])

    def recovers(self, verdict: Verdict) -> None:
        """Act as a user does after the cause is fixed."""
        self.person("sources", "resume", self.name)
        verdict.expect(self.sync() == 0, "the sync after it failed")


def held(person: Person, name: str, called: Callable[[str, str], str]) -> Held:
    """Return the library contents of a source. `called` maps a locator, and the title if read, to the expected name."""
    with closing(Ledger.inspect(Home(person.home).database_url)) as ledger:
        texts: dict[str, list[str]] = {}
        for one in ledger.library.names(_id(ledger, name)):
            name_here = called(one.locator, one.title)
            texts.setdefault(name_here, []).append(ledger.library.document(one.document).content.text)
        unread = [
            called(job.item, "")
            for state in (JobState.QUARANTINED, JobState.SKIPPED)
            for job in ledger.queue.jobs(source=name, state=state)
            if job.current
        ]
    return Held(texts, frozenset(unread))


def documents(person: Person, name: str) -> dict[str, int]:
    """Return the document numbers of a source by title."""
    with closing(Ledger.inspect(Home(person.home).database_url)) as ledger:
        return {one.title: one.document for one in ledger.library.names(_id(ledger, name))}


def _id(ledger: Ledger, name: str) -> int:
    return next(source.id for source in ledger.sources.all() if source.name == name)


def _path(locator: str) -> str:
    """Return the path of a locator; names that are not UTF-8 use Python's surrogate escapes."""
    return _ESCAPED.sub(lambda found: chr(0xDC00 + int(found[1], 16)), locator)
