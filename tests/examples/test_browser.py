"""The example package for browsers, with profiles of Firefox and of Chromium."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from catchment_browser import Browser, BrowserSettings

from catchment.contracts import Connector
from catchment.errors import BadInput, SourceError, SourceInvalid, SourceUnavailable
from connectors.contract.memory_ledger import MemoryLedger
from tests.examples.example_contract import ExampleContract
from tests.waiting import until

_FIREFOX = """
CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR, rev_host LONGVARCHAR,
    visit_count INTEGER DEFAULT 0, hidden INTEGER DEFAULT 0 NOT NULL, typed INTEGER DEFAULT 0 NOT NULL,
    frecency INTEGER DEFAULT -1 NOT NULL, last_visit_date INTEGER, guid TEXT, foreign_count INTEGER DEFAULT 0 NOT NULL,
    url_hash INTEGER DEFAULT 0 NOT NULL, description TEXT, preview_image_url TEXT, site_name TEXT, origin_id INTEGER);
CREATE TABLE moz_historyvisits (id INTEGER PRIMARY KEY, from_visit INTEGER, place_id INTEGER, visit_date INTEGER,
    visit_type INTEGER, session INTEGER, source INTEGER DEFAULT 0 NOT NULL, triggeringPlaceId INTEGER);
CREATE TABLE moz_bookmarks (id INTEGER PRIMARY KEY, type INTEGER, fk INTEGER DEFAULT NULL, parent INTEGER,
    position INTEGER, title LONGVARCHAR, keyword_id INTEGER, folder_type TEXT, dateAdded INTEGER, lastModified INTEGER,
    guid TEXT, syncStatus INTEGER NOT NULL DEFAULT 0, syncChangeCounter INTEGER NOT NULL DEFAULT 1);
INSERT INTO moz_bookmarks (id, type, parent, position, title, guid) VALUES
    (1, 2, 0, 0, '', 'root________'), (2, 2, 1, 0, 'menu', 'menu________'), (3, 2, 1, 1, 'toolbar', 'toolbar_____'),
    (4, 2, 1, 2, 'tags', 'tags________'), (5, 2, 1, 3, 'unfiled', 'unfiled_____'), (6, 2, 1, 4, 'mobile', 'mobile______');
