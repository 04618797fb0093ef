"""`python -m benchmarks.imap [COUNT]`: a first sync of mail and one without changes beside a bare loop; with root and Dovecot.

The bare loop asks IMAPClient for every message and has `email` parse it. A line for each tells processor time and memory.
"""

from __future__ import annotations

import argparse
import email
import email.policy
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from imapclient import IMAPClient

from benchmarks.mail import corpus
from catchment.pipeline import SourceSync, open_sync
from catchment.settings import Home
from connectors.imap import Imap
from connectors.imap.settings import ImapSettings
from tests.connectors.imap.dovecot import PASSWORD, USER, Dovecot, serving

_BATCH = 1_000


def main() -> None:
    """Fill a server, then measure each case in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.imap", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=10_000, help="messages in one folder")
    parser.add_argument("--folders", type=int, default=100, help="empty folders besides")
    parser.add_argument("--case", choices=_CASES, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        print(json.dumps(_CASES[given.case](given.port, given.home)))
        return
    with tempfile.TemporaryDirectory(prefix="bench-imap-") as name:
        for server in serving():
            _fill(server, given.count, given.folders)
            for case in _CASES:
                _measure(case, server, Path(name) / "home")


def _fill(server: Dovecot, count: int, folders: int) -> None:
    with server.person() as person:
        for number in range(folders):
            person.create_folder(f"Folder {number}")
    place = server.folder / "mail" / USER / "cur"
    owner = place.stat()
    size = 0
    for number, data in enumerate(corpus(count)):
        file = place / f"1700000000.M{number}.bench:2,S"
        file.write_bytes(data)
        os.chown(file, owner.st_uid, owner.st_gid)
        size += len(data)
    print(f"{count} messages, {size / 1e6:.0f} MB, and {folders} empty folders")


def _measure(case: str, server: Dovecot, home: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.imap", "--case", case, "--port", str(server.port), "--home", str(home)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "MAIL_PASSWORD": PASSWORD}
    )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    said = json.loads(done.stdout.splitlines()[-1])
    rate = said["items"] / wall if said["items"] else 0
    print(f"{case:12}{wall:8.1f} s wall {cpu:8.1f} s cpu {said['peak_mb']:7.0f} MB {rate:7.0f} items/s  {said}")


def _bare(port: int, _home: Path) -> dict[str, Any]:
    with IMAPClient("127.0.0.1", port, ssl=False) as client:
        client.login(USER, PASSWORD)
        client._imap.debug = 0
        client.select_folder("INBOX", readonly=True)
        uids = client.search()
        parts = 0
        for start in range(0, len(uids), 50):
            for said in client.fetch(uids[start : start + 50], ["BODY.PEEK[]"]).values():
                message = email.message_from_bytes(said[b"BODY[]"], policy=email.policy.default)
                parts += sum(1 for part in message.walk() if not part.is_multipart() and part.get_content())
    return {"items": len(uids), "parts": parts, "peak_mb": _peak()}


def _sync(port: int, home: Path) -> dict[str, Any]:
    settings = ImapSettings(host="127.0.0.1", port=port, user=USER, security="none", password="env:MAIL_PASSWORD")
    mail = Imap(settings)
    with open_sync(Home(home), mail, "mail", settings.policy(mail.policy), settings.priority) as opened:
        began = time.perf_counter()
        opened.discover()
        discovered = time.perf_counter() - began
        with ThreadPoolExecutor(2) as two:
            list(two.map(_work, [opened, opened]))
        summary = opened.end()
    told = {name: summary[name] for name in ("jobs", "succeeded", "requests", "quarantined") if name in summary}
    return {"items": summary["jobs"], "discover_s": round(discovered, 2), **told, "peak_mb": _peak()}


def _work(opened: SourceSync) -> None:
    while (token := opened.claim(_BATCH)) is not None:
        opened.deliver(token)


def _peak() -> float:
    """The most memory that this process had, in MB; what rusage tells begins with that of the parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


_CASES = {"bare loop": _bare, "first sync": _sync, "no change": _sync}

if __name__ == "__main__":
    main()
