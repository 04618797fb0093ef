"""Deleted, moved, copied and flagged messages; renamed, deleted and renumbered folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing

import pytest
from imapclient import IMAPClient

from catchment.ledger import Ledger
from catchment.model import Checkpoint, Root
from catchment.pacing import Pace, Transfer
from catchment.settings import Home
from connectors.contract.memory_ledger import MemoryLedger
from connectors.imap import Imap
from tests.connectors.imap.dovecot import Dovecot, message, serving
from tests.connectors.imap.library import documents, full_sync, held
from tests.connectors.imap.proxy import Proxy
from tests.documents import raw_contents

pytestmark = pytest.mark.full

COUNT = 30


@pytest.fixture
def person(server: Dovecot) -> Iterator[IMAPClient]:
    """A mail client; the inbox has thirty messages, one with an attachment."""
    with server.person() as person:
        for number in range(COUNT):
            person.append("INBOX", message(number, files={"weir.txt": b"gauge\n"} if number == 7 else None))
        person.select_folder("INBOX")
        yield person


def folders(home: Home) -> dict[str, int]:
    """Return the number of documents by folder."""
    found = [item.partition(";UIDVALIDITY=")[0] for item in documents(home)]
    return {name: found.count(name) for name in found}


def test_deleted_messages_and_their_attachments_are_removed(home: Home, mail: Imap, person: IMAPClient) -> None:
    full_sync(home, mail)
    before = documents(home)
    uids = person.search()
    person.delete_messages([uids[3], uids[7]])
    person.expunge()
    summary = full_sync(home, mail)
    assert (summary["deleted"], summary["jobs"]) == (3, 0)
    assert len(documents(home)) == len(before) - 3 == COUNT - 2
    assert documents(home).items() <= before.items()


def test_changed_flags_are_recorded_without_reading(mail: Imap, person: IMAPClient, ledger: MemoryLedger) -> None:
    ledger.sync(mail)
    uid = person.search()[5]
    person.add_flags([uid], [b"\\Seen", b"$Important"])
    report = ledger.sync(mail)
    assert [change.item.attributes["flags"] for change in report.item_changes] == [["$Important", "\\Seen"]]  # type: ignore[union-attr]
    assert report.fetched == set()


def test_moved_message_keeps_its_document(home: Home, mail: Imap, person: IMAPClient) -> None:
    full_sync(home, mail)
    before = documents(home)
    person.create_folder("Archive/2026")
    person.move([person.search()[7]], "Archive/2026")
    summary = full_sync(home, mail)
    assert (summary["moved"], summary["jobs"], summary["deleted"]) == (2, 0, 0)
    after = documents(home)
    assert sorted(after.values()) == sorted(before.values())
    assert folders(home) == {"INBOX": COUNT - 1, "Archive/2026": 2}


def test_raw_content_of_a_moved_message_is_kept(home: Home, mail: Imap, person: IMAPClient) -> None:
    full_sync(home, mail)
    person.create_folder("Archive")
    uid = person.search()[0]
    data = person.fetch(uid, "BODY.PEEK[]")[uid][b"BODY[]"]
    person.move([uid], "Archive")
    full_sync(home, mail)
    kept = raw_contents(home)
    assert kept.keys() == documents(home).keys()
    assert b"" not in kept.values()
    assert data in [content for locator, content in kept.items() if locator.startswith("Archive")]


def test_copied_message_is_another_document(home: Home, mail: Imap, person: IMAPClient) -> None:
    full_sync(home, mail)
    person.create_folder("Kept")
    person.copy([person.search()[0]], "Kept")
    summary = full_sync(home, mail)
    assert summary["succeeded"] == 1
    assert folders(home) == {"INBOX": COUNT + 1, "Kept": 1}


def test_renamed_mail_folder_keeps_its_documents(home: Home, mail: Imap, person: IMAPClient) -> None:
    person.create_folder("Работа")
    person.move(person.search()[:20], "Работа")
    full_sync(home, mail)
    before = documents(home)
    person.rename_folder("Работа", "Arbeit/2026")
    summary = full_sync(home, mail)
    assert (summary["moved"], summary["jobs"], summary["deleted"]) == (21, 0, 0)
    assert sorted(documents(home).values()) == sorted(before.values())
    assert held(home) == []


def test_deleting_a_large_folder_is_held_for_confirmation(home: Home, mail: Imap, person: IMAPClient) -> None:
    person.create_folder("Old")
    person.move(person.search()[:20], "Old")
    full_sync(home, mail)
    person.delete_folder("Old")
    assert full_sync(home, mail)["deleted"] == 0
    assert held(home) == [(21, "21 of 31 items are gone")]


def test_folder_that_becomes_a_mere_parent_is_not_a_failure(home: Home, mail: Imap, person: IMAPClient) -> None:
    person.create_folder("Projects")
    person.create_folder("Projects/Weir")
    person.append("Projects", message(90))
    person.append("Projects/Weir", message(91))
    full_sync(home, mail)
    person.delete_folder("Projects")
    assert (full_sync(home, mail)["deleted"], held(home)) == (1, [])
    assert folders(home) == {"INBOX": COUNT + 1, "Projects/Weir": 1}


def test_renumbered_messages_keep_their_documents(server: Dovecot, home: Home, mail: Imap, person: IMAPClient) -> None:
    full_sync(home, mail)
    before = documents(home)
    person.unselect_folder()
    server.renumber("INBOX")
    summary = full_sync(home, mail)
    after = documents(home)
    assert not set(before) & set(after)
    assert sorted(after.values()) == sorted(before.values())
    assert (summary["moved"], summary["jobs"], summary["deleted"]) == (COUNT + 1, 0, 0)
    assert held(home) == []
    assert full_sync(home, mail)["listed"] == 0


def test_any_deletion_after_renumbering_is_held(server: Dovecot, home: Home, mail: Imap, person: IMAPClient) -> None:
    full_sync(home, mail)
    person.delete_messages([person.search()[0]])
    person.expunge()
    person.unselect_folder()
    server.renumber("INBOX")
    assert full_sync(home, mail)["deleted"] == 0
    assert held(home) == [(1, "the root is another one than before")]
    assert full_sync(home, mail)["deleted"] == 0
    ledger = Ledger.open(home.database_url)
    ledger.intake.apply_hold(ledger.sources.get("mail").id, "ada", "thrown away")
    ledger.close()
    assert len(documents(home)) == COUNT
    with server.person() as again:
        again.select_folder("INBOX")
        again.delete_messages([again.search()[0]])
        again.expunge()
    assert full_sync(home, mail)["deleted"] == 1


def test_dropped_hold_is_evaluated_again(server: Dovecot, home: Home, mail: Imap, person: IMAPClient) -> None:
    full_sync(home, mail)
    before = documents(home)
    person.create_folder("Kept")
    person.copy(person.search()[:20], "Kept")
    person.delete_messages(person.search()[:20])
    person.expunge()
    full_sync(home, mail)
    assert sorted(documents(home).values()) == sorted(before.values())
    person.delete_folder("Kept")
    full_sync(home, mail)
    assert held(home) == [(21, "21 of 31 items are gone")]
    ledger = Ledger.open(home.database_url)
    ledger.intake.drop_hold(ledger.sources.get("mail").id, "ada", "look again")
    ledger.close()
    assert full_sync(home, mail)["jobs"] == 0
    assert held(home) == [(21, "21 of 31 items are gone")]


def test_deselected_folder_is_skipped_and_returns_when_selected(
    account: Callable[..., Imap], person: IMAPClient, ledger: MemoryLedger
) -> None:
    ledger.sync(account())
    assert len(ledger.sync(account(exclude=["INBOX"])).skipped) == COUNT + 1
    assert ledger.sync(account(exclude=["INBOX"])).item_changes == []
    assert len(ledger.sync(account()).fetched) == COUNT + 1
    assert len(ledger.documents()) == COUNT + 1


def test_interrupted_first_listing_resumes(
    mail: Imap, person: IMAPClient, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.imap.account_listing._PART", 10)
    ledger.sync(mail, cut=15)
    uids = person.search()
    person.add_flags([uids[2], uids[15]], [b"\\Flagged"])
    person.delete_messages([uids[4], uids[20]])
    person.expunge()
    report = ledger.sync(mail)
    fresh = MemoryLedger()
    fresh.sync(mail)
    assert len(report.new) < COUNT - 5
    assert ledger.documents() == fresh.documents()
    assert {locator: row.item for locator, row in ledger.present().items()} == {
        locator: row.item for locator, row in fresh.present().items()
    }
    assert ledger.marks == fresh.marks


def test_deletion_after_an_interrupted_deep_listing_is_detected(
    mail: Imap, person: IMAPClient, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.imap.account_listing._PART", 8)
    ledger.sync(mail)
    ledger.sync(mail, deep=True, cut=14)
    assert ledger.marks["folder INBOX"].endswith(";-1;0"), "the first messages were listed again, the last were not"
    person.delete_messages([person.search()[-1]])
    person.expunge()
    ledger.sync(mail)
    assert len(ledger.documents()) == COUNT


def test_messages_without_message_id_are_distinguished(home: Home, mail: Imap, server: Dovecot) -> None:
    with server.person() as person:
        for number in range(3):
            lines = message(number).split(b"\r\n")
            person.append("INBOX", b"\r\n".join(line for line in lines if not line.startswith(b"Message-ID")))
        full_sync(home, mail)
        assert len(documents(home)) == 3
        before = documents(home)
        person.select_folder("INBOX")
        person.create_folder("Kept")
        person.move(person.search(), "Kept")
        full_sync(home, mail)
    assert sorted(documents(home).values()) == sorted(before.values())


def test_messages_with_equal_message_ids_are_separate_documents(home: Home, mail: Imap, server: Dovecot) -> None:
    with server.person() as person:
        person.append("INBOX", message(1))
        person.append("INBOX", message(1, text="Another text under the same name.\n"))
        person.append("INBOX", message(1))
    full_sync(home, mail)
    assert len(documents(home)) == 3


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        ("", [b"LIST"]),
        ("{tag} BAD Unknown argument", [b"LIST", b"LIST", *[b"STATUS"] * 4]),
        ("* STATUS INBOX (MESSAGES\r\n{tag} OK Listed", [b"LIST", b"LIST", *[b"STATUS"] * 4]),
    ],
)
def test_unchanged_account_costs_one_request_or_one_per_folder(
    answer: str, asked: list[bytes], account: Callable[..., Imap], server: Dovecot, person: IMAPClient
) -> None:
    for number in range(3):
        person.create_folder(f"Folder {number}")
    ledger = MemoryLedger()
    ledger.sync(account())
    known = ledger.known()
    with closing(Proxy(server.port)) as proxy:
        if answer:
            proxy.harm = lambda exchange: exchange.answer(answer) if b" RETURN " in exchange.line else None
        changes = list(account(port=proxy.port).changes(known))
        assert proxy.commands[proxy.commands.index(b"LIST") :] == asked
    assert {type(change) for change in changes} == {Root, Checkpoint}
    assert known.asked == [], "known items are not read"


LIMITED_CAPABILITIES = {
    "without QRESYNC": "IMAP4rev1 LITERAL+ ENABLE CONDSTORE UNSELECT IDLE UIDPLUS MOVE SPECIAL-USE",
    "without CONDSTORE": "IMAP4rev1 LITERAL+ UIDPLUS MOVE",
}


@pytest.fixture(scope="module", params=LIMITED_CAPABILITIES)
def limited_server(request: pytest.FixtureRequest) -> Iterator[Dovecot]:
    """A server that announces fewer capabilities."""
    yield from serving(LIMITED_CAPABILITIES[request.param])


def test_server_with_fewer_extensions_gives_the_same_result(
    limited_server: Dovecot, account: Callable[..., Imap], ledger: MemoryLedger
) -> None:
    limited_server.clear()
    mail = account(port=limited_server.port)
    with limited_server.person() as person:
        for number in range(20):
            person.append("INBOX", message(number, files={"weir.txt": b"gauge\n"} if number == 7 else None))
        ledger.sync(mail)
        assert ledger.sync(mail).item_changes == []
        person.select_folder("INBOX")
        uids = person.search()
        person.add_flags([uids[2]], [b"\\Seen"])
        person.delete_messages([uids[7]])
        person.expunge()
        person.append("INBOX", message(50))
    report = ledger.sync(mail)
    assert (len(report.new), len(report.deleted)) == (1, 2)
    fresh = MemoryLedger()
    fresh.sync(mail)
    assert {locator: row.item for locator, row in ledger.present().items()} == {
        locator: row.item for locator, row in fresh.present().items()
    }
    assert ledger.documents() == fresh.documents()
    assert ledger.sync(mail).item_changes == []


def test_status_commands_are_pipelined_without_extensions(
    limited_server: Dovecot, account: Callable[..., Imap], ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.imap.account_listing._AT_ONCE", 3)
    limited_server.clear()
    with limited_server.person() as person:
        for number in range(4):
            person.create_folder(f"Folder {number}")
        for number in (1, 3):
            person.append(f"Folder {number}", message(number))
    ledger.sync(account(port=limited_server.port))
    assert len(ledger.documents()) == 2
    asked: list[int] = []
    mail = account(port=limited_server.port)
    mail.pace = Counted(asked)
    assert ledger.sync(mail).item_changes == []
    assert asked == [1, 3, 2], "the folder list, then the folders in two parts; each folder counts"


class Counted(Pace):
    """Records the cost of transfers."""

    def __init__(self, costs: list[int]) -> None:
        self._costs = costs

    def transfer(self, cost: int = 1) -> AbstractContextManager[Transfer]:
        self._costs.append(cost)
        return super().transfer(cost)
