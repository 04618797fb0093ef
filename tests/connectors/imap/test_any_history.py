"""Random changes of an account between listings, periods and interruptions: no message is lost, kept too long or missing."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from imapclient import IMAPClient

from connectors.contract.memory_ledger import MemoryLedger
from connectors.imap import Imap
from tests.connectors.imap.dovecot import Dovecot, message

FOLDERS = ("INBOX", "A", "B", "C", "D", "E")
STEPS = (
    "append",
    "move",
    "copy",
    "delete",
    "flag",
    "rename",
    "new folder",
    "renumber",
    "period",
    "cut",
    "since",
    "none",
)

Place = tuple[str, str]


class RandomAccount:
    """An account that changes at random; `since` is the present setting of its source."""

    def __init__(self, server: Dovecot, lot: random.Random) -> None:
        self.server = server
        self.lot = lot
        self.since = "2024-06-01"
        self.count = 0

    def append(self, person: IMAPClient, folder: str) -> None:
        self.count += 1
        person.append(folder, message(self.count), msg_time=self.time())

    def time(self) -> datetime:
        return datetime(2024, self.lot.randint(1, 12), self.lot.randint(1, 28), 12, tzinfo=UTC)

    def change(self, step: str) -> None:
        """Make one change; none if the step does not fit the account."""
        lot = self.lot
        with self.server.person() as person:
            existing = [name for _, _, name in person.list_folders()]
            folder, other = lot.choice(existing), lot.choice(existing)
            missing = [name for name in FOLDERS if name not in existing]
            person.select_folder(folder)
            uids = [uid for uid in person.search() if lot.random() < 0.4]
            match step:
                case "append":
                    self.append(person, folder)
                case "move" if uids and other != folder:
                    person.move(uids, other)
                case "copy" if uids and other != folder:
                    person.copy(uids[:2], other)
                case "delete" if uids:
                    person.delete_messages(uids[:1])
                    person.expunge()
                case "flag" if uids:
                    person.add_flags(uids, [b"\\Seen"])
                case "rename" if missing and folder != "INBOX":
                    person.unselect_folder()
                    person.rename_folder(folder, missing[0])
                case "new folder" if missing:
                    person.create_folder(missing[0])
                    if uids:
                        person.move(uids, missing[0])
                case "renumber":
                    person.unselect_folder()
                    self.server.renumber(folder)

    def places(self) -> dict[Place, str]:
        """Return the day of arrival of each message and folder."""
        found = {}
        with self.server.person() as person:
            for _, _, name in person.list_folders():
                person.select_folder(name, readonly=True)
                uids = person.search()
                for data in (person.fetch(uids, ["ENVELOPE", "INTERNALDATE"]) if uids else {}).values():
                    found[data[b"ENVELOPE"].message_id.decode(), name] = f"{data[b'INTERNALDATE']:%Y-%m-%d}"
        return found


def known(ledger: MemoryLedger) -> set[Place]:
    return {(str(row.item.attributes["message_id"]), row.item.container) for row in ledger.present().values()}


@pytest.mark.parametrize(
    "seed",
    [*(pytest.param(seed, marks=pytest.mark.full) for seed in range(3)), pytest.param(3, marks=pytest.mark.soak)],
)
def test_random_histories_lose_and_invent_no_mail(
    server: Dovecot, account: Callable[..., Imap], ledger: MemoryLedger, seed: int
) -> None:
    lot = random.Random(seed)
    history = RandomAccount(server, lot)
    with server.person() as person:
        for folder in FOLDERS[1:4]:
            person.create_folder(folder)
        for _ in range(14):
            history.append(person, lot.choice(FOLDERS[:4]))
    for _ in range(14 if seed < 3 else 100):
        step = lot.choice(STEPS)
        history.change(step)
        if step == "since":
            history.since = lot.choice(("2024-03-01", "2024-06-01", "2024-09-01"))
        mail = account(since=history.since)
        before = known(ledger)
        if step == "cut":
            ledger.sync(mail, cut=lot.randrange(1, 10))
            continue
        if step == "period":
            start = history.time()
            ledger.sync(mail, window=(start, start + timedelta(days=lot.randrange(20, 120))))
        if lot.random() < 0.5:
            continue
        ledger.sync(mail, deep=lot.random() < 0.2)
        places = history.places()
        assert known(ledger) <= places.keys()
        assert known(ledger) >= {place for place, day in places.items() if day >= history.since}
        existing = {name for name, _ in places}
        assert {name for name, _ in before} & existing <= {name for name, _ in known(ledger)}
        assert ledger.sync(mail).item_changes == []
    ledger.sync(account())
    assert known(ledger) == history.places().keys()
