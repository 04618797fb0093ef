"""The watch that opens and closes incidents, by the conditions that hold."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from catchment.errors import CatchmentError, NotFound
from catchment.ledger import Incident, Ledger, Moment
from catchment.pacing.boot_clock import boot_clock
from catchment.runtime.home import Home
from catchment.telemetry.incidents import WARN, Condition, Judge, Key, ReasonCode, problems
from catchment.views.telemetry import conditions

_INTERVALS = {conditions.of_ledger: 0.0, conditions.of_ledger_each_minute: 55.0}
"""Seconds after which conditions are judged again."""
_CLOCK_SECONDS = 60.0
"""Difference from which the clock counts as set."""
_ACCEPTED_SECONDS = 900.0
"""Seconds after which the new time is accepted."""


@dataclass(frozen=True, slots=True)
class Role:
    """The subjects that the process of a home judges: all if it runs alone.

    If hosts share a ledger, each judges its own machine, and one working host judges the rest.

    Attributes:
        machine: The subject of conditions of this machine; "" if the home runs alone.
        others: The subjects that other hosts judge.
        is_first: Whether this host judges the rest.
    """

    machine: str = ""
    others: frozenset[str] = frozenset()
    is_first: bool = True

    @classmethod
    def of(cls, ledger: Ledger) -> Role:
        """Return the present role. The working host that joined first judges the rest."""
        hosts = sorted(ledger.hosts.all(), key=lambda host: (not host.is_alive, host.joined_at, host.id))
        others = frozenset(f"machine:{host.name}" for host in hosts if not host.is_me)
        return next((cls(f"machine:{host.name}", others, host is hosts[0]) for host in hosts if host.is_me), cls())

    def judges(self, key: Key) -> bool:
        """Return whether this process opens and closes incidents with this key."""
        reason, subject = key
        if reason is not ReasonCode.HOST_SILENT and subject in {self.machine, *self.others} - {""}:
            return subject == self.machine
        return self.is_first

    def named(self, condition: Condition) -> Condition:
        """Return a condition of this machine with its host as the subject, if there are others."""
        return condition if condition.subject else replace(condition, subject=self.machine)


class IncidentWatch:
    """Judges the conditions, and stores the incidents that open, change or close.

    While the ledger cannot be written, incidents live here and are stored later.

    Args:
        reading: Returns the ledger. Raises NotFound before the first source.
        writing: Opens it for changes.
        errors: Returns the failed checks of the process (see `of_machine`).
        announce: Receives each incident that opened or closed.
        steady: Seconds of a clock that includes sleep.
    """

    def __init__(
        self,
        home: Home,
        reading: Callable[[], Ledger],
        writing: Callable[[], AbstractContextManager[Ledger]],
        errors: Callable[[], Mapping[str, CatchmentError]],
        announce: Callable[[Incident], None],
        *,
        is_up: bool,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        steady: Callable[[], float] = lambda: boot_clock().micros / 1e6,
    ) -> None:
        self._home, self._reading, self._writing = home, reading, writing
        self._errors, self._announce, self._is_up = errors, announce, is_up
        self._clock, self._steady = clock, steady
        self._lock = Lock()
        self._judge: Judge | None = None
        self._open: dict[Key, Incident] = {}
        self._unsaved: dict[tuple[str, str, datetime], Incident] = {}
        self._notes: deque[tuple[Incident, str]] = deque()
        self._latest: tuple[object, conditions.LatestSyncs] | None = None
        self._judged: dict[object, tuple[float, list[Condition]]] = {}
        self._waiting = 0
        self._offset: tuple[float, float] | None = None
        self._role = Role()

    @property
    def unsaved(self) -> tuple[Incident, ...]:
        """The incidents that could not be stored as they are now."""
        return tuple(self._unsaved.values())

    def note(self, incident: Incident, text: str) -> None:
        """Add the result of a message to the timeline of an incident, with the next judgement. Thread-safe."""
        self._notes.append((incident, text))

    def judge(self) -> None:
        """Judge once. Thread-safe. Raises NotFound before the first source; other errors are conditions themselves."""
        with self._lock:
            self._judge_once()

    def _judge_once(self) -> None:
        now, steady = self._clock(), self._steady()
        errors = dict(self._errors())
        of_records: list[Condition] = []
        is_partial = False
        try:
            ledger = self._reading()
            if (role := Role.of(ledger)) != self._role:
                # Others may have judged the incidents of the new role.
                self._role, self._judge = role, None
            if self._judge is None:
                self._start(ledger.incidents.open(), now)
            latest = self._latest_syncs(ledger)
            for judged, seconds in _INTERVALS.items():
                if judged not in self._judged or steady - self._judged[judged][0] >= seconds:
                    self._judged[judged] = steady, [*judged(ledger, self._home, latest)]
                of_records += self._judged[judged][1]
            before, self._waiting = self._waiting, conditions.waiting_jobs(ledger, latest)
            of_records += conditions.of_queue(self._waiting, before)
        except NotFound:
            raise
        except CatchmentError as error:
            errors["ledger"], is_partial = error, True
        of_machine = [
            *conditions.of_machine(self._home, errors, now, is_up=self._is_up),
            *self._clock_moved(now, steady),
        ]
        of_machine += conditions.of_last_check(self._home, [*of_machine, *of_records], now)
        present = problems((*map(self._role.named, of_machine), *of_records))
        changed = self._compared(
            [condition for condition in present if self._role.judges(condition.key)], now, steady, is_partial
        )
        while self._notes:
            self._add_note(*self._notes.popleft(), now)
        stored = self._save()
        self._mark()
        for condition in changed:
            if condition.timeline[-1].event != "changed":
                self._announce(stored.get(condition.identity, condition))

    def _compared(
        self, conditions: Sequence[Condition], now: datetime, steady: float, is_partial: bool
    ) -> list[Incident]:
        """Open, change and close incidents by the problems that hold. Return them."""
        if self._judge is None:
            self._start((), now)
        assert self._judge is not None
        opened, closed = self._judge.judge(conditions, self._open, steady, is_partial=is_partial)
        texts = {condition.key: {"message": condition.problem, "remedy": condition.remedy} for condition in conditions}
        changed = []
        for key, condition in self._open.items():
            if key in closed:
                changed.append(_continued(condition, now, "closed", closed_at=now))
            elif key in texts and texts[key] != {"message": condition.message, "remedy": condition.remedy}:
                changed.append(_continued(condition, now, "changed", texts[key]["message"], **texts[key]))
        for new in opened:
            moment = Moment(now, "opened", new.problem)
            code = new.key[0].value
            changed.append(Incident(0, code, new.subject, now, None, new.problem, new.remedy, (moment,)))
        for condition in changed:
            self._keep(condition)
        return changed

    def _keep(self, incident: Incident) -> None:
        key = ReasonCode(incident.reason), incident.subject
        self._unsaved[incident.identity] = incident
        if incident.closed_at is None:
            self._open[key] = incident
        elif incident.timeline[-1].event == "closed":
            del self._open[key]

    def _start(self, known: Sequence[Incident], now: datetime) -> None:
        keyed = {}
        for incident in known:
            if incident.reason in [*ReasonCode]:
                keyed[ReasonCode(incident.reason), incident.subject] = incident
            elif self._role.is_first:
                # Its reason code is of another version, so no condition closes it.
                self._unsaved[incident.identity] = _continued(incident, now, "closed", closed_at=now)
        self._open = {key: incident for key, incident in keyed.items() if self._role.judges(key)}
        self._judge = Judge()

    def _latest_syncs(self, ledger: Ledger) -> conditions.LatestSyncs:
        moment = ledger.syncs.moment()
        if self._latest is None or self._latest[0] != moment:
            self._latest = moment, conditions.latest_syncs(ledger)
        return self._latest[1]

    def _clock_moved(self, now: datetime, steady: float) -> list[Condition]:
        """Compare the wall clock with a monotonic one. After a while, the new time is accepted."""
        offset = now.timestamp() - steady
        if self._offset is None or abs(offset - self._offset[0]) < _CLOCK_SECONDS:
            self._offset = offset if self._offset is None else self._offset[0], steady
        elif steady - self._offset[1] > _ACCEPTED_SECONDS:
            self._offset = offset, steady
        else:
            way = "forward" if offset > self._offset[0] else "back"
            text = f"the clock was set {way} by {abs(offset - self._offset[0]) / 60:.0f} min"
            remedy = "none if it is right now; else correct it"
            return [Condition("clock", WARN, text, remedy, ReasonCode.CLOCK_JUMPED)]
        return []

    def _add_note(self, incident: Incident, text: str, now: datetime) -> None:
        key = incident.identity
        latest = self._unsaved.get(key) or next(
            (open_incident for open_incident in self._open.values() if open_incident.identity == key), incident
        )
        if latest is incident and not incident.id:
            return  # It was closed and stored since.
        self._keep(_continued(latest, now, "notified", text))

    def _save(self) -> Mapping[tuple[str, str, datetime], Incident]:
        """Store the changes that are not stored yet, if possible now."""
        if not self._unsaved:
            return {}
        try:
            with self._writing() as ledger:
                stored = {incident.identity: incident for incident in ledger.incidents.save([*self._unsaved.values()])}
        except CatchmentError:
            return {}  # It is tried again with the next judgement, and the failure is a condition.
        self._unsaved.clear()
        for incident in stored.values():
            if incident.closed_at is None:
                self._open[ReasonCode(incident.reason), incident.subject] = incident
        return stored

    def _mark(self) -> None:
        """Let the supervisor check more often while an incident is open. A full disk is ignored."""
        mark = self._home.open_incidents
        with suppress(OSError):
            if self._open:
                mark.touch(mode=0o600)
            else:
                mark.unlink(missing_ok=True)


def _continued(incident: Incident, now: datetime, event: str, text: str = "", **changes: Any) -> Incident:
    return replace(incident, timeline=(*incident.timeline, Moment(now, event, text)), **changes)
