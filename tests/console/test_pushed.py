"""Sources of the kind `pushed` on the command line, without a running system."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from catchment.content import pushed_files
from catchment.model import RawContent
from catchment.runtime.home import Home
from deployments.actions import pushed
from tests.console.conftest import Cli


@pytest.fixture
def folder(cli: Cli, state: Path) -> Path:
    """The folder of the source `clips`."""
    added = cli("add", "pushed", "clips", "--name", "clips")
    assert (added.code, added.out.splitlines()[0]) == (0, "added clips: clips: documents that programs push")
    return state / "pushed" / "clips"


def note(text: str) -> RawContent:
    return RawContent(text.encode(), "note.md")


def test_pushed_source_is_watched_and_named_like_its_folder(cli: Cli, folder: Path) -> None:
    assert "every 15 min, on change" in cli("sources", "list").out
    refused = cli("add", "pushed", "other", "--name", "pages")
    assert (refused.code, "give its name: pages" in refused.err) == (2, True)
    file = folder.parent.parent / "sources.yaml"
    file.write_text(file.read_text().replace("folder: clips", "folder: other"))
    assert "folder differs from name; make them equal" in cli("sources", "list").err


def test_backup_has_pushed_documents_and_restore_keeps_newer_ones(cli: Cli, folder: Path, tmp_path: Path) -> None:
    for key in ("lost", "edited"):
        pushed_files.put(folder, key, note(f"{key}, as in the backup"))
    pushed_files.put(folder, "x.unfinished", note("whole"))
    (folder / ".x~process~1.unfinished").write_text("half")
    (folder / "00").mkdir(exist_ok=True)
    (folder / "00" / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder / "00" / "pipe")
    assert cli("backup", str(tmp_path / "kept.db")).code == 0
    for odd in ("link", "pipe"):
        (folder / "00" / odd).unlink()
    pushed_files.remove(folder, "x.unfinished")
    pushed_files.remove(folder, "lost")
    pushed_files.put(folder, "edited", note("newer"))
    pushed_files.put(folder, "new", note("new"))
    (folder / ".x~process~1.unfinished").unlink()
    assert cli("restore", str(tmp_path / "kept.db")).code == 0
    texts = {key: (folder / pushed_files.locator(key)).read_text() for key in ("lost", "edited", "new", "x.unfinished")}
    assert texts == {
        "lost": "lost, as in the backup",
        "edited": "newer",
        "new": "new",
        "x.unfinished": "whole",
    }
    assert pushed_files.described(folder, "lost").name == "note.md"
    assert len([file for file in folder.rglob("*") if file.is_file()]) == 8


def test_token_is_shown_once_and_stored_as_a_digest(cli: Cli, folder: Path) -> None:
    added = cli("tokens", "add", "browser", "--source", "clips", "--reason", "saved pages")
    secret, (file,) = added.out.strip(), (folder.parent.parent / "push-tokens").iterdir()
    assert (added.code, len(secret), file.stat().st_mode & 0o777) == (0, 43, 0o600)
    assert secret not in file.name + file.read_text()
    home = Home(folder.parent.parent)
    assert (token := pushed.holder(home, secret)) and (token.name, token.source) == ("browser", "clips")
    assert pushed.holder(home, "") is None
    assert [(row["name"], row["source"]) for row in cli("tokens", "list", "--json").json] == [("browser", "clips")]
    [line] = cli("audit", "list", "--limit", "1", "--json").json
    assert (line["event"], line["source"], line["reason"]) == ("token added", "clips", "browser; saved pages")


def test_revoked_token_is_refused_and_in_the_audit_trail(cli: Cli, folder: Path) -> None:
    secret = cli("tokens", "add", "browser", "--source", "clips").out.strip()
    assert cli("tokens", "revoke", "brwser").code == 4
    assert cli("tokens", "revoke", "browser").out == "browser: revoked; its documents stay in clips\n"
    assert pushed.holder(Home(folder.parent.parent), secret) is None
    assert cli("audit", "list", "--limit", "1", "--json").json[0]["event"] == "token revoked"


def test_token_needs_a_free_name_and_a_pushed_source(cli: Cli, folder: Path, tmp_path: Path) -> None:
    assert cli("tokens", "add", "browser", "--source", "clips").code == 0
    assert cli("tokens", "add", "browser", "--source", "clips").code == 2
    assert cli("tokens", "add", "other", "--source", "nowhere").code == 4
    assert cli("add", "local_files", str(tmp_path), "--name", "papers").code == 0
    assert cli("tokens", "add", "other", "--source", "papers").code == 2
    next((folder.parent.parent / "push-tokens").iterdir()).write_text("[]")
    assert "damaged; delete it" in cli("tokens", "list").err


def test_token_of_a_removed_source_is_not_one_of_its_successor(cli: Cli, folder: Path) -> None:
    cli("tokens", "add", "browser", "--source", "clips")
    cli("sources", "remove", "clips", "--yes")
    cli("add", "pushed", "clips", "--name", "clips")
    assert cli("tokens", "list", "--json").json == []


def test_one_thing_is_added_to_the_inbox(
    cli: Cli, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "letter.md").write_text("a letter")
    for _ in range(2):
        added = cli("add", str(tmp_path / "letter.md"))
        assert (added.code, added.out.splitlines()[0]) == (0, "inbox-files: 1 file added")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"# piped\n")))
    assert cli("add", "-").code == 0
    kept = (state / "pushed" / "inbox-files").glob("*/[!.]*")
    assert sorted(file.read_text() for file in kept) == ["# piped\n", "a letter"]
    assert cli("add", "https://example.org/a", "--consent").out.splitlines()[0] == "inbox: 1 added, 0 known"
    refused = cli("add", "nothing.md")
    assert (refused.code, "not a kind of source, a file or an address" in refused.err) == (2, True)
    assert "LOCATION: missing" in cli("add", "obsidian").err
    assert "--name: missing" in cli("add", "obsidian", str(tmp_path)).err


def test_removal_of_the_source_deletes_its_documents(cli: Cli, folder: Path) -> None:
    pushed_files.put(folder, "a", note("a"))
    assert cli("sources", "remove", "clips", "--yes").code == 0
    assert not folder.exists()


def test_withdrawn_consent_deletes_pushed_documents(cli: Cli, folder: Path) -> None:
    pushed_files.put(folder, "a", note("a"))
    assert cli("consent", "revoke", "clips", "--yes").code == 0
    assert not folder.exists()
