"""Temporary changes in an account leave no trace if a listing during them is interrupted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from imapclient import IMAPClient

from catchment.errors import LedgerUnavailable
from catchment.ledger import IntakeCounts
from catchment.ledger.items.intake import Intake
from catchment.settings import Home
from connectors.imap import Imap
from tests.connectors.imap.dovecot import Dovecot, message
from tests.connectors.imap.library import documents, full_sync
from tests.connectors.interruption import check_no_trace

pytestmark = pytest.mark.full


def rename(old: str, new: str) -> Callable[[IMAPClient], object]:
    return lambda person: person.rename_folder(old, new)


def move_all(old: str, new: str) -> Callable[[IMAPClient], object]:
    def move(person: IMAPClient) -> None:
        person.select_folder(old)
        person.move(person.search(), new)
        person.select_folder("INBOX")  # The server disconnects when the open folder is deleted.

    return move


def flags(what: Callable[..., object]) -> Callable[[IMAPClient], object]:
    def change(person: IMAPClient) -> None:
        person.select_folder("INBOX")
        what(person, person.search(), [b"$Important"])

    return change


MEANWHILE = {
    "messages are marked": (flags(IMAPClient.add_flags), flags(IMAPClient.remove_flags)),
    "a folder has another name": (rename("Lists", "New"), rename("New", "Lists")),
    "a folder is in another one": (rename("Lists", "Archive/Lists"), rename("Archive/Lists", "Lists")),
    "messages are in another folder": (move_all("Lists", "Archive"), move_all("Archive", "Lists")),
    "messages are in a folder that is new": (
        lambda person: [person.create_folder("New"), move_all("Lists", "New")(person)],
        lambda person: [move_all("New", "Lists")(person), person.delete_folder("New")],
    ),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "a folder is not wanted": {"exclude": ("Lists",)},
    "one folder is wanted": {"include": ("INBOX",)},
    "attachments are not wanted": {"attachments": False},
    "the trash is wanted": {"trash": True},
}


@pytest.fixture
def person(server: Dovecot) -> Any:
    with server.person() as person:
        for folder in ("Lists", "Archive", "Trash"):
            person.create_folder(folder)
        for number in range(3):
            person.append("INBOX", message(number, files={"weir.txt": b"gauge\n"} if number == 1 else None))
            person.append("Lists", message(10 + number))
        person.append("Trash", message(20))
        yield person


@pytest.mark.parametrize("what", MEANWHILE)
def test_temporary_changes_leave_no_trace_after_an_interruption(mail: Imap, person: IMAPClient, what: str) -> None:
    begin, undo = MEANWHILE[what]
    check_no_trace(mail, lambda: begin(person), lambda: undo(person))


@pytest.mark.parametrize("what", SETTINGS)
def test_temporary_settings_leave_no_trace_after_an_interruption(
    account: Callable[..., Imap], person: IMAPClient, what: str
) -> None:
    check_no_trace(account(), person.noop, person.noop, account(**SETTINGS[what]))


def test_folder_deselected_during_a_failed_sync_keeps_its_documents(
    home: Home, account: Callable[..., Imap], person: IMAPClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_sync(home, account())
    before = documents(home)
    assert any(item.startswith("Lists;") for item in before)
    record, done = Intake.record, []

    def record_one(intake: Intake, sync: int, changes: Sequence[Any], marks: Any) -> IntakeCounts:
        if changes and done:
            raise LedgerUnavailable("the disk is full")
        done.extend(changes)
        return record(intake, sync, changes, marks)

    with monkeypatch.context() as patch:
        patch.setattr("catchment.sync.discovery._FLUSH", 1)
        patch.setattr(Intake, "record", record_one)
        with pytest.raises(LedgerUnavailable):
            full_sync(home, account(exclude=("Lists",)))
    full_sync(home, account())
    assert documents(home) == before
