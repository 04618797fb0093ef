"""Backfills of old mail beside kills, lost connections, renumbered folders and other syncs: each message is read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from catchment.errors import RateLimited, SourceUnavailable
from catchment.ledger import BackfillState
from catchment.model import JobState
from catchment.pacing.operator_rules import Rule
from catchment.settings import Home
from catchment.sync.preflight import Permit
from connectors.imap import Imap
from connectors.imap.settings import ImapSettings
from tests.connectors.backfilling import NAME, Backfilling
from tests.connectors.imap.dovecot import USER, Dovecot, message
from tests.connectors.imap.proxy import Exchange, Proxy
from tests.ledger.world import TIMEOUT

pytestmark = pytest.mark.full

OLDEST, OLD, NEW = (datetime(year, 5, 1, tzinfo=UTC) for year in (2021, 2023, 2025))
YEAR = datetime(2023, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)
OF_YEAR = 8
"""Messages and files of the year."""


@dataclass
class Mail:
    """An account with a library of its two recent messages. `harm` is done to each command while it is set."""

    server: Dovecot
    proxy: Proxy
    home: Home
    scratch: Path
    harm: Callable[[Exchange], None] | None = None

    def since(self, date: str | None) -> Backfilling:
        settings = {"host": "127.0.0.1", "user": USER, "security": "none", "password": "env:MAIL_PASSWORD"}
        given = ImapSettings(port=self.proxy.port, since=date, **settings)  # type: ignore[arg-type]
        return Backfilling(self.home, lambda: Imap(given), self.scratch)


@pytest.fixture
def account(server: Dovecot, home: Home, tmp_path: Path) -> Iterator[Mail]:
    with server.person() as person:
        person.create_folder("Archive")
        for n in range(7):
            files = {"weir.txt": b"gauge\n"} if n == 5 else None
            person.append("INBOX" if n < 4 else "Archive", message(n, files=files), msg_time=OLD)
        for n in (7, 8):
            person.append("INBOX", message(n), msg_time=NEW)
        person.append("INBOX", message(9), msg_time=OLDEST)
    with closing(Proxy(server.port, lambda exchange: made.harm(exchange) if made.harm else None)) as proxy:
        made = Mail(server, proxy, home, tmp_path)
        yield made


@pytest.fixture
def mail(account: Mail) -> Backfilling:
    """The account with mail since 2025."""
    mail = account.since("2025-01-01")
    mail.agree()
    assert mail.sync() is None
    assert len(mail.documents()) == 2
    return mail


def check_read(mail: Backfilling, number: int, before: dict[str, int], about: object = "") -> None:
    """Check that the library has the messages of the year once each, and no others."""
    after = mail.documents()
    assert (len(after), before.items() <= after.items()) == (2 + OF_YEAR, True), about
    found = mail.get(number)
    assert (found.state, found.left, found.done) == (BackfillState.DONE, 0, found.total), (about, found)
    assert found.jobs[JobState.SUCCEEDED] == OF_YEAR, (about, found)


def check_undone(mail: Backfilling, number: int, before: dict[str, int], about: object = "") -> None:
    """Check that an undo takes out exactly the year, and that no sync brings it back."""
    mail.undo(number)
    assert mail.documents() == before, about
    assert mail.sync() is None
    assert mail.documents() == before, about


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
def test_backfill_killed_at_any_moment_reads_its_period_once(mail: Backfilling, every: bool) -> None:
    before, number = mail.documents(), mail.start(*YEAR)
    for point in mail.each_kill(lambda: mail.sync(number), every=every):
        mail.finish()
        check_read(mail, number, before, point)
        check_undone(mail, number, before, point)


def cut(exchange: Exchange) -> None:
    exchange.cut()


def answered(text: str) -> Callable[[Exchange], None]:
    return lambda exchange: exchange.answer(f"{{tag}} {text}")


@pytest.mark.parametrize(
    "harm",
    [cut, answered("NO [LIMIT] slow down"), answered("NO [UNAVAILABLE] later"), answered("BAD what")],
    ids=["cut", "limit", "unavailable", "bad"],
)
@pytest.mark.parametrize("at", [7, *(pytest.param(n, marks=pytest.mark.long) for n in (4, 5, 6, 8, 9, 10, 11, 12))])
def test_backfill_reads_its_period_after_failing_commands(
    account: Mail, mail: Backfilling, harm: Callable[[Exchange], None], at: int
) -> None:
    before, number = mail.documents(), mail.start(*YEAR)
    begin = len(account.proxy.commands)
    account.harm = lambda exchange: harm(exchange) if begin + at <= exchange.number < begin + at + 3 else None
    assert isinstance(mail.sync(number), RateLimited | SourceUnavailable | None)
    account.harm, mail.ahead = None, timedelta(hours=2)
    mail.finish()
    check_read(mail, number, before)
    check_undone(mail, number, before)


def test_folder_refused_for_a_while_is_read_by_the_same_backfill(account: Mail, mail: Backfilling) -> None:
    def refuse(exchange: Exchange) -> None:
        if exchange.command == b"EXAMINE" and b"Archive" in exchange.line:
            exchange.answer("{tag} NO [NOPERM] not for you")

    before, number = mail.documents(), mail.start(*YEAR)
    account.harm = refuse
    assert mail.sync(number) is None
    found = mail.get(number)
    assert (found.state, found.is_listed, len(mail.documents())) == (BackfillState.RUNNING, False, 2 + 4)
    account.harm = None
    mail.finish()
    check_read(mail, number, before)
    check_undone(mail, number, before)


@pytest.mark.parametrize("retries", ["ordinary", "own"])
def test_undo_takes_out_messages_that_failed_at_first(account: Mail, mail: Backfilling, retries: str) -> None:
    before, number = mail.documents(), mail.start(*YEAR)
    with mail.opened(number) as opened:
        opened.discover()
    with mail.ledger() as ledger:
        sync = ledger.syncs.begin(
            ledger.sources.get(NAME).id, run=None, owner="w", code_version="1", alive=lambda _: False, backfill=number
        )
        batch = ledger.queue.claim(sync.source_id, 3, owner="w", sync_id=sync.id, backfill=number)
        for job in batch.jobs:
            ledger.queue.fail(batch.token, job.id, TIMEOUT, retry_at=ledger.now())
        ledger.syncs.end(sync.id, "completed", {})
    mail.finish(ordinary=retries == "ordinary")
    check_read(mail, number, before)
    check_undone(mail, number, before)


@pytest.mark.parametrize("batches", [0, 1])
def test_folders_renumbered_during_a_backfill_keep_their_documents(
    account: Mail, mail: Backfilling, batches: int
) -> None:
    before, number = mail.documents(), mail.start(*YEAR)
    assert mail.sync(number, batches=batches) is None
    read = set(mail.documents().values())
    for folder in ("INBOX", "Archive"):
        account.server.renumber(folder)
    assert mail.sync(number, batches=1) is None
    mail.finish()
    after = mail.documents()
    assert (len(after), read | set(before.values()) <= set(after.values())) == (2 + OF_YEAR, True)
    with mail.ledger() as ledger:
        assert (ledger.intake.holds(), ledger.quarantine.list()) == ([], [])
    check_renumbered_and_undone(account, mail, number, before)


def check_renumbered_and_undone(account: Mail, mail: Backfilling, number: int, before: dict[str, int]) -> None:
    """Renumber the folders twice, before and after an undo, which takes out exactly the year."""
    for _ in range(2):
        for folder in ("INBOX", "Archive"):
            account.server.renumber(folder)
        assert mail.sync() is None
        mail.undo(number)
        assert set(mail.documents().values()) == set(before.values())


@pytest.mark.parametrize("at", [1, 2])
def test_folders_renumbered_while_a_backfill_lists_them_are_read_once(
    account: Mail, mail: Backfilling, at: int
) -> None:
    fetches: list[bytes] = []

    def renumber(exchange: Exchange) -> None:
        if exchange.command == b"UID FETCH":
            fetches.append(exchange.line)
            if len(fetches) == at:
                for folder in ("INBOX", "Archive"):
                    account.server.renumber(folder)

    before, number = mail.documents(), mail.start(*YEAR)
    account.harm = renumber
    mail.sync(number)
    account.harm, mail.ahead = None, timedelta(hours=2)
    mail.finish()
    after = mail.documents()
    assert (len(after), set(before.values()) <= set(after.values())) == (2 + OF_YEAR, True)
    check_renumbered_and_undone(account, mail, number, before)


def test_backfill_whose_consent_ended_is_listed_again(mail: Backfilling, monkeypatch: pytest.MonkeyPatch) -> None:
    holds, calls = Permit.holds, list[Permit]()

    def withdrawn_in_the_middle(permit: Permit) -> bool:
        calls.append(permit)
        if len(calls) == 4:
            with mail.ledger() as ledger:
                ledger.consents.withdraw(permit.source_id, ["messages"], "operator:ada")
        return holds(permit)

    number = mail.start(*YEAR)
    with monkeypatch.context() as patched:
        patched.setattr(Permit, "holds", withdrawn_in_the_middle)
        mail.sync(number)
    found = mail.get(number)
    assert (found.state, found.is_listed) == (BackfillState.RUNNING, False)


def test_messages_that_the_source_wants_itself_wait_for_no_backfill(account: Mail, mail: Backfilling) -> None:
    number = mail.start(*YEAR)
    assert mail.sync(number, batches=1) is None
    with mail.ledger() as ledger:
        ledger.backfills.pause(number, "operator:ada")
    whole = account.since(None)
    assert whole.sync() is None
    assert len(whole.documents()) == 2 + OF_YEAR + 1
    with mail.ledger() as ledger:
        assert ledger.backfills.get(number).state is BackfillState.DONE
        assert ledger.backfills.get(number).total == 2


def test_backfill_continues_when_it_can_and_not_before(account: Mail, mail: Backfilling) -> None:
    def refuse(exchange: Exchange) -> None:
        if exchange.command == b"EXAMINE" and b"Archive" in exchange.line:
            exchange.answer("{tag} NO [NOPERM] not for you")

    def next_after(number: int | None) -> timedelta | None:
        """Return how long after a sync the backfill continues."""
        with mail.opened(number) as opened:
            opened.discover()
            while (token := opened.claim(2)) is not None:
                opened.process(token)
            found = opened.backfill_to_continue()
            opened.finish("completed")
        with mail.ledger() as ledger:
            return None if found is None else found[1] - ledger.now()

    number = mail.start(*YEAR)
    account.harm = refuse
    assert next_after(number) is None, "the folder is asked again after the next ordinary sync"
    assert (after := next_after(None)) is not None and after <= timedelta(0)
    account.harm = None
    with mail.ledger() as ledger:
        ledger.throttles.put(f"source:{NAME}", Rule(per_hour=1), "operator:ada", "gently")
    assert (after := next_after(number)) is not None and timedelta(minutes=50) < after < timedelta(minutes=61)
    with mail.ledger() as ledger:
        ledger.throttles.put(f"source:{NAME}", Rule(), "operator:ada", "again")
    assert next_after(number) is None


@pytest.mark.parametrize("jump", [timedelta(days=-1), timedelta(hours=1)])
@pytest.mark.parametrize("batches", [0, 2])
def test_clock_set_during_a_backfill_changes_nothing_that_it_reads(
    mail: Backfilling, jump: timedelta, batches: int
) -> None:
    before, number = mail.documents(), mail.start(*YEAR)
    assert mail.sync(number, batches=batches) is None
    mail.wrong = jump
    with mail.ledger() as ledger:
        ledger.backfills.pause(number, "operator:ada")
    assert mail.sync() is None
    with mail.ledger() as ledger:
        ledger.undo.purge(1 << 30)
        ledger.backfills.resume(number, "operator:ada")
    mail.wrong = timedelta(0)
    mail.finish()
    check_read(mail, number, before)
    check_undone(mail, number, before)


def test_clock_set_while_a_host_is_awaited_prolongs_no_backfill(account: Mail, mail: Backfilling) -> None:
    before, number = mail.documents(), mail.start(*YEAR)
    limit = answered("NO [LIMIT] slow down")
    account.harm = lambda exchange: limit(exchange) if exchange.command == b"UID FETCH" else None
    assert isinstance(mail.sync(number), RateLimited)
    account.harm = None
    mail.wrong = timedelta(days=-1)
    mail.ahead = timedelta(hours=2)
    mail.finish()
    check_read(mail, number, before)
