"""The parts of the system that may have changed since a moment, for live pages. Cheap enough to be called every second."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from catchment.errors import BadInput
from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.runtime.server_report import ServerReport
from catchment.views.health import HealthReport

_MANY = 1_000
"""Events that are read; with more, every part counts as changed."""
_ONLY_PROGRESS = frozenset(
    {"running", "retrying", "succeeded", "skipped", "moved", "missing", "returned", "sync requested"}
)
"""Events of items and sources that neither make a trouble nor end one."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A state of the system.

    Attributes:
        row: Number of the latest row of the history.
        sync, running: Number of the latest sync, and of those that run.
        checked, planned: Times of the last check of the components, and of the last report of the server.
    """

    row: int
    sync: int
    running: tuple[int, ...]
    checked: datetime | None
    planned: datetime | None

    def __str__(self) -> str:
        times = (moment.timestamp() if moment else 0 for moment in (self.checked, self.planned))
        return f"{self.row}/{self.sync}/{','.join(map(str, self.running))}/" + "/".join(map(repr, map(float, times)))

    @classmethod
    def parse(cls, text: str) -> Moment:
        """Return the moment that `str` gave. Raises BadInput."""
        try:
            row, sync, running, *times = text.split("/")
            checked, planned = (
                datetime.fromtimestamp(float(time)).astimezone() if float(time) else None for time in times
            )
            return cls(int(row), int(sync), tuple(map(int, filter(None, running.split(",")))), checked, planned)
        except (ValueError, OverflowError, OSError):
            raise BadInput("since: not a moment; use the one of an earlier answer") from None


@dataclass(frozen=True, slots=True)
class Changed:
    """The parts that may have changed. `sources`: the names of such sources."""

    trouble: bool
    sources: tuple[str, ...]
    syncs: bool
    health: bool

    def __bool__(self) -> bool:
        return bool(self.trouble or self.sources or self.syncs or self.health)


def moment(ledger: Ledger, home: Home) -> Moment:
    """Return the present moment."""
    health, server = HealthReport.read(home), ServerReport.read(home)
    latest, running = ledger.syncs.moment()
    return Moment(
        ledger.history.latest(), latest, running, health.at if health else None, server.at if server else None
    )


def since(ledger: Ledger, before: Moment, now: Moment) -> Changed:
    """Return the parts that may have changed between two moments.

    The end of a blackout window or of a breaker's rest is not a change of the ledger; renew the trouble once a minute.
    """
    events = ledger.history.kinds_since(before.row, _MANY) if now.row != before.row else []
    is_long_ago = now.row - before.row > _MANY or now.row < before.row
    syncs = (now.sync, now.running) != (before.sync, before.running)
    health, planned = now.checked != before.checked, now.planned != before.planned
    names = {source.id: source.name for source in ledger.sources.all()}
    touched = {source_id for _, source_id, _ in events}
    if is_long_ago or planned or syncs:
        touched = set(names)
    return Changed(
        is_long_ago or health or planned or any(_matters(event, attempt) for event, _, attempt in events),
        tuple(sorted(names[number] for number in touched if number in names)),
        syncs,
        health,
    )


def _matters(event: str, attempt: int | None) -> bool:
    """Return whether an event may make or end a trouble. A new job does not; one that leaves the quarantine does."""
    return event not in _ONLY_PROGRESS and not (event == "pending" and not attempt)
