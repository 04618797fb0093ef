"""Mail of one period, and mail since a date: before, after and without the rest of the account."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone

import pytest
from imapclient import IMAPClient

from catchment.contracts import Known
from catchment.errors import SourceUnavailable
from catchment.model import Change, Checkpoint, Failure, Item, Root, Upsert
from catchment.settings import Home
from connectors.contract.memory_ledger import MemoryLedger
from connectors.imap import Imap
from tests.connectors.imap.dovecot import Dovecot, message
from tests.connectors.imap.library import documents, full_sync, held
from tests.connectors.imap.proxy import Exchange, Proxy

pytestmark = pytest.mark.full

SPRING = datetime(2024, 3, 1, tzinfo=UTC), datetime(2024, 6, 1, tzinfo=UTC)
FOLDERS = ("INBOX", "Archive", "Lists")


class OfSpring(Imap):
    """The account with a listing of one period only."""

    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:
        return self.changes_between(known, *SPRING)


def arrived(month: int, day: int = 15, hour: int = 12, offset: int = 0) -> datetime:
    return datetime(2024, month, day, hour, tzinfo=timezone(timedelta(hours=offset)))


@pytest.fixture
def person(server: Dovecot) -> Iterator[IMAPClient]:
    """A mail client of an account with six messages of 2024 in each of three folders.

    The message of April is the same in all three, and that of May has a file in the inbox.
    """
    with server.person() as person:
        for number, folder in enumerate(FOLDERS):
            if number:
                person.create_folder(folder)
            for month in range(1, 7):
                files = {"weir.txt": b"gauge\n"} if (number, month) == (0, 5) else None
                name = month if month == 4 else 100 * number + month
                person.append(folder, message(name, files=files), msg_time=arrived(month))
        person.select_folder("INBOX")
        yield person


def upserts(changes: Iterator[Change]) -> list[Item]:
    return [change.item for change in changes if isinstance(change, Upsert)]


def places(home: Home) -> dict[str, int]:
    """Return the number of documents by folder."""
    found = [item.partition(";UIDVALIDITY=")[0] for item in documents(home)]
    return {name: found.count(name) for name in sorted(found)}


def test_window_has_the_items_of_its_period(mail: Imap, person: IMAPClient, ledger: MemoryLedger) -> None:
    changes = list(mail.changes_between(ledger.known(), *SPRING))
    assert isinstance(changes[0], Root)
    assert {type(change) for change in changes[1:]} == {Upsert, Checkpoint}
    assert {len(change.marks) for change in changes if isinstance(change, Checkpoint)} == {0}
    whole = upserts(mail.changes(ledger.known()))
    assert upserts(iter(changes)) == [i for i in whole if i.modified and SPRING[0] <= i.modified < SPRING[1]]
    assert len(whole) == 19


def test_window_ends_at_its_minute_in_every_time_zone(mail: Imap, person: IMAPClient, ledger: MemoryLedger) -> None:
    inside = [arrived(2, 29, 13, -11), arrived(3, 1, 13, 13), arrived(5, 31, 12, -11), arrived(6, 1, 12, 14)]
    outside = [arrived(3, 1, 12, 14), arrived(5, 31, 13, -11), arrived(6, 1, 0)]
    for number, time in enumerate([*inside, *outside]):
        person.append("Lists", message(900 + number), msg_time=time)
    items = upserts(mail.changes_between(ledger.known(), *SPRING))
    assert {f"<{900 + number}@example.org>" for number in range(len(inside))} == {
        name for item in items if (name := str(item.attributes["message_id"])).startswith("<90")
    }


@pytest.mark.parametrize("windows_first", [True, False])
def test_window_and_whole_listing_agree_in_both_orders(
    home: Home, mail: Imap, account: Callable[..., Imap], person: IMAPClient, windows_first: bool
) -> None:
    spring = OfSpring(mail._settings)
    with closing(spring):
        first, second = (spring, mail) if windows_first else (mail, spring)
        assert full_sync(home, first)["succeeded"] == (10 if windows_first else 19)
        before = documents(home)
        assert full_sync(home, second)["succeeded"] == (9 if windows_first else 0)
        assert before.items() <= documents(home).items()
        assert [full_sync(home, each)["jobs"] for each in (spring, mail)] == [0, 0]
    assert (places(home), held(home)) == ({"Archive": 6, "INBOX": 7, "Lists": 6}, [])


def test_mail_that_moved_before_a_window_keeps_its_documents(
    server: Dovecot, home: Home, mail: Imap, person: IMAPClient
) -> None:
    full_sync(home, mail)
    before = documents(home)
    person.move(person.search(), "Archive")
    person.create_folder("New")
    person.select_folder("Lists")
    person.move(person.search()[:5], "New")
    with closing(OfSpring(mail._settings)) as spring:
        assert full_sync(home, spring)["jobs"] == 0
    assert documents(home) == before
    assert full_sync(home, mail)["moved"] == 12
    assert sorted(documents(home).values()) == sorted(before.values())


def test_mail_renumbered_before_a_window_keeps_its_documents(
    server: Dovecot, home: Home, mail: Imap, person: IMAPClient
) -> None:
    full_sync(home, mail)
    before = documents(home)
    person.select_folder("Lists")
    person.delete_messages(person.search()[:1])
    person.expunge()
    person.unselect_folder()
    server.renumber("Lists")
    with closing(OfSpring(mail._settings)) as spring:
        assert full_sync(home, spring)["jobs"] == 0
    assert full_sync(home, mail)["moved"] == 5
    assert sorted(documents(home).values()) == sorted(before.values())
    assert held(home) == [(1, "the root is another one than before")]


def months(ledger: MemoryLedger) -> dict[str, list[int]]:
    """Return the months of the messages by folder."""
    found: dict[str, list[int]] = {}
    for row in ledger.present().values():
        if row.item.modified and row.skipped is None and "PART" not in row.item.locator:
            found.setdefault(row.item.container, []).append(row.item.modified.month)
    return {name: sorted(numbers) for name, numbers in found.items()}


def test_since_leaves_out_older_mail_until_it_is_set_earlier(
    account: Callable[..., Imap], person: IMAPClient, ledger: MemoryLedger
) -> None:
    assert len(ledger.sync(account(since="2024-05-01")).fetched) == 7
    assert ledger.sync(account(since="2024-05-01")).changes[2:] == [Checkpoint()]
    assert ledger.sync(account(since="2024-06-01")).item_changes == []
    assert months(ledger) == {folder: [5, 6] for folder in FOLDERS}
    assert len(ledger.sync(account(since="2024-03-01")).new) == 6
    assert len(ledger.sync(account()).new) == 6
    assert months(ledger) == {folder: [1, 2, 3, 4, 5, 6] for folder in FOLDERS}
    assert ledger.sync(account()).changes[2:] == [Checkpoint()]


def test_interrupted_listings_list_mail_since_the_date(
    account: Callable[..., Imap], person: IMAPClient, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.imap.account_listing._PART", 1)
    person.append("Lists", message(900), msg_time=arrived(1))
    person.append("Lists", message(901), msg_time=arrived(6))
    recent, earlier = account(since="2024-05-01"), account(since="2024-03-01")
    for _ in range(2):
        ledger.sync(recent, cut=4)
    assert list(months(ledger).values()) == [[5, 6]]
    for cut in range(len(list(earlier.changes(ledger.known())))):
        ledger.sync(earlier, cut=cut)
    ledger.sync(earlier)
    assert months(ledger) == {"INBOX": [3, 4, 5, 6], "Archive": [3, 4, 5, 6], "Lists": [3, 4, 5, 6, 6]}


@pytest.mark.parametrize("capability", ["", "IMAP4rev1"])
def test_older_mail_of_a_window_is_kept_and_its_changes_are_noticed(
    account: Callable[..., Imap], person: IMAPClient, ledger: MemoryLedger, capability: str, server: Dovecot
) -> None:
    def without_extensions(line: bytes) -> bytes:
        return line.replace(b"CONDSTORE QRESYNC", b"") if capability else line

    with closing(Proxy(server.port, translate=without_extensions)) as proxy:
        recent = account(port=proxy.port, since="2024-06-01")
        ledger.sync(recent)
        ledger.sync(recent, window=(arrived(1, 1), arrived(3, 1)))
        assert (ledger.sync(recent).item_changes, months(ledger)["Lists"]) == ([], [1, 2, 6])
        person.select_folder("Lists")
        uids = person.search()
        person.add_flags(uids, [b"\\Seen"])
        person.delete_messages([uids[1]])
        person.expunge()
        report = ledger.sync(recent)
        flags = [c.item.attributes["flags"] for c in report.item_changes if isinstance(c, Upsert)]
        assert (len(report.deleted), flags, report.new) == (1, [["\\Seen"]] * 2, set())
        assert months(ledger)["Lists"] == [1, 6]
        person.append("Lists", message(900), msg_time=arrived(1))
        assert len(ledger.sync(recent, deep=True).new) == 1
        ledger.marks.clear()
        assert (ledger.sync(recent).new, months(ledger)["Lists"]) == (set(), [1, 1, 6])


def test_older_mail_is_followed_when_it_moves(
    server: Dovecot, home: Home, account: Callable[..., Imap], mail: Imap, person: IMAPClient
) -> None:
    full_sync(home, account(include=("INBOX", "Archive")))
    before = documents(home)
    recent = account(include=("INBOX", "Archive", "New", "Kept"), since="2024-06-01")
    full_sync(home, recent)
    person.append("Archive", message(800), msg_time=arrived(1))
    person.move(person.search()[:2], "Archive")
    person.create_folder("New")
    person.move(person.search()[:2], "New")
    person.append("New", message(801), msg_time=arrived(1))
    person.rename_folder("Archive", "Kept")
    person.append("Kept", message(802), msg_time=arrived(2))
    assert full_sync(home, recent)["deleted"] == 0
    assert places(home) == {"INBOX": 3, "Kept": 8, "New": 2}
    assert sorted(documents(home).values()) == sorted(before.values())
    person.unselect_folder()
    server.renumber("Kept")
    full_sync(home, recent)
    assert (sorted(documents(home).values()), held(home)) == (sorted(before.values()), [])


def test_folder_renamed_after_a_window_keeps_its_older_mail(
    account: Callable[..., Imap], person: IMAPClient, ledger: MemoryLedger
) -> None:
    recent = account(since="2024-06-01")
    ledger.sync(recent, window=SPRING)
    person.rename_folder("Lists", "Kept")
    ledger.sync(recent)
    assert months(ledger)["Kept"] == [3, 4, 5, 6]


def test_interrupted_window_is_completed_by_the_next(mail: Imap, person: IMAPClient, ledger: MemoryLedger) -> None:
    length = len(list(mail.changes_between(ledger.known(), *SPRING)))
    for cut in range(length):
        ledger.sync(mail, window=SPRING, cut=cut)
        ledger.sync(mail, window=SPRING)
        assert len(ledger.documents()) == 10
        ledger.rows.clear()
    assert ledger.marks == {}


def test_window_is_requested_by_date_and_survives_a_lost_connection(
    server: Dovecot, account: Callable[..., Imap], person: IMAPClient, ledger: MemoryLedger
) -> None:
    searches: list[bytes] = []
    fetches: list[bytes] = []

    def harm(exchange: Exchange) -> None:
        if exchange.command == b"UID SEARCH":
            searches.append(exchange.line)
        if exchange.command == b"UID FETCH":
            fetches.append(exchange.line)
            if len(fetches) in (1, 3):
                exchange.cut()

    with closing(Proxy(server.port, harm)) as proxy:
        ledger.sync(account(port=proxy.port), window=SPRING, fetch=False)
        assert len(ledger.present()) == 10
    assert all(b"SINCE 29-Feb-2024 BEFORE 03-Jun-2024" in line for line in searches)
    assert {line.split()[3].count(b",") for line in fetches} == {2}  # Three messages of each folder.


def test_unreadable_folder_is_a_failing_item_of_the_window(
    server: Dovecot, account: Callable[..., Imap], person: IMAPClient, ledger: MemoryLedger
) -> None:
    def refuse(exchange: Exchange) -> None:
        if exchange.command == b"EXAMINE" and b"Lists" in exchange.line:
            exchange.answer("{tag} NO [NOPERM] not for you")

    with closing(Proxy(server.port, refuse)) as proxy:
        report = ledger.sync(account(port=proxy.port), window=SPRING)
    assert [change.item.locator for change in report.changes if isinstance(change, Failure)] == ["Lists;"]
    assert len(ledger.documents()) == 7
    ledger.sync(account())
    assert (len(ledger.documents()), "Lists;" in ledger.present()) == (19, False)


def test_unreachable_server_stops_the_window(server: Dovecot, mail: Imap, ledger: MemoryLedger) -> None:
    server.stop()
    with pytest.raises(SourceUnavailable):
        list(mail.changes_between(ledger.known(), *SPRING))
