"""The whole system when the clock is set back by a day while it is down, and beyond 2038 and back while it is up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchmarks.notes import generate
from catchment.ledger import Ledger
from catchment.runtime.home import Home
from tests.acceptance.accidents import saved_and_found
from tests.acceptance.person import Person, upright, without_meaning
from tests.faults.clock import WallClock
from tests.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1_500), pytest.mark.long]

BEYOND_2038 = datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC)
_NOTES = 20
_NAME = "notes"


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> WallClock:
    return WallClock.make(tmp_path_factory.mktemp("clock"))


@pytest.fixture(scope="module")
def person(clock: WallClock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    home = tmp_path_factory.mktemp("clock") / "home"
    with upright(without_meaning(Person(home, variables=clock.variables))) as person:
        yield person
    assert person.left() == []


@pytest.fixture(scope="module")
def vault(person: Person, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small watched vault that is synced every minute."""
    vault = tmp_path_factory.mktemp("vault") / "vault"
    generate(vault, _NOTES)
    person("add", "obsidian", vault, "--name", _NAME, "--every", "1m", "--watch").ok()
    until(lambda: person.source(_NAME)["documents"], lambda number: number == _NOTES)
    until(lambda: len(planned(person)), bool)
    return vault


def test_clock_set_back_during_downtime_leaves_no_schedule_gap(person: Person, clock: WallClock, vault: Path) -> None:
    person("down").ok()
    back = timedelta(hours=-26)
    clock.set(back / timedelta(hours=1))
    person("up", "--detach").ok()
    goes_on(person, vault, back)


def test_system_works_beyond_32_bit_seconds(person: Person, clock: WallClock, vault: Path) -> None:
    forward = BEYOND_2038 - timedelta(seconds=5) - datetime.now(UTC)
    clock.set(forward / timedelta(hours=1))
    goes_on(person, vault, forward)
    until(lambda: datetime.now(UTC) + forward, lambda moment: moment > BEYOND_2038)
    saved_and_found(person, vault)


def test_clock_set_back_by_twelve_years_leaves_no_run_waiting(person: Person, clock: WallClock, vault: Path) -> None:
    clock.set(0)
    goes_on(person, vault, timedelta())


def goes_on(person: Person, vault: Path, ahead: timedelta) -> None:
    """Check that a save is found, the schedule plans the next minutes, no work is repeated, and no run has failed."""
    saved_and_found(person, vault)
    in_two_minutes = timedelta(minutes=2)
    until(
        lambda: [moment - datetime.now(UTC) - ahead for moment in planned(person)],
        lambda waits: bool(waits) and min(waits) < in_two_minutes,
    )
    until(lambda: person("health").code, lambda code: code == 0)
    person("ledger", "check", "--deep").ok()
    assert person.source(_NAME)["documents"] == _NOTES
    with closing(Ledger.inspect(Home(person.home).database_url)) as ledger:
        done = [(job.item, job.version) for job in ledger.queue.jobs(source=_NAME, limit=10_000)]
    assert len(done) == len(set(done)), "a version was made into a job twice"


def planned(person: Person) -> list[datetime]:
    """Return the next scheduled run of the source."""
    runs = person("sources", "next", _NAME, "--json").ok().json
    return [datetime.fromisoformat(run["at"]) for run in runs if run["why"] == "schedule"]