"""
"""The tables of Firefox 140 that are read, with what each new profile has."""


class Firefox:
    """A running Firefox as its profile shows it: the database stays open, and changes are in its journal."""

    def __init__(self, profile: Path) -> None:
        self.profile = profile
        self._connection = sqlite3.connect(profile / "places.sqlite", isolation_level=None)
        self._connection.executescript(f"PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; {_FIREFOX}")

    def visit(self, url: str, title: str | None, moment: str, kind: int = 1) -> None:
        time = int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()) * 1_000_000
        self._run(
            "INSERT INTO moz_historyvisits (place_id, visit_date, visit_type) VALUES (?, ?, ?)",
            self._page(url, title),
            time,
            kind,
        )

    def folder(self, title: str, parent: int = 3) -> int:
        return self._run(
            "INSERT INTO moz_bookmarks (type, parent, title, guid) VALUES (2, ?, ?, ?)",
            parent,
            title,
            f"guid{title:_<8}",
        )

    def mark(self, url: str, title: str | None, folder: int = 3) -> int:
        return self._run(
            "INSERT INTO moz_bookmarks (type, fk, parent, title) VALUES (1, ?, ?, ?)",
            self._page(url, title),
            folder,
            title,
        )

    def forget(self, day: str) -> None:
        self._run("DELETE FROM moz_historyvisits WHERE date(visit_date / 1000000, 'unixepoch') = ?", day)

    def close(self) -> None:
        self._connection.close()

    def _page(self, url: str, title: str | None) -> int:
        return self._run("INSERT INTO moz_places (url, title) VALUES (?, ?)", url, title)

    def _run(self, statement: str, *values: object) -> int:
        return self._connection.execute(statement, values).lastrowid or 0


@pytest.fixture
def firefox(tmp_path: Path) -> Iterator[Firefox]:
    profile = tmp_path / "k2xw81tb.default"
    profile.mkdir()
    with closing(Firefox(profile)) as browser:
        yield browser


class TestBrowser(ExampleContract):
    package, kind = "catchment-browser", "browser"

    @pytest.fixture
    def place(self, firefox: Firefox) -> Firefox:
        return firefox

    def fill(self, place: Firefox) -> None:
        place.visit("https://example.org/weir", "The weir", "2026-11-01T09:30:00")
        place.visit("https://example.org/gauge", "The gauge", "2026-11-02T10:00:00")
        place.visit("https://example.org/tar", "Tar", "2026-11-03T10:00:00")
        place.mark("https://example.org/eggs", "Eggs")

    def settings(self, place: Firefox) -> dict[str, Any]:
        return {"profile": place.profile}

    def change(self, place: Firefox) -> None:
        place.visit("https://example.org/oak", "Oak", "2026-11-04T10:00:00")
        place.visit("https://example.org/sluice", "The sluice", "2026-11-02T11:00:00")
        place.forget("2026-11-03")

    def lose(self, place: Firefox) -> None:
        place.profile.rename(place.profile.with_name("elsewhere"))

    def test_database_is_neither_opened_nor_left_in_a_copy(
        self, connector: Connector, place: Firefox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        copies = tmp_path / "copies"
        copies.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(copies))
        before = {path.name: path.stat().st_mtime_ns for path in place.profile.iterdir()}
        assert before.keys() == {"places.sqlite", "places.sqlite-wal", "places.sqlite-shm"}
        assert connector.probe() == "4 entries"
        assert {path.name: path.stat().st_mtime_ns for path in place.profile.iterdir()} == before
        assert list(copies.iterdir()) == []


def test_documents_of_firefox(firefox: Firefox, ledger: MemoryLedger) -> None:
    firefox.visit("https://example.org/a b?q=<i>", "Weirs [old] #1 *and*\nnew", "2026-11-01T23:59:59")
    firefox.visit("https://example.org/frame", "A frame", "2026-11-01T12:00:00", kind=8)
    firefox.visit("about:config", "Settings", "2026-11-01T12:00:00")
    firefox.visit("https://example.org/untitled", None, "2026-11-02T00:00:00")
    inner = firefox.folder("Bees", firefox.folder("Garden"))
    firefox.mark("https://example.org/varroa", "Varroa", inner)
    firefox.mark("https://example.org/weir", "The weir")
    firefox.mark("javascript:alert(1)", "A script")
    firefox.mark("https://example.org/weir", "water", firefox.folder("water", 4))
    ledger.sync(Browser(BrowserSettings(profile=firefox.profile)))
    assert {name: data.decode() for name, data in ledger.documents().items()} == {
        "History/2026-11-01.md": r"- 23:59 [Weirs \[old\] \#1 \*and\* new](<https://example.org/a%20b?q=%3Ci%3E>)"
        + "\n",
        "History/2026-11-02.md": "- 00:00 [https://example.org/untitled](<https://example.org/untitled>)\n",
        "Bookmarks/toolbar.md": "- [The weir](<https://example.org/weir>)\n",
        "Bookmarks/toolbar/Garden/Bees.md": "- [Varroa](<https://example.org/varroa>)\n",
    }


def test_database_written_at_each_copy_is_left_for_the_next_sync(
    firefox: Firefox, monkeypatch: pytest.MonkeyPatch
) -> None:
    firefox.visit("https://example.org/weir", "The weir", "2026-11-01T09:30:00")
    connector = Browser(BrowserSettings(profile=firefox.profile))
    from shutil import copyfile

    def copy(source: Path, target: Path) -> None:
        copyfile(source, target)
        if source.name.endswith("-wal"):
            firefox.visit("https://example.org/more", "More", "2026-11-01T09:30:00")

    with monkeypatch.context() as patched:
        patched.setattr("shutil.copyfile", copy)
        with pytest.raises(SourceUnavailable, match=r"places\.sqlite: the browser is writing; the next sync"):
            connector.probe()
    assert connector.probe() == "1 entry"


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0" + b"\xff" * 5_000, b"text"])
def test_damaged_database_is_refused_and_nothing_is_deleted(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "History").write_bytes(content)
    with pytest.raises(SourceInvalid, match="cannot be listed: History: not of a known version; start the browser"):
        Browser(BrowserSettings(profile=tmp_path)).probe()


def test_folder_without_a_profile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r": no profile of a browser; its path is on about:profiles or chrome://version"):
        BrowserSettings.located(str(tmp_path))


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"<title>The weir {self.path}</title>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Discard log messages."""


@pytest.fixture
def pages() -> Iterator[str]:
    """The address of a web server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.browser
@pytest.mark.skipif(which("chromium") is None, reason="needs Chromium")
def test_history_and_bookmarks_of_running_chromium_are_read(pages: str, tmp_path: Path) -> None:
    profile = tmp_path / "Default"
    profile.mkdir()
    mark = {"type": "url", "name": "Eggs", "url": "https://example.org/eggs", "guid": "1"}
    folder = {"type": "folder", "name": "Garden", "children": [mark]}
    roots = {"bookmark_bar": {"type": "folder", "name": "Bookmarks bar", "children": [folder]}}
    (profile / "Bookmarks").write_text(json.dumps({"checksum": "", "roots": roots, "version": 1}))
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0"]
    command = ["chromium", *options, f"--user-data-dir={tmp_path}", f"{pages}/one"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, process_group=0) as chromium:
        try:
            documents = until(lambda: documents_of(profile), lambda documents: len(documents) == 2)
            assert chromium.poll() is None
        finally:
            os.killpg(chromium.pid, signal.SIGKILL)
    assert documents.pop("Bookmarks/Bookmarks bar/Garden.md") == "- [Eggs](<https://example.org/eggs>)\n"
    ((name, text),) = documents.items()
    assert name.startswith("History/20")
    assert text.endswith(f" [The weir /one](<{pages}/one>)\n")


def documents_of(profile: Path) -> dict[str, str]:
    """Return the documents of a profile, which are none while there is no history."""
    ledger = MemoryLedger()
    with suppress(SourceError):
        ledger.sync(Browser(BrowserSettings(profile=profile)))
    return {name: data.decode() for name, data in ledger.documents().items()}
