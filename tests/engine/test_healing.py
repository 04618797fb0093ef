"""Automatic retry of quarantined items: once after a relevant change, and only then."""

from __future__ import annotations

import ast
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from catchment.errors import LoginFailed, NotNow, Reason
from catchment.ledger import Ledger
from catchment.ledger.jobs.auto_retry import RELEVANT, first_change
from catchment.model import Priority
from catchment.settings import Home, Policy
from catchment.sync import circumstances as here
from catchment.sync.circumstances import circumstances
from catchment.sync.source_sync import open_sync
from connectors.imap.settings import ImapSettings
from connectors.local_files import LocalFiles, LocalFilesSettings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 cut")
    return folder


def sync(home: Home, settings: LocalFilesSettings, login: str = "") -> dict[str, int]:
    """Sync as a run does; `login` is the digest of the source's credentials."""
    now = {**circumstances(settings), "login": login}
    with open_sync(home, LocalFiles(settings), "papers", Policy(), Priority.NORMAL, now=now) as opened:
        opened.discover()
        while (token := opened.claim(250)) is not None:
            opened.process(token)
        return opened.finish("completed")


def tries(home: Home) -> int:
    """Return the number of attempts of the only quarantined item."""
    ledger = Ledger.inspect(home.database_url)
    try:
        [entry] = ledger.quarantine.list()
        return entry.attempts
    finally:
        ledger.close()


def test_parser_failure_is_retried_once_after_a_program_change(
    home: Home, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = LocalFilesSettings(root=folder)
    sync(home, settings)
    sync(home, settings)
    assert tries(home) == 1, "nothing changed"
    monkeypatch.setattr(here, "version", lambda _package: "99.0")
    sync(home, settings)
    assert tries(home) == 2
    sync(home, settings)
    assert tries(home) == 2, "once for each change"
    ledger = Ledger.inspect(home.database_url)
    [entry] = ledger.quarantine.list()
    released = [event for event in ledger.history.of_job(entry.job) if event.event == "pending"][-1]
    assert (released.actor, released.reason) == ("catchment", "the program changed")
    ledger.close()


def test_changed_setting_triggers_retry_but_priority_and_login_do_not(home: Home, folder: Path) -> None:
    sync(home, LocalFilesSettings(root=folder))
    sync(home, LocalFilesSettings(root=folder, priority=Priority.HIGH), login="another")
    assert tries(home) == 1
    sync(home, LocalFilesSettings(root=folder, exclude=("*.tmp",)))
    assert tries(home) == 2


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_declares_its_retry_condition(reason: Reason) -> None:
    assert RELEVANT[reason]
    before = {"program": "1", "settings": "1", "login": "1"}
    for what in before:
        assert first_change(reason, before, {**before, what: "2"}) == (what if what in RELEVANT[reason] else None)
    assert first_change(reason, before, before) is None
    assert first_change(reason, {}, before) is None, "of what was not known then nothing has changed"


def test_source_with_a_refused_login_resumes_only_with_another_login(home: Home, folder: Path) -> None:
    settings = LocalFilesSettings(root=folder)
    first = {**circumstances(settings), "login": "old"}
    with open_sync(home, LocalFiles(settings), "papers", Policy(), Priority.NORMAL, now=first) as opened:
        opened.finish("failed", LoginFailed("refused"))
        assert opened.outcome == "quarantined"
    with (
        pytest.raises(NotNow, match="held"),
        open_sync(home, LocalFiles(settings), "papers", Policy(), Priority.NORMAL, now=first),
    ):
        pass
    assert sync(home, settings, login="new")["quarantined"] == 1


def test_secret_digest_is_stable_and_irreversible(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("correct horse battery staple")
    file.chmod(0o600)
    settings = ImapSettings(user="anna", host="localhost", password=f"file:{file}")
    first = circumstances(settings)
    assert circumstances(settings) == first
    assert len(first["login"]) == 4 and "horse" not in str(first)
    file.write_text("correct horse battery stable")
    assert circumstances(settings)["login"] != first["login"]
    file.unlink()
    assert circumstances(settings)["login"] == "none"
    assert {key: value for key, value in circumstances(settings).items() if key != "login"} == {
        key: value for key, value in first.items() if key != "login"
    }


def test_new_version_of_any_parsing_library_is_a_change_of_the_program() -> None:
    files = (Path(here.__file__).parents[1] / "content").rglob("*.py")
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    libraries = {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"catchment"}
    found = {distribution for library in libraries for distribution in packages_distributions()[library]}

    assert found == set(here._PARSERS)
