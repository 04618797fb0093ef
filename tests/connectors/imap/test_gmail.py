"""Gmail labels (X-GM-EXT-1): a message shown in several folders is read once.

Dovecot has no labels. A proxy simulates them: keywords become labels, and the time of arrival becomes the message
number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest
from imapclient import IMAPClient

from catchment.settings import Home
from connectors.contract.memory_ledger import MemoryLedger
from connectors.imap import Imap
from tests.connectors.imap.dovecot import Dovecot, message
from tests.connectors.imap.library import documents, full_sync
from tests.connectors.imap.proxy import Exchange, Proxy

pytestmark = pytest.mark.full

ALL = "[Gmail]/All Mail"
_FLAGS = re.compile(rb"FLAGS \(([^)]*)\)")
_ARRIVED = re.compile(rb'INTERNALDATE "([^"]*)"')


def _without_its_questions(exchange: Exchange) -> None:
    exchange.line = exchange.line.replace(b" X-GM-MSGID X-GM-LABELS", b"")


def _with_its_answers(line: bytes) -> bytes:
    if b"[CAPABILITY" in line or line.startswith(b"* CAPABILITY"):
        return line.replace(b" IDLE ", b" IDLE X-GM-EXT-1 ")
    if b" FETCH (" not in line or not (arrived := _ARRIVED.search(line)):
        return line
    number = b"%d" % int.from_bytes(arrived[1][-20:-6].replace(b":", b""), "big")

    def labels(found: re.Match[bytes]) -> bytes:
        words = found[1].split()
        flags = b" ".join(word for word in words if word.startswith(b"\\"))
        shown = b" ".join([b'"\\\\Inbox"', *(word for word in words if not word.startswith(b"\\"))])
        return b"FLAGS (%s) X-GM-MSGID %s X-GM-LABELS (%s)" % (flags, number, shown)

    return _FLAGS.sub(labels, line)


@pytest.fixture
def person(server: Dovecot) -> Iterator[IMAPClient]:
    """A person with five messages, two of them in the inbox and three under the label Work, and one in the trash."""
    with server.person() as person:
        for name in (ALL, "Work", "Trash"):
            person.create_folder(name)
        for number in range(6):
            arrived = datetime(2026, 3, 2, 10, number, tzinfo=UTC)
            person.append(ALL if number < 5 else "Trash", message(number), msg_time=arrived)
        person.select_folder(ALL)
        uids = person.search()
        person.add_flags(uids[2:5], [b"Work", b"2026"])
        person.copy(uids[:2], "INBOX")
        person.copy(uids[2:5], "Work")
        yield person


@pytest.fixture
def gmail(server: Dovecot, account: Callable[..., Imap]) -> Iterator[Callable[..., Imap]]:
    with closing(Proxy(server.port, _without_its_questions, _with_its_answers)) as proxy:
        yield lambda **settings: account(port=proxy.port, **settings)


def folders(ledger: MemoryLedger) -> list[str]:
    return sorted(row.item.container for row in ledger.present().values())


def test_labelled_message_is_read_once_with_its_labels(
    gmail: Callable[..., Imap], person: IMAPClient, ledger: MemoryLedger
) -> None:
    assert "1 of 4 folders, 5 messages in [Gmail]/All Mail" in gmail().probe()
    ledger.sync(gmail())
    assert folders(ledger) == [ALL] * 5
    labels = [row.item.attributes["labels"] for row in ledger.present().values()]
    assert labels == [["\\Inbox"]] * 2 + [["2026", "Work", "\\Inbox"]] * 3
    assert all(row.item.attributes["flags"] == [] for row in ledger.present().values())


def test_new_label_is_recorded_without_reading(
    gmail: Callable[..., Imap], person: IMAPClient, ledger: MemoryLedger
) -> None:
    ledger.sync(gmail())
    person.add_flags(person.search()[:1], [b"Bees"])
    report = ledger.sync(gmail())
    assert [change.item.attributes["labels"] for change in report.item_changes] == [["Bees", "\\Inbox"]]  # type: ignore[union-attr]
    assert report.fetched == set()


def test_named_gmail_folders_are_all_read(gmail: Callable[..., Imap], person: IMAPClient, ledger: MemoryLedger) -> None:
    ledger.sync(gmail(include=["INBOX", "Work", ALL]))
    assert folders(ledger) == ["INBOX"] * 2 + ["Work"] * 3 + [ALL] * 5
    assert len({row.item.identity for row in ledger.present().values()}) == 5, "the same messages under every label"


@pytest.mark.parametrize(("trash", "moved", "left"), [(False, 0, 4), (True, 1, 6)])
def test_message_moved_to_the_trash_is_deleted_or_moved(
    trash: bool, moved: int, left: int, home: Home, gmail: Callable[..., Imap], person: IMAPClient
) -> None:
    mail = gmail(trash=trash)
    full_sync(home, mail)
    person.move(person.search()[:1], "Trash")
    summary = full_sync(home, mail)
    assert (summary["moved"], summary["jobs"], len(documents(home))) == (moved, 0, left)


def test_all_mail_folder_without_labels_is_an_ordinary_folder(
    account: Callable[..., Imap], person: IMAPClient, ledger: MemoryLedger
) -> None:
    ledger.sync(account())
    assert folders(ledger) == ["INBOX"] * 2 + ["Work"] * 3 + [ALL] * 5
    assert not any("labels" in row.item.attributes for row in ledger.present().values())
