"""`python -m benchmarks.imap [--large]`: mail, compared with bare loops, on a local server. Needs root and Dovecot.

A first sync of one folder: the bare loop fetches every message with IMAPClient and parses it with `email`. A listing of many
unchanged folders: the bare loop requests the status of each. The mailboxes are written as files.
"""

from __future__ import annotations

import argparse
import email
import email.policy
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from imapclient import IMAPClient

from benchmarks.comparison_table import show
from benchmarks.mail import corpus
from benchmarks.measure import Case, in_turn
from catchment.ledger import Ledger
from catchment.settings import Home
from catchment.sync.source_sync import SourceSync, open_sync
from connectors.imap import Imap
from connectors.imap.settings import ImapSettings
from tests.connectors.imap.dovecot import PASSWORD, USER, Dovecot, message, serving

_BATCH = 1_000
_AT_ONCE = 50


def main() -> None:
    """Fill a server, then measure each case in a separate process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.imap", description=__doc__)
    parser.add_argument(
        "--large", action="store_true", help="10 000 messages, not 1 000; 100 folders of 1 000, not 20 of 100"
    )
    parser.add_argument("--case", choices=_CASES, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        began = time.perf_counter()
        figures = _CASES[given.case](given.port, given.home)
        print(json.dumps({"seconds": time.perf_counter() - began, **figures}))
        return
    try:
        _measure_one_folder(10_000 if given.large else 1_000)
        _measure_many_folders(*((100, 1_000) if given.large else (20, 100)))
    except pytest.skip.Exception as left_out:
        print(f"Mail was left out: {left_out}")


def _measure_one_folder(count: int) -> None:
    with _server() as (server, home):
        size = _write(server, "INBOX", corpus(count))
        cases = [
            _case("bare loop", server, home),
            _case("first sync", server, home, lambda: _forget(home)),
            _case("no change", server, home),
        ]
        show(f"First sync of {count:,} messages ({size / 1e6:.0f} MB)", in_turn(cases, 1))


def _measure_many_folders(folders: int, each: int) -> None:
    one = message(0)
    with _server() as (server, home):
        for number in range(folders):
            numbers = range(number * each, (number + 1) * each)
            _write(server, f"Folder {number}", [one.replace(b"<0@", b"<%d@" % number) for number in numbers])
        cases = [
            _case("bare statuses", server, home),
            _case("listing", server, home, lambda: _list_first(server.port, home)),
        ]
        show(f"Nothing changed in {folders:,} folders with {each:,} messages each: the listing", in_turn(cases, 3))


@contextmanager
def _server() -> Iterator[tuple[Dovecot, Home]]:
    os.environ["MAIL_PASSWORD"] = PASSWORD
    with tempfile.TemporaryDirectory(prefix="bench-imap-") as name, contextmanager(serving)() as server:
        yield server, Home(Path(name) / "home")


def _write(server: Dovecot, folder: str, messages: Sequence[bytes]) -> int:
    """Add messages to a folder, creating it if necessary. Returns their size in bytes."""
    with server.person() as person:
        if not person.folder_exists(folder):
            person.create_folder(folder)
        person.select_folder(folder)
    root = server.folder / "mail" / USER
    place = (root if folder == "INBOX" else root / f".{folder}") / "cur"
    owner = place.stat()
    for number, data in enumerate(messages):
        file = place / f"1700000000.M{number}.bench,S={len(data)}:2,S"
        file.write_bytes(data)
        os.chown(file, owner.st_uid, owner.st_gid)
    return sum(map(len, messages))


def _case(name: str, server: Dovecot, home: Home, prepare: Callable[[], object] = lambda: None) -> Case:
    given = ["--case", name, "--port", str(server.port), "--home", str(home.path)]
    return Case(name, [sys.executable, "-m", "benchmarks.imap", *given], prepare)


def _forget(home: Home) -> None:
    for file in home.path.glob("*.db*"):
        file.unlink()


def _list_first(port: int, home: Home) -> None:
    if not home.path.exists():
        _list(port, home.path)


# The measured cases


def _bare(port: int, _home: Path) -> dict[str, Any]:
    with _client(port) as client:
        client.select_folder("INBOX", readonly=True)
        uids = client.search()
        parts = 0
        for start in range(0, len(uids), _AT_ONCE):
            for said in client.fetch(uids[start : start + _AT_ONCE], ["BODY.PEEK[]"]).values():
                message = email.message_from_bytes(said[b"BODY[]"], policy=email.policy.default)
                parts += sum(1 for part in message.walk() if not part.is_multipart() and part.get_content())
    return {"messages": len(uids), "parts": parts}


def _statuses(port: int, _home: Path) -> dict[str, Any]:
    with _client(port) as client:
        names = [name for _, _, name in client.list_folders()]
        messages = sum(client.folder_status(name)[b"MESSAGES"] for name in names)
    return {"messages": messages, "questions": len(names) + 1}


def _client(port: int) -> IMAPClient:
    client = IMAPClient("127.0.0.1", port, ssl=False)
    client._imap.debug = 0
    client.login(USER, PASSWORD)
    return client


def _sync(port: int, home: Path) -> dict[str, Any]:
    with _opened(port, home) as opened:
        opened.discover()
        with ThreadPoolExecutor(2) as two:
            list(two.map(_work, [opened, opened]))
        return _told(opened)


def _list(port: int, home: Path) -> dict[str, Any]:
    with _opened(port, home) as opened:
        opened.discover()
        return _told(opened)


@contextmanager
def _opened(port: int, home: Path) -> Iterator[SourceSync]:
    settings = ImapSettings(host="127.0.0.1", port=port, user=USER, security="none", password="env:MAIL_PASSWORD")
    mail = Imap(settings)
    with closing(Ledger.open(Home(home).make().database_url)) as ledger:
        source = ledger.sources.put("mail", mail.kind, settings.priority)
        ledger.consents.give(source.id, set(mail.scopes()), "benchmark", None)
    with open_sync(Home(home), mail, "mail", settings.policy(mail.policy), settings.priority) as opened:
        yield opened


def _work(opened: SourceSync) -> None:
    while (token := opened.claim(_BATCH)) is not None:
        opened.process(token)


def _told(opened: SourceSync) -> dict[str, Any]:
    summary = opened.finish("completed")
    return {
        "messages": summary["listed"],
        "quarantined": summary.get("quarantined", 0),
        "questions": summary["requests"],
    }


_CASES = {"bare loop": _bare, "first sync": _sync, "no change": _sync, "bare statuses": _statuses, "listing": _list}

if __name__ == "__main__":
    main()
