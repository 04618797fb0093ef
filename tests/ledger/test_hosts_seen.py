"""The hosts of a shared library as people see them: views, figures, the page, and the incident of a silent host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from catchment.errors import CatchmentError, LedgerUnavailable
from catchment.ledger import Incident, Ledger
from catchment.model import Priority
from catchment.pacing.waits import WaitKind
from catchment.runtime.home import Home
from catchment.runtime.server_report import PlannedRun, ServerReport
from catchment.telemetry import catalogue
from catchment.views import sources
from catchment.views.hosts import HostState, hosts
from catchment.views.library import overview
from catchment.views.telemetry.gauges import gauges
from deployments.health.incident_watch import IncidentWatch

pytestmark = pytest.mark.postgres
NAMES = ("attic", "barn", "cellar")
_START = datetime.now(UTC)
ON = {"docs": "attic", "mail": "any", "notes": "barn"}


@pytest.fixture
def homes(empty_postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Home]]:
    """Three homes that share a ledger, by the names of their hosts: one works, one is silent, and one has stopped."""
    monkeypatch.setenv("CATCHMENT_DATABASE_URL", empty_postgres)
    made = {name: Home(tmp_path / name).make() for name in NAMES}
    now = datetime.now(UTC)
    for name, home in made.items():
        with closing(Ledger.open(home)) as ledger:
            ledger.hosts.join(name, "operator:anna", takes_any=name == "attic", version="1.2")
            ledger.hosts.beat()
        ServerReport(now, (), {"notes": (PlannedRun(now + timedelta(hours=1), "schedule"),)}, ON).write(home)
    with closing(Ledger.open(made["attic"])) as ledger:
        for source in ON:
            ledger.sources.put(source, "imap", Priority.NORMAL)
    change(made["barn"], "beat_until = beat_until - 100000000")
    with closing(Ledger.open(made["cellar"])) as ledger:
        ledger.hosts.end_beat()
    yield made
    with closing(Ledger.open(empty_postgres)) as ledger, ledger._store.write() as writing:
        writing.connection.exec_driver_sql("DELETE FROM counters WHERE name = 'home'")


def change(home: Home, values: str) -> None:
    """Change the row of a host."""
    with closing(Ledger.open(home)) as ledger, ledger._store.write() as writing:
        writing.execute(text(f"UPDATE hosts SET {values} WHERE name = '{home.path.name}'"))


def test_views_name_the_host_that_is_silent_and_what_waits_for_it(homes: dict[str, Home]) -> None:
    home = homes["attic"]
    with closing(Ledger.inspect(home)) as ledger:
        report = ServerReport.read(home)
        attic, barn, cellar = hosts(ledger, report)
        assert (attic.state, attic.is_me, attic.sources, attic.problem) == (HostState.ACTIVE, True, ("docs",), "")
        assert (barn.state, barn.problem) == (HostState.SILENT, "does not answer; notes waits for it")
        assert (cellar.state, cellar.last_beat, cellar.problem) == (HostState.STOPPED, None, "")
        found = {one.name: one for one in sources.standings(ledger, home, report)}
        away = {name: [wait.why for wait in one.waits if wait.kind is WaitKind.MACHINE] for name, one in found.items()}
        assert away == {"docs": [], "mail": [], "notes": ["barn does not answer"]}
        assert {name: (one.on, one.has_host) for name, one in found.items()} == {
            "docs": ("attic", True),
            "mail": ("any", True),
            "notes": ("barn", False),
        }
        assert found["notes"].next_run is None
        assert [one.name for one in overview(ledger, home, None, report).machines] == [*NAMES]
        figures = {(name, label): figure.total for (name, label, _), figure in gauges(ledger, home)}
    up = {label: total for (name, label), total in figures.items() if name == catalogue.MACHINE_UP.name}
    assert up == {"machine=attic": 1, "machine=barn": 0, "machine=cellar": 0}
    ages = {label: total for (name, label), total in figures.items() if name == catalogue.MACHINE_BEAT.name}
    assert ages.keys() == {"machine=attic", "machine=barn"}
    assert ages["machine=attic"] < 40 < 100 < ages["machine=barn"]


class Watcher:
    """The judging process of a host, which can be let pass."""

    def __init__(self, home: Home, **errors: CatchmentError) -> None:
        self.told: list[Incident] = []
        self._home, self._seconds = home, 0.0
        self._watch = IncidentWatch(
            home,
            lambda: self._ledger,
            lambda: _opened(home),
            lambda: errors,
            self.told.append,
            is_up=False,
            clock=lambda: _START + timedelta(seconds=self._seconds),
            steady=lambda: self._seconds,
        )

    def pass_(self, seconds: int = 60) -> list[tuple[str, str]]:
        """Judge every ten seconds. Return the announcements, by reason and subject."""
        self.told.clear()
        with _opened(self._home) as self._ledger:
            for _ in range(seconds // 10):
                self._seconds += 10
                self._watch.judge()
        return [(one.reason, one.subject) for one in self.told]


@contextmanager
def _opened(home: Home) -> Iterator[Ledger]:
    with closing(Ledger.inspect(home)) as ledger:
        yield ledger


def test_source_of_a_host_that_was_taken_out_says_so(homes: dict[str, Home]) -> None:
    home = homes["attic"]
    with closing(Ledger.open(home)) as ledger:
        ledger.hosts.leave("operator:anna", name="barn")
        found = {one.name: one for one in sources.standings(ledger, home, ServerReport.read(home))}
        assert (found["notes"].on, found["notes"].waits[-1].why) == ("barn", "barn left; run it on another host")
        assert found["notes"].next_run is None
        assert found["mail"].has_host


def test_one_host_judges_the_library_and_each_its_own_machine(homes: dict[str, Home]) -> None:
    change(homes["cellar"], "beat_until = (SELECT beat_until FROM hosts WHERE name = 'attic')")
    full = LedgerUnavailable("ledger: disk full; make room")
    attic, cellar = Watcher(homes["attic"]), Watcher(homes["cellar"], ledger=full)
    assert attic.pass_() == [("host.silent", "machine:barn")]
    assert cellar.pass_() == [("ledger.unwritable", "machine:cellar")]
    assert attic.pass_() == []

    change(homes["barn"], "beat_until = beat_until + 200000000")
    assert attic.pass_() == [("host.silent", "machine:barn")]
    with closing(Ledger.inspect(homes["attic"])) as ledger:
        assert [(one.reason, one.subject) for one in ledger.incidents.open()] == [
            ("ledger.unwritable", "machine:cellar")
        ]


def test_another_host_continues_to_judge_when_the_first_is_silent(homes: dict[str, Home]) -> None:
    change(homes["cellar"], "beat_until = (SELECT beat_until FROM hosts WHERE name = 'attic')")
    attic, cellar = Watcher(homes["attic"]), Watcher(homes["cellar"])
    attic.pass_()
    change(homes["attic"], "beat_until = beat_until - 100000000")
    assert cellar.pass_() == [("host.silent", "machine:attic")]
    change(homes["barn"], "beat_until = beat_until + 200000000")
    assert Watcher(homes["barn"]).pass_() == [("host.silent", "machine:barn")]
    with closing(Ledger.inspect(homes["attic"])) as ledger:
        assert [one.subject for one in ledger.incidents.open()] == ["machine:attic"]
