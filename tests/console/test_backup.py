"""`catchment backup` and `catchment restore`."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catchment.ledger import Ledger
from catchment.runtime.home import Home
from deployments.server.running import supervisor_lock

if TYPE_CHECKING:
    from tests.console.conftest import Cli


def test_a_backup_brings_back_the_library_and_the_settings(cli: Cli, filled: Path, tmp_path: Path) -> None:
    sources, alerts = (filled / "sources.yaml").read_text(), filled / "alerts.yaml"
    alerts.write_text("desktop: true\n")
    response = cli("backup", str(tmp_path / "kept.db"), "--json")
    assert (response.code, response.json["broken"], response.json["size"]) == (
        0,
        [],
        (tmp_path / "kept.db").stat().st_size,
    )
    cli("sources", "remove", "notes", "--yes")
    alerts.unlink()
    (filled / "cache.db").write_text("stale")
    (filled / "raw.db").write_text("stale")
    response = cli("restore", str(tmp_path / "kept.db"))
    assert response.code == 0 and "up --detach" in response.out and "replaced-" in response.out
    assert (filled / "sources.yaml").read_text() == sources
    assert alerts.read_text() == "desktop: true\n"
    [kept] = filled.glob("replaced-*/sources.yaml")
    assert "notes" not in kept.read_text()
    for name in ("cache.db", "raw.db"):
        assert not (filled / name).exists(), "it goes by numbers that the ledger gives out again"
    assert [hit["item"] for hit in cli("search", "swarm", "--json").json] == ["Bees/Swarm.md"]


def test_audit_names_a_restore_with_its_reason(cli: Cli, filled: Path, tmp_path: Path) -> None:
    cli("backup", str(tmp_path / "kept.db"))
    rows = cli("audit", "verify", "--json").json["rows"]
    cli("sources", "pause", "notes")
    response = cli("restore", str(tmp_path / "kept.db"), "--reason", "a mistake")
    what = f"{rows - 1} rows in place of {rows + 1}, from the backup of 20"
    assert response.code == 0 and f"history: {what}" in response.out
    found = cli("audit", "verify")
    assert (found.code, f"restored: {what}" in found.out) == (0, True)
    assert found.out.startswith(f"intact: {rows} rows of the history, {rows} of them signed, by 2 checkpoints")
    [told] = cli("audit", "verify", "--json").json["restored"]
    assert (told["rows"], told["replaced"], told["home"]) == (rows - 1, rows + 1, None)
    [line] = cli("audit", "list", "--limit", "1", "--json").json
    assert line["event"] == "restored" and line["reason"].endswith("; a mistake")


def test_audit_of_a_ledger_swapped_by_hand_names_the_remedy(cli: Cli, filled: Path, tmp_path: Path) -> None:
    older = (filled / "ledger.db").read_bytes()
    cli("sources", "pause", "notes")
    assert cli("audit", "export", str(tmp_path / "audit.tar")).code == 0
    (filled / "ledger.db").write_bytes(older)
    found = cli("audit", "verify")
    assert found.code == 1 and "when it was signed" in found.out and "`catchment restore FILE`" in found.err
    assert cli("restore", str(filled / "ledger.db")).code == 0
    assert cli("audit", "verify").code == 0


def test_damaged_backup_is_refused_and_changes_nothing(cli: Cli, filled: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.db"
    cli("backup", str(kept))
    kept.write_bytes(kept.read_bytes().replace(b"quiet in winter", b"quiet in Winter"))
    before = (filled / "ledger.db").read_bytes()
    response = cli("restore", str(kept))
    assert response.code == 1 and "kept.db: damaged backup, nothing was changed" in response.err
    assert (filled / "ledger.db").read_bytes() == before
    assert cli("audit", "verify").code == 0


def test_a_backup_without_a_name_goes_into_the_home(cli: Cli, filled: Path, tmp_path: Path) -> None:
    response = cli("backup")
    [file] = (filled / "backups").iterdir()
    assert response.code == 0 and str(file) in response.out
    assert cli("backup", str(tmp_path)).code == 0
    assert len(list(tmp_path.glob("catchment-*.db"))) == 1
    assert cli("backup", str(tmp_path), "--list").code == 2
    refused = cli("backup", str(tmp_path / "no" / "such" / "kept.db"))
    assert (refused.code, "such: no such folder" in refused.err, (tmp_path / "no").exists()) == (2, True, False)


@pytest.mark.parametrize(
    ("model", "note"),
    [
        ("use", ""),
        ("off", ""),
        ("ollama:m@http://127.0.0.1:9", "texts are sent to ollama:m@http://127.0.0.1:9; to use the built-in model"),
        ("ollama:m@http://192.0.2.1:9", "search by meaning is off: model: the address is not on this machine"),
    ],
)
def test_restore_names_the_server_that_receives_the_texts(
    cli: Cli, filled: Path, tmp_path: Path, model: str, note: str
) -> None:
    with closing(Ledger.open(Home(filled).database_url)) as ledger:
        ledger.embeddings.setting = model
    cli("backup", str(tmp_path / "kept.db"))
    cli("model", "off")
    response = cli("restore", str(tmp_path / "kept.db"))
    assert note in response.err and bool(note) == bool(response.err)
    assert cli("restore", str(tmp_path / "kept.db"), "--json").json["model"] == model


def test_two_backups_of_the_same_second_have_names_of_their_own(cli: Cli, filled: Path, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    for second in range(60):
        (tmp_path / f"catchment-{now + timedelta(seconds=second):%Y%m%dT%H%M%S}.db").touch()
    file = Path(cli("backup", str(tmp_path), "--json").json["file"])
    assert cli("restore", str(file), "--json").json["broken"] == []


def test_a_damaged_ledger_names_the_command_that_brings_a_backup_back(cli: Cli, filled: Path, tmp_path: Path) -> None:
    cli("backup", str(tmp_path / "kept.db"))
    (filled / "ledger.db").write_bytes(b"\0" * 50_000)
    response = cli("status")
    assert response.code == 1 and "catchment restore FILE" in response.err
    assert cli("restore", str(tmp_path / "kept.db"), "--json").json["broken"] == []
    assert cli("ledger", "check", "--deep").code == 0
    assert cli("ledger", "vacuum", "--json").json["after"] > 0


def test_restore_is_refused_while_the_system_runs_or_starts(cli: Cli, filled: Path, tmp_path: Path) -> None:
    cli("backup", str(tmp_path / "kept.db"))
    before = (filled / "ledger.db").read_bytes()
    with supervisor_lock(Home(filled).make()):
        response = cli("restore", str(tmp_path / "kept.db"))
    assert (response.code, (filled / "ledger.db").read_bytes()) == (5, before)
    assert "catchment down" in response.err


def test_a_backup_of_nothing_and_one_that_is_not_there_are_told_so(cli: Cli, state: Path, tmp_path: Path) -> None:
    assert cli("backup").code == 4
    assert not state.exists()
    assert cli("restore", str(tmp_path / "none.db")).code == 4
    (tmp_path / "list.json").write_text(json.dumps(list(range(1_000))))
    (state / "cache.db").write_bytes(b"parsed")
    assert cli("restore", str(tmp_path / "list.json")).code == 2
    assert (state / "cache.db").exists(), "nothing is changed by what cannot be restored"


def test_moved_ledger_is_used_by_every_command(
    cli: Cli, filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (filled / "environment").write_text("OTHER=1\nCATCHMENT_DATABASE_URL=''\n")
    target, before = f"sqlite:///{tmp_path / 'new.db'}", cli("status", "--json").json["sources"]
    with supervisor_lock(Home(filled)):
        assert cli("ledger", "move", target).code == 5
    assert "all counts equal" in cli("ledger", "move", target).out
    assert (filled / "environment").read_text() == f"OTHER=1\nCATCHMENT_DATABASE_URL={target}\n"
    (filled / "ledger.db").write_bytes(b"")
    assert cli("status", "--json").json["sources"] == before
    assert cli("ledger", "check", "--deep").code == 0
    again = cli("ledger", "move", target)
    assert (again.code, "not empty" in again.err) == (5, True)
    monkeypatch.setenv("CATCHMENT_DATABASE_URL", target)
    assert "comes first" in cli("ledger", "move", f"sqlite:///{tmp_path / 'third.db'}").err
