"""Remotes on servers of rclone, which move, fail, are silent or refuse."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from catchment.errors import ItemError, LoginFailed, RateLimited, SourceError, SourceUnavailable
from connectors import rclone as module
from connectors.contract.memory_ledger import MemoryLedger
from tests.connectors.remote.storages import SERVERS, Wire, answering, configure, remote, serving, settings_of
from tests.waiting import until

pytestmark = pytest.mark.server
FILES = 6


@dataclass
class Storage:
    """A folder behind a server and a proxy, as the remote `place`."""

    folder: Path
    proxy: Wire
    place: str
    has_hashes: bool


@pytest.fixture
def storage(
    request: pytest.FixtureRequest, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Storage]:
    server = getattr(request, "param", "webdav")
    folder = root / "papers"
    (folder / "deep").mkdir(parents=True)
    for number in range(FILES):
        (folder / ("deep" if number % 2 else ".") / f"{number}.md").write_text(f"paper {number}")
    with ExitStack() as stack:
        proxy = Wire(stack.enter_context(serving(server, root)))
        stack.callback(proxy.close)
        configure(monkeypatch, tmp_path, box=settings_of(server, proxy.port))
        yield Storage(folder, proxy, "box:papers", server != "webdav")


def _contents(storage: Storage) -> dict[str, bytes]:
    return {str(path.relative_to(storage.folder)): path.read_bytes() for path in storage.folder.rglob("*.md")}


@pytest.mark.parametrize("storage", SERVERS, indirect=True)
def test_storage_is_followed(storage: Storage, ledger: MemoryLedger) -> None:
    assert ledger.sync(remote(storage.place)).fetched == _contents(storage).keys()
    assert ledger.documents() == _contents(storage)
    assert ledger.sync(remote(storage.place)).item_changes == []
    storage.folder.joinpath("deep").rename(storage.folder / "moved")
    storage.folder.joinpath("2.md").write_text("paper Z")
    os.utime(storage.folder / "2.md", (0, 1_700_000_000))
    storage.folder.joinpath("4.md").unlink()
    storage.folder.joinpath("new.md").write_text("new")
    report = ledger.sync(remote(storage.place))
    assert ledger.documents() == _contents(storage)
    assert report.fetched >= {"2.md", "new.md"}
    if storage.has_hashes:
        assert report.moved == {f"deep/{number}.md": f"moved/{number}.md" for number in (1, 3, 5)}
        assert report.fetched == {"2.md", "new.md"}


@pytest.mark.parametrize("storage", SERVERS, indirect=True)
def test_missing_folder_deletes_nothing(storage: Storage, ledger: MemoryLedger) -> None:
    ledger.sync(remote(storage.place))
    storage.folder.rename(storage.folder.with_name("away"))
    with pytest.raises(SourceUnavailable, match="; restore it, or correct `remote`"):
        ledger.sync(remote(storage.place))
    assert len(ledger.documents()) == FILES


@pytest.mark.parametrize("server", SERVERS)
def test_refused_login_is_reported_with_its_remedy(
    server: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(server, root) as port:
        settings = {**settings_of(server, port), "user": "eve", "access_key_id": "eve-the-second"}
        configure(monkeypatch, tmp_path, box=settings)
        with pytest.raises(LoginFailed, match="rclone box: login refused; renew it with `rclone config`"):
            remote().probe()


def test_rate_limit_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(429, Retry_After="1") as port:
        configure(monkeypatch, tmp_path, box=settings_of("webdav", port))
        with pytest.raises(RateLimited, match="rclone box: rate limit"):
            remote().probe()


@pytest.mark.parametrize("status", [500, 503, 418])
def test_error_of_the_server_is_reported(status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(status) as port:
        configure(monkeypatch, tmp_path, box=settings_of("webdav", port))
        with pytest.raises(SourceUnavailable, match=rf"{status}.*; correct it, or see its log"):
            remote().probe()


def test_server_that_is_down_is_reported(storage: Storage, ledger: MemoryLedger) -> None:
    ledger.sync(remote(storage.place), fetch=False)
    connector = remote(storage.place)
    list(connector.changes(ledger.known()))
    storage.proxy.close()
    with pytest.raises(SourceUnavailable, match="connection refused"):
        connector.probe()
    with pytest.raises(SourceUnavailable, match="connection refused"):
        connector.fetch(next(iter(ledger.present().values())).item)


@pytest.mark.parametrize("failure", ["", "500 Internal Server Error", "429 Too Many Requests"])
def test_fault_at_any_request_loses_and_repeats_nothing(storage: Storage, failure: str) -> None:
    proxy, number, is_whole = storage.proxy, 0, False
    for left_out in ("2.md", "4.md", "deep/3.md"):
        (storage.folder / left_out).unlink()
    proxy.failure = f"HTTP/1.1 {failure}\r\nContent-Length: 0\r\n\r\n".encode() if failure else b""
    while not is_whole:
        ledger = MemoryLedger()
        proxy.requests, proxy.fails = 0, number
        with suppress(SourceError):
            ledger.sync(remote(storage.place))
        assert ledger.documents().items() <= _contents(storage).items()
        is_whole = proxy.requests <= number
        proxy.fails = None
        before = {*ledger.documents()}
        assert ledger.sync(remote(storage.place)).fetched == _contents(storage).keys() - before
        assert ledger.documents() == _contents(storage)
        number += 4
    assert number > 4


@pytest.mark.parametrize("storage", SERVERS, indirect=True)
def test_answer_that_is_cut_is_not_a_document(storage: Storage, ledger: MemoryLedger) -> None:
    text = os.urandom(500_000).hex()
    (storage.folder / "long.md").write_text(text)
    connector = remote(storage.place)
    ledger.sync(connector, fetch=False)
    storage.proxy.most = 400_000
    item = ledger.present()["long.md"].item
    with suppress(SourceError, ItemError):
        assert connector.fetch(item).data.decode() == text  # by another request
    storage.proxy.most = None
    assert connector.fetch(item).data.decode() == text


def test_silent_storage_is_given_up(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", (*module._PATIENCE, "--timeout=1s"))
    storage.proxy.most, storage.proxy.stall = 10, True
    began = time.monotonic()
    with pytest.raises(SourceUnavailable, match="; "):
        remote(storage.place, run={"silent_minutes": 0.05}).probe()
    assert time.monotonic() - began < 20


def test_slow_storage_is_read(storage: Storage, ledger: MemoryLedger) -> None:
    storage.proxy.slow = 0.1
    ledger.sync(remote(storage.place))
    assert ledger.documents() == _contents(storage)


def test_killed_sync_leaves_no_program_behind(storage: Storage, tmp_path: Path) -> None:
    storage.proxy.most, storage.proxy.stall = 10, True
    code = f"from tests.connectors.remote.storages import remote; remote({storage.place!r}).probe()"
    environment = {**os.environ, "HOME": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, cwd=Path(__file__).parents[3]) as process:
        until(lambda: any("rclone" in child.name() for child in psutil.Process(process.pid).children(recursive=True)))
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
    psutil.wait_procs(children, timeout=10)
    assert [child for child in children if child.is_running()] == []
