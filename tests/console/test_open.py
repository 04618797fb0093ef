"""`open`: the address of each document, and the refusals. A stand-in for `xdg-open` records the addresses it receives."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from catchment.ledger import Ledger
from catchment.model import Item, Priority, Upsert
from catchment.runtime.home import Home
from catchment.runtime.membership import Membership
from catchment.runtime.process import alive, identity
from catchment.runtime.server_report import ServerReport
from tests.console.standin import serving
from tests.ledger.world import delivered

if TYPE_CHECKING:
    from tests.console.conftest import Cli


def ingest(home: Path, source: str, kind: str, locator: str, metadata: Mapping[str, Any], text: str = "") -> None:
    with closing(Ledger.open(Home(home).database_url)) as ledger:
        number = ledger.sources.put(source, kind, Priority.NORMAL).id
        sync = ledger.syncs.begin(number, run="run-2", owner=identity(), code_version="0.1.0", alive=alive)
        ledger.intake.record(sync.id, [Upsert(Item(locator, "", "v1", identity=locator))], {})
        batch = ledger.queue.claim(number, 10, owner=identity())
        job = next(job.id for job in batch.jobs if job.item.locator == locator)
        ledger.queue.deliver(
            batch.token, [delivered(job, text or f"text of {locator}", title=locator, metadata=metadata)]
        )
        ledger.syncs.end(sync.id, "completed", {})


@pytest.fixture
def opener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a stand-in for `xdg-open` first in the path, and return the file in which it writes its arguments."""
    folder, received = tmp_path / "bin", tmp_path / "received"
    folder.mkdir()
    for name in ("xdg-open", "open"):
        program = folder / name
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$#" "$@" >"{received}"\nexit "${{OPENER_CODE:-0}}"\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return received


def test_note_is_opened_in_obsidian(filled: Path, cli: Cli, vault: Path, opener: Path) -> None:
    address = cli("open", "Bees/Swarm.md", "--print").out.strip()
    parts = urlsplit(address)
    assert (parts.scheme, parts.netloc) == ("obsidian", "open")
    assert parse_qs(parts.query) == {"path": [str(vault / "Bees" / "Swarm.md")]}
    assert not opener.exists()
    assert cli("open", "Bees/Swarm.md").code == 0
    assert opener.read_text().splitlines() == ["1", address]


def test_file_is_opened_by_its_address(filled: Path, cli: Cli, tmp_path: Path, opener: Path) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    name = "50 % off; $(touch x) & 'é'.txt"
    (folder / name).write_text("words")
    assert cli("add", "local_files", str(folder), "--name", "papers").code == 0
    ingest(filled, "papers", "local_files", name, {})
    address = cli("open", name, "--print").out.strip()
    assert unquote(address) == f"file://{folder / name}"
    assert not {" ", "$", "'", '"', ";"} & set(address)
    assert cli("open", name).code == 0
    assert opener.read_text().splitlines() == ["1", address]


def test_file_named_like_an_attachment_is_opened(filled: Path, cli: Cli, vault: Path) -> None:
    (vault / "letter;PART=2.eml").write_text("Subject: x\n\nbody")
    ingest(filled, "notes", "obsidian", "letter;PART=2.eml", {})
    assert cli("open", "letter;PART=2.eml", "--print").out == f"{(vault / 'letter;PART=2.eml').as_uri()}\n"


def test_page_on_the_web_is_opened(filled: Path, cli: Cli, opener: Path) -> None:
    url = "https://example.org/o/r/issues/12"
    ingest(filled, "code", "github", "o/r#12", {"url": url, "number": 12})
    assert cli("open", "o/r#12").code == 0
    assert opener.read_text().splitlines() == ["1", url]


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "file:///etc/passwd", "ssh://x/", "-x", "", 7, "//example.org/x"]
)
def test_other_schemes_are_never_opened(filled: Path, cli: Cli, opener: Path, url: object) -> None:
    ingest(filled, "code", "github", "o/r#12", {"url": url})
    response = cli("open", "o/r#12")
    assert (response.code, response.out) == (4, "")
    assert "read it with `catchment show " in response.err
    assert not opener.exists()


@pytest.mark.parametrize("locator", ["../outside.txt", "/etc/passwd", "gone.txt"])
def test_only_files_of_the_source_are_opened(filled: Path, cli: Cli, vault: Path, opener: Path, locator: str) -> None:
    (vault.parent / "outside.txt").write_text("x")
    ingest(filled, "notes", "obsidian", locator, {})
    response = cli("open", locator)
    assert (response.code, "no longer in its folder" in response.err) == (4, True)
    assert not opener.exists()


@pytest.mark.parametrize(("name", "mode"), [("a.desktop", 0o644), ("b.AppImage", 0o755), ("program", 0o755)])
def test_programs_are_never_started(filled: Path, cli: Cli, vault: Path, opener: Path, name: str, mode: int) -> None:
    (vault / name).write_text("x")
    (vault / name).chmod(mode)
    ingest(filled, "notes", "obsidian", name, {})
    response = cli("open", name)
    assert (response.code, "may start a program" in response.err) == (5, True)
    assert not opener.exists()


def test_failing_opener_is_reported_with_the_address(
    filled: Path, cli: Cli, opener: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENER_CODE", "3")
    response = cli("open", "Hive.md")
    assert response.code == 1
    assert "failed with exit code 3; open it yourself: obsidian://open?path=" in response.err
    monkeypatch.setenv("PATH", "/nowhere")
    response = cli("open", "Hive.md")
    assert (response.code, "not installed; open it yourself: obsidian://" in response.err) == (1, True)


def test_result_of_a_search_is_opened(filled: Path, cli: Cli, opener: Path) -> None:
    response = cli("search", "swarm", "--words", "--open", "1")
    assert (response.code, response.out.startswith("Swarm  ")) == (0, True)
    assert opener.read_text().splitlines()[1].startswith("obsidian://open?path=")
    refused = cli("search", "swarm", "--words", "--open", "2")
    assert (refused.code, "--open 2: the search shows 1 result" in refused.err) == (4, True)


def test_mail_opens_on_the_page_while_the_system_runs(filled: Path, cli: Cli) -> None:
    ingest(filled, "mail", "imap", "INBOX;UIDVALIDITY=1;UID=2", {})
    assert cli("open", "INBOX;UIDVALIDITY=1;UID=2", "--print").code == 4
    with serving(filled):
        address = cli("open", "INBOX;UIDVALIDITY=1;UID=2", "--print").out
    assert re.fullmatch(r"http://127.0.0.1:\d+/documents/\d+\n", address)


def test_unknown_document_exits_with_4(filled: Path, cli: Cli) -> None:
    assert cli("open", "nowhere.md").code == 4


def test_file_on_another_host_is_named(filled: Path, cli: Cli) -> None:
    ingest(filled, "papers", "local_files", "plan.pdf", {})
    Membership("attic", "https://library.lan", "file:/login").record(Home(filled))
    ServerReport(datetime.now(UTC), on={"papers": "barn"}).write(Home(filled))
    refused = cli("open", "plan.pdf", "--print")
    assert (refused.code, "plan.pdf: its file is on barn; read it with" in refused.err) == (4, True)
