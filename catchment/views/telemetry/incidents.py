"""Incidents: the watch that opens and closes them, and their records for people."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from catchment.errors import CatchmentError, NotFound, PageSilent
from catchment.ledger import FAILED_OUTCOMES, Incident, Ledger, ListPage, Moment, QuarantineEntry, SyncRow
from catchment.pacing.boot_clock import boot_clock
from catchment.runtime import web_process
from catchment.runtime.home import Home
from catchment.telemetry.incidents import Condition, Judge, Key, ReasonCode
from catchment.views.telemetry import conditions

_SYNCS = 12
"""Syncs of a source that are read to judge it."""
_SHOWN = 50
_INTERVALS = {conditions.of_ledger: 0.0, conditions.of_ledger_each_minute: 55.0, conditions.of_objectives: 295.0}
"""Seconds after which conditions are judged again."""
_CLOCK_SECONDS = 60.0
"""Difference from which the clock counts as set."""
_ACCEPTED_SECONDS = 900.0
"""Seconds after which the new time is accepted."""
_BEFORE = timedelta(minutes=5)
"""Time between the failed sync and the incident, at most."""
_OF_ITEMS = (ReasonCode.PARSER_BROKEN, ReasonCode.FAILURES_RISING)


@dataclass(frozen=True, slots=True)
class Affected:
    """The objects that an incident concerns, if the ledger knows them: source, runs of failed syncs, quarantined items."""

    source: str | None
    syncs: tuple[int, ...] = ()
    runs: tuple[str, ...] = ()
    items: tuple[QuarantineEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class IncidentView:
    """An incident with the meaning of its reason code. The fields are those of `incidents list --json`.

    `id`: 0 while it is not stored. `runbook`: the remedies of its reason code in a few sentences.
    """

    id: int
    reason: str
    state: str
    opened_at: datetime
    closed_at: datetime | None
    subject: str
    message: str
    remedy: str
    help: str
    runbook: str
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    note: str | None
    timeline: tuple[Moment, ...]
    affects: Affected

    @property
    def about(self) -> str:
        """The name of the source or host that it is about, or "Catchment"."""
        return self.subject.partition(":")[2] or "Catchment"


@dataclass(frozen=True, slots=True)
class IncidentsView:
    """The open incidents, worst first, and a part of the closed ones, newest first."""

    open: tuple[IncidentView, ...]
    closed: ListPage[IncidentView]


def incidents(
    ledger: Ledger, unsaved: Sequence[Incident] = (), *, after: str | None = None, limit: int = 50
) -> IncidentsView:
    """Return the incidents. `unsaved`: as for `opened`."""
    page = ledger.incidents.closed(after=after, limit=limit)
    return IncidentsView(opened(ledger, unsaved), ListPage(tuple(map(_view, page.rows)), page.total, page.next))


def opened(ledger: Ledger, unsaved: Sequence[Incident] = ()) -> tuple[IncidentView, ...]:
    """Return the open incidents, worst first and then oldest first; acknowledged ones last.

    `unsaved`: open or closed ones that could not be stored as they are now.
    """
    newer = {(one.reason, one.subject): one for one in unsaved}
    stored = [one for one in ledger.incidents.open() if (one.reason, one.subject) not in newer]
    return sort([_view(one) for one in (*stored, *newer.values()) if one.closed is None])


def current(home: Home, ledger: Ledger) -> tuple[IncidentView, ...]:
    """Return the open incidents as the web process knows them, or as they are stored if it does not respond."""
    try:
        return tuple(map(_of_json, web_process.fetch(home, "/incidents")["open"]))
    except (PageSilent, KeyError, TypeError, ValueError):  # It is not running, or has another version.
        return opened(ledger)


def only(unsaved: Sequence[Incident]) -> tuple[IncidentView, ...]:
    """Return the open incidents among those that could not be stored, in the order of `opened`."""
    return sort(_view(one) for one in unsaved if one.closed is None)


def closed_since(ledger: Ledger, moment: datetime, limit: int) -> list[IncidentView]:
    """Return the latest closed incidents that closed since a time."""
    rows = ledger.incidents.closed(limit=limit).rows
    return [_view(one) for one in rows if one.closed and one.closed >= moment]


def sort(found: Iterable[IncidentView]) -> tuple[IncidentView, ...]:
    """Return incidents in the order of `opened`."""
    codes = [*ReasonCode]
    return tuple(
        sorted(
            found,
            key=lambda one: (one.acknowledged_at is not None, codes.index(ReasonCode(one.reason)), one.opened_at),
        )
    )


def incident(ledger: Ledger, number: int) -> IncidentView:
    """Return an incident with the objects that it affects. Raises NotFound."""
    found = ledger.incidents.get(number)
    kind, _, name = found.subject.partition(":")
    if kind != "source":
        return _view(found)
    try:
        source = ledger.sources.get(name)
    except NotFound:
        return _view(found)
    syncs = [
        sync for sync in ledger.syncs.recent(source.id, _SHOWN, since=found.opened - _BEFORE) if _concerns(sync, found)
    ]
    items = ledger.quarantine.page(name, limit=_SHOWN).rows if found.reason in _OF_ITEMS else ()
    runs = tuple(sync.run for sync in syncs if sync.run)
    return replace(_view(found), affects=Affected(name, tuple(sync.id for sync in syncs), runs, tuple(items)))


def sentence(found: Sequence[IncidentView], troubles: int = 0) -> str:
    """Return in one sentence whether all is well, or the worst incident, its start and its remedy.

    `troubles`: the number of problems that need a person, such as items in quarantine.
    """
    if not found:
        waits = "1 problem waits" if troubles == 1 else f"{troubles} problems wait"
        return f"Runs well; {waits} for you." if troubles else "All is well."
    worst = found[0]
    since = worst.opened_at.astimezone()
    days = "" if since.date() == datetime.now().astimezone().date() else f"{since:%Y-%m-%d} "
    text = f"{worst.about}: {worst.message}, since {days}{since:%H:%M}; {worst.remedy}"
    return f"{text} (and {len(found) - 1} more)." if len(found) > 1 else f"{text}."


@dataclass(frozen=True, slots=True)
class Role:
    """What the process of a home judges: everything if it runs alone.

    Of the hosts that share a ledger, each judges its own machine, and one that works judges the rest.

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
        """Return the present role: of the hosts that work, the one that joined first judges the rest."""
        hosts = sorted(ledger.hosts.all(), key=lambda one: (not one.is_alive, one.joined_at, one.id))
        others = frozenset(f"machine:{one.name}" for one in hosts if not one.is_me)
        return next((cls(f"machine:{one.name}", others, one is hosts[0]) for one in hosts if one.is_me), cls())

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
    """Judges the conditions, and stores the incidents that open, change or close. For one thread, except `note`.

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
        """Judge once. Raises NotFound before the first source; other errors are conditions themselves."""
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
                self._start(ledger.incidents.open())
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
        if self._judge is None:
            self._start(())
        assert self._judge is not None
        of_machine = [
            *conditions.of_machine(self._home, errors, now, is_up=self._is_up),
            *self._clock_moved(now, steady),
        ]
        found = [one for one in (*map(self._role.named, of_machine), *of_records) if self._role.judges(one.key)]
        judgement = self._judge.judge(found, steady, is_partial=is_partial)
        changed = [
            *(self._change(one, now, "opened") for one in judgement.opened),
            *(self._change(one, now, "changed") for one in judgement.changed),
            *(self._change(one, now, "closed") for one in judgement.closed),
        ]
        while self._notes:
            self._add_note(*self._notes.popleft(), now)
        stored = self._save()
        self._mark()
        for one in changed:
            if one.timeline[-1].event != "changed":
                self._announce(stored.get(one.identity, one))

    def _start(self, known: Sequence[Incident]) -> None:
        keyed = {(ReasonCode(one.reason), one.subject): one for one in known if one.reason in [*ReasonCode]}
        self._open = {key: one for key, one in keyed.items() if self._role.judges(key)}
        self._judge = Judge(Condition(*key, one.message, one.remedy) for key, one in self._open.items())

    def _latest_syncs(self, ledger: Ledger) -> conditions.LatestSyncs:
        moment = ledger.syncs.moment()
        if self._latest is None or self._latest[0] != moment:
            found = {source.id: ledger.syncs.recent(source.id, _SYNCS) for source in ledger.sources.all()}
            self._latest = moment, found
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
            return [Condition(ReasonCode.CLOCK_JUMPED, "", text, "none if it is right now; else correct it")]
        return []

    def _change(self, condition: Condition, now: datetime, event: str) -> Incident:
        moment = Moment(now, event, condition.message if event != "closed" else "")
        if event == "opened":
            texts = condition.message, condition.remedy
            changed = Incident(0, condition.reason.value, condition.subject, now, None, *texts, (moment,))
        else:
            before = self._open[condition.key]
            changed = replace(
                before,
                message=condition.message,
                remedy=condition.remedy,
                closed=now if event == "closed" else None,
                timeline=(*before.timeline, moment),
            )
        if event == "closed":
            del self._open[condition.key]
        else:
            self._open[condition.key] = changed
        self._unsaved[changed.identity] = changed
        return changed

    def _add_note(self, incident: Incident, text: str, now: datetime) -> None:
        key = incident.identity
        latest = self._unsaved.get(key) or next((one for one in self._open.values() if one.identity == key), incident)
        if latest is incident and not incident.number:
            return  # It was closed and stored since.
        noted = replace(latest, timeline=(*latest.timeline, Moment(now, "notified", text)))
        self._unsaved[key] = noted
        if noted.closed is None:
            self._open[ReasonCode(noted.reason), noted.subject] = noted

    def _save(self) -> Mapping[tuple[str, str, datetime], Incident]:
        """Store the changes that are not stored yet, if possible now."""
        if not self._unsaved:
            return {}
        try:
            with self._writing() as ledger:
                stored = {one.identity: one for one in ledger.incidents.save([*self._unsaved.values()])}
        except CatchmentError:
            return {}  # It is tried again with the next judgement, and the failure is a condition.
        self._unsaved.clear()
        for one in stored.values():
            if one.closed is None:
                self._open[ReasonCode(one.reason), one.subject] = one
        return stored

    def _mark(self) -> None:
        """Let the supervisor check more often while an incident is open. A full disk is ignored."""
        mark = self._home.open_incidents
        with suppress(OSError):
            if self._open:
                mark.touch(mode=0o600)
            else:
                mark.unlink(missing_ok=True)


def _concerns(sync: SyncRow, found: Incident) -> bool:
    return sync.outcome in (None, *FAILED_OUTCOMES) and (found.closed is None or sync.began <= found.closed)


def _of_json(row: Mapping[str, Any]) -> IncidentView:
    """Return an incident without its timeline."""
    return IncidentView(**{**row, "timeline": (), "affects": Affected(row["affects"]["source"])})


def _view(one: Incident) -> IncidentView:
    kind, _, name = one.subject.partition(":")
    code = ReasonCode(one.reason) if one.reason in [*ReasonCode] else None
    return IncidentView(
        one.number,
        one.reason,
        "open" if one.closed is None else "closed",
        one.opened,
        one.closed,
        one.subject,
        one.message,
        one.remedy,
        code.help if code else "",
        code.runbook if code else "",
        one.acknowledged,
        one.acknowledged_by,
        one.note,
        one.timeline,
        Affected(name if kind == "source" else None),
    )
