"""Catchment among the systems: its command, its server, its worker; a source for each folder."""

from __future__ import annotations

import re
import time
from contextlib import closing
from pathlib import Path

from benchmarks.measure import Peak
from catchment.home import Home
from catchment.ledger import Ledger
from catchment.model import JobState
from tests.acceptance.person import Person
from tests.hazards.model import Held, Took

_ESCAPED = re.compile("\ufffd([0-9a-f]{2})")


class Catchment:
    """Catchment of a person whose system is up."""

    name = "catchment"

    def __init__(self, person: Person) -> None:
        self._person = person

    def ingest(self, folder: Path) -> Took:
        """`sources add` the first time, and `sync --wait`."""
        begun = time.monotonic()
        with Peak(self._person.running.worker_pid, look=True, since_now=True) as peak:
            listed = self._person("sources", "list", "--json").ok().json
            if folder.name not in {source["name"] for source in listed}:
                self._person("sources", "add", "local_files", folder, "--name", folder.name).ok()
            said = self._person("sync", folder.name, "--wait")
        return Took(said.code, time.monotonic() - begun, peak.mb)

    def holds(self, folder: Path) -> Held:
        """What the library has; quarantined and skipped items are named."""
        with closing(Ledger.inspect(Home(self._person.home).database_url)) as ledger:
            (source,) = [one for one in ledger.sources.all() if one.name == folder.name]
            texts: dict[str, list[str]] = {}
            for _, locator, _, document, _ in ledger.library.names(source.id):
                texts.setdefault(_path(locator), []).append(ledger.library.document(document).content.text)
            unread = [
                _path(job.item)
                for state in (JobState.QUARANTINED, JobState.SKIPPED)
                for job in ledger.queue.jobs(source=folder.name, state=state)
                if job.current
            ]
        return Held(texts, frozenset(unread))


def _path(locator: str) -> str:
    """The path that a locator stands for, as Python writes one whose name is no UTF-8."""
    return _ESCAPED.sub(lambda found: chr(0xDC00 + int(found[1], 16)), locator)
