"""Withdrawing consent on one host of a shared library removes the data of the source from the disks of the others."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from catchment.content.raw_store import RawStore
from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.settings import Home, Policy
from catchment.sync.source_sync import open_sync
from catchment.views.hosts import HostState, hosts
from connectors.local_files import LocalFiles
from console.main import main
from deployments.actions.sources import remove
from deployments.runs.rounds import clear_for_other_hosts
from tests.faults.versions import die_at
from tests.ledger.test_crashes import in_child
from web.__main__ import desk_of

pytestmark = pytest.mark.postgres
SECRET = "The zebrafinch of Winnipeg sings every single morning at the window"


@pytest.fixture
def joined(empty_postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Home]]:
    """Two homes that share a ledger, by the names of their hosts. Each has read a part of the source `mine`."""
    monkeypatch.setenv("CATCHMENT_DATABASE_URL", empty_postgres)
    homes = {name: Home(tmp_path / name).make() for name in ("attic", "barn")}
    (tmp_path / "files").mkdir()
    for name, home in homes.items():
        with closing(Ledger.open(home)) as ledger:
            ledger.hosts.join(name, "operator:anna", takes_any=True, version="1")
            ledger.hosts.beat()
        (tmp_path / "files" / f"{name}.md").write_text(f"{SECRET} of the {name}")
        read(home, tmp_path / "files")
        home.copies("mine").mkdir(parents=True)
        (home.copies("mine") / "copy.md").write_text(SECRET)
        home.plans.mkdir()
        (home.plans / "1.json").write_text('{"source": "mine"}')
    yield homes
    with closing(Ledger.open(empty_postgres)) as ledger, ledger._store.write() as writing:
        writing.connection.exec_driver_sql("DELETE FROM counters WHERE name = 'home'")


def read(home: Home, folder: Path) -> None:
    connector = LocalFiles(LocalFiles.settings(root=folder))
    with open_sync(home, connector, "mine", Policy(keep_raw=True), Priority.NORMAL) as sync:
        sync.discover()
        while (token := sync.claim(250)) is not None:
            sync.process(token)
        sync.finish("completed")


def command(home: Home, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setenv("CATCHMENT_HOME", str(home.path))
    return main(arguments)


def holding(home: Home) -> list[str]:
    """Return the files of a home with data of the source: the cache, the raw content, copies and plans."""
    with_text = [file.name for file in home.path.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()]
    with closing(RawStore(home.raw, home.raw_bytes)) as raw:
        return sorted([*with_text, *(file.name for file in home.plans.glob("*")), *map(str, raw.items())])


def states(home: Home) -> list[str]:
    with closing(Ledger.inspect(home)) as ledger:
        return [consent.state for consent in ledger.consents.all("mine", every=True)]


def test_revocation_waits_for_each_host_and_is_then_complete(
    joined: dict[str, Home], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    attic, barn = joined.values()
    assert {"1.json", "copy.md", "raw.db"} < {*holding(barn)}

    assert command(attic, monkeypatch, "consent", "revoke", "mine", "--yes") == 0
    assert "barn: deletes its data" in capsys.readouterr().err
    assert holding(attic) == []
    assert states(attic) == ["purging"]
    with closing(Ledger.inspect(attic)) as ledger:
        assert [one.purges for one in hosts(ledger)] == [(), ("mine",)]

    clear_for_other_hosts(barn)
    assert holding(barn) == []
    assert states(attic) == ["withdrawn"]
    assert command(attic, monkeypatch, "consent", "show", "mine") == 0
    assert "barn" not in capsys.readouterr().out


def test_killed_clearing_of_a_disk_is_completed_by_the_next(
    joined: dict[str, Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    attic, barn = joined.values()
    assert command(attic, monkeypatch, "consent", "revoke", "mine", "--yes") == 0

    def clear(step: int) -> None:
        die_at(step)
        clear_for_other_hosts(barn)

    for step in range(1, 500):
        end = in_child(lambda at=step: clear(at))()  # type: ignore[misc]
        if end == 0:
            break
        assert end == -signal.SIGKILL
        assert states(attic) == ["purging"] or holding(barn) == []
    assert step > 5
    assert (holding(barn), states(attic)) == ([], ["withdrawn"])


def test_host_that_left_before_it_deleted_its_data_is_named(
    joined: dict[str, Home], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    attic, barn = joined.values()
    command(attic, monkeypatch, "consent", "revoke", "mine", "--yes")
    with closing(Ledger.inspect(barn)) as ledger:
        ledger.hosts.end_beat()
    with closing(Ledger.inspect(attic)) as ledger:
        assert [one.state for one in hosts(ledger)] == [HostState.ACTIVE, HostState.STOPPED]
        assert hosts(ledger)[1].problem == "has not deleted its data of mine"
        ledger.hosts.leave("operator:anna", name="barn")

    assert states(attic) == ["withdrawn"]
    capsys.readouterr()
    assert command(attic, monkeypatch, "consent", "show", "mine") == 0
    assert "barn: not confirmed; it left before it deleted its data" in capsys.readouterr().out


def test_removed_source_is_deleted_on_each_host(joined: dict[str, Home]) -> None:
    attic, barn = joined.values()
    remove(desk_of(attic), "mine", "operator:anna")
    assert holding(barn)
    clear_for_other_hosts(barn)
    assert holding(barn) == []
    with closing(Ledger.inspect(attic)) as ledger:
        assert ledger.purging.unfinished() == {}
