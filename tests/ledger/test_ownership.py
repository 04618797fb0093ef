"""A ledger has one home, which alone may change it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from catchment.errors import Refused
from catchment.ledger import Ledger
from catchment.ledger.admin import backup
from catchment.model import Priority
from catchment.settings import Home
from catchment.sync import supply
from console.main import main
from deployments.actions import sinks
from sinks import opened
from web.__main__ import desk_of

_PRODUCT = ("assistant", "catchment", "connectors", "console", "deployments", "flows", "tasks", "web")


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Home, Home]:
    """Two homes of one machine."""
    return Home(tmp_path / "a").make(), Home(tmp_path / "b").make()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def shared(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let all homes use one ledger."""
    url = f"sqlite:///{tmp_path}/shared.db"
    if request.param == "postgres":
        url = request.getfixturevalue("empty_postgres")
    monkeypatch.setenv("CATCHMENT_DATABASE_URL", url)
    yield
    with closing(Ledger.open(url)) as ledger, ledger._store.write() as writing:
        writing.connection.exec_driver_sql("DELETE FROM counters WHERE name = 'home'")


def add(home: Home, name: str) -> None:
    with closing(Ledger.open(home)) as ledger:
        ledger.sources.put(name, "obsidian", Priority.NORMAL)


def names(home: Home) -> list[str]:
    with closing(Ledger.inspect(home)) as ledger:
        return [source.name for source in ledger.sources.all()]


def command(home: Home, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setenv("CATCHMENT_HOME", str(home.path))
    return main(arguments)


@pytest.mark.usefixtures("shared")
def test_second_home_reads_a_ledger_but_cannot_change_it(homes: tuple[Home, Home]) -> None:
    one, other = homes
    add(one, "notes")
    with pytest.raises(Refused, match=r"ledger: belongs to another home.*catchment ledger adopt"):
        add(other, "papers")
    assert names(other) == names(one) == ["notes"]


@pytest.mark.usefixtures("shared")
def test_live_sync_is_not_closed_from_another_home(homes: tuple[Home, Home]) -> None:
    one, other = homes
    with closing(Ledger.open(one)) as ledger:
        source = ledger.sources.put("notes", "obsidian", Priority.NORMAL)
        sync = ledger.syncs.begin(source.id, run=None, owner="elsewhere", code_version="1", alive=lambda _: True)
        with closing(Ledger.inspect(other)) as theirs, pytest.raises(Refused):
            theirs.syncs.close_dead(lambda _: False)
        assert ledger.syncs.is_open(sync.id)


@pytest.mark.usefixtures("shared")
def test_adopted_ledger_refuses_the_running_processes_of_its_former_home(homes: tuple[Home, Home]) -> None:
    one, other = homes
    with closing(Ledger.open(one)) as running:
        source = running.sources.put("notes", "obsidian", Priority.NORMAL)
        with closing(Ledger.inspect(other)) as ledger:
            ledger.adopt("operator:anna")
            ledger.adopt("operator:anna")
        with pytest.raises(Refused):
            running.sources.pause(source.name, "anna", "not now")
        add(other, "papers")


@pytest.mark.usefixtures("shared")
def test_home_that_adopts_a_ledger_adopts_its_sinks(
    homes: tuple[Home, Home], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At once, before its first delivery. A sink that is away is named, and the others are adopted."""
    one, other = homes
    for name in ("away", "copy"):
        sink = sinks.add(desk_of(one), "jsonl", str(tmp_path / name), name, "anna")
        with closing(Ledger.open(one)) as ledger:
            supply.deliver(ledger, name, opened, lambda: True, supply.DeliveryCounts())
    (tmp_path / "away").rename(tmp_path / "elsewhere")
    assert command(other, monkeypatch, "ledger", "adopt") == 1
    said = capsys.readouterr()
    assert "copy: adopted" in said.out
    assert "away: not adopted: the folder or its disk is missing" in said.err and "sinks adopt away" in said.err
    with closing(Ledger.inspect(other)) as ledger, opened(sink.kind, sink.place) as place:
        sink = ledger.outbox.get("copy")
        assert ledger.outbox.is_own(sink, place.stamp()) and sink.must_be_compared
    with closing(Ledger.inspect(one)) as ledger, opened(sink.kind, sink.place) as place:
        assert not ledger.outbox.is_own(sink, place.stamp())


@pytest.mark.usefixtures("shared")
def test_moved_home_keeps_its_ledger_and_a_copy_does_not(homes: tuple[Home, Home], tmp_path: Path) -> None:
    one, _ = homes
    add(one, "notes")
    moved = Home(one.path.rename(tmp_path / "moved"))
    add(moved, "papers")
    copy = Home(Path(shutil.copytree(moved.path, tmp_path / "copy")))
    with pytest.raises(Refused):
        add(copy, "letters")
    add(moved, "letters")


@pytest.mark.usefixtures("shared")
def test_ledger_without_an_owner_belongs_to_the_first_home_that_writes(homes: tuple[Home, Home]) -> None:
    one, other = homes
    Ledger.open(one.database_url).close()
    add(other, "papers")
    with pytest.raises(Refused):
        add(one, "notes")


def test_two_copies_of_a_home_use_their_own_ledgers(homes: tuple[Home, Home], tmp_path: Path) -> None:
    one, _ = homes
    add(one, "notes")
    copy = Home(Path(shutil.copytree(one.path, tmp_path / "copy")))
    add(copy, "papers")
    add(one, "letters")
    assert (names(one), names(copy)) == (["letters", "notes"], ["notes", "papers"])


def test_ledger_inside_another_home_is_refused(homes: tuple[Home, Home], monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = homes
    add(one, "notes")
    monkeypatch.setenv("CATCHMENT_DATABASE_URL", one.database_url)
    with pytest.raises(Refused):
        add(other, "papers")


def test_restored_backup_belongs_to_the_home_that_restored_it(
    homes: tuple[Home, Home], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = homes
    add(one, "notes")
    with closing(Ledger.inspect(one)) as ledger:
        ledger.back_up(tmp_path / "backup.db", {})
    monkeypatch.setenv("CATCHMENT_DATABASE_URL", f"sqlite:///{tmp_path}/new.db")
    backup.restore(f"sqlite:///{tmp_path / 'new.db'}", tmp_path / "backup.db")
    add(other, "papers")
    assert names(other) == ["notes", "papers"]


@pytest.mark.usefixtures("shared")
def test_up_refuses_the_ledger_of_another_home_until_it_is_adopted(
    homes: tuple[Home, Home], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = homes
    add(one, "notes")
    assert command(other, monkeypatch, "up", "--detach") == 5
    assert "catchment ledger adopt" in capsys.readouterr().err
    assert command(other, monkeypatch, "ledger", "check") == 0
    assert command(other, monkeypatch, "restore", "kept.db") == 5
    assert command(other, monkeypatch, "ledger", "adopt") == 0
    add(other, "papers")
    assert command(one, monkeypatch, "up", "--detach") == 5


def test_all_processes_open_the_ledger_as_their_home_or_for_reading() -> None:
    calls = re.compile(r"Ledger\.(?:open|inspect)\(([^\n]*)")
    opened = [
        (file.name, call[1])
        for folder in _PRODUCT
        for file in (Path(__file__).parents[2] / folder).rglob("*.py")
        for call in calls.finditer(file.read_text())
    ]
    assert len(opened) > 15
    without_home = [(file, call) for file, call in opened if "url" in call and "read_only=True" not in call]
    assert without_home == [("library.py", "home.database_url).close()")], "`ledger adopt` migrates a foreign ledger"
