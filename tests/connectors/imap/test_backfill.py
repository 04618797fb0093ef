"""An old period of mail is fetched once, and read again without the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest
from imapclient import IMAPClient
from sqlalchemy import text

from catchment.content.parsing import CODE
from catchment.ledger import BackfillSelection, BackfillState, Ledger
from catchment.model import ReplayStage
from catchment.settings import Home, Policy
from catchment.sync.kept_raw import raw_store, readable
from catchment.sync.source_sync import SourceSync, open_sync
from connectors.imap import Imap
from tests.connectors.imap.dovecot import Dovecot, message
from tests.connectors.imap.library import documents, full_sync, work

pytestmark = pytest.mark.full

OLD, NEW = datetime(2023, 5, 1, tzinfo=UTC), datetime(2025, 5, 1, tzinfo=UTC)
YEAR = BackfillSelection(ReplayStage.FETCH, datetime(2023, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC))


@pytest.fixture
def recent(server: Dovecot, account: Callable[..., Imap]) -> Iterator[Imap]:
    """An account with five old messages and three recent ones, of which it lists the recent ones."""
    with server.person() as person:
        fill(person)
    yield account(since="2025-01-01")


def fill(person: IMAPClient) -> None:
    for number in range(5):
        person.append("INBOX", message(number), msg_time=OLD)
    for number in range(5, 8):
        person.append("INBOX", message(number), msg_time=NEW)


def started(home: Home, mail: Imap, what: BackfillSelection) -> int:
    with closing(Ledger.open(home.database_url)) as ledger:
        source = ledger.sources.get("mail").id
        raw = raw_store(home, mail, Policy())
        survey = ledger.backfills.survey(source, what, CODE, readable(mail, raw, what.stage))
        number = ledger.backfills.plan(source, what, survey, "anna")
        ledger.backfills.start(number, survey.digest, "anna")
        return number


def backfill(home: Home, mail: Imap, number: int, process: Callable[[SourceSync], object] = work) -> dict[str, int]:
    priority = mail.settings.model_fields["priority"].default
    with open_sync(home, mail, "mail", Policy(), priority, backfill=number) as sync:
        sync.discover()
        process(sync)
        return sync.finish("completed")


def test_a_period_is_fetched_once_and_ordinary_syncs_keep_it(home: Home, recent: Imap) -> None:
    assert full_sync(home, recent)["succeeded"] == 3
    number = started(home, recent, YEAR)
    assert backfill(home, recent, number, lambda sync: sync.process(sync.claim(2) or 0))["succeeded"] == 2
    assert full_sync(home, recent)["jobs"] == 0
    assert backfill(home, recent, number)["succeeded"] == 3
    assert len(before := documents(home)) == 8
    again = started(home, recent, YEAR)
    assert backfill(home, recent, again)["jobs"] == 0
    with closing(Ledger.open(home.database_url)) as ledger:
        found = ledger.backfills.get(again)
        assert (found.state, found.done, found.total) == (BackfillState.DONE, 0, 0)
    assert full_sync(home, recent)["jobs"] == 0
    assert documents(home) == before


def test_mail_is_read_again_without_its_server(home: Home, recent: Imap, server: Dovecot) -> None:
    full_sync(home, recent)
    before = documents(home)
    with closing(Ledger.open(home.database_url)) as ledger, ledger._store.engine.begin() as connection:
        connection.execute(text("UPDATE contents SET normalizer = '1.1 message/rfc822'"))
    server.stop()
    number = started(home, recent, BackfillSelection(ReplayStage.NORMALIZE))
    assert backfill(home, recent, number)["succeeded"] == 3
    assert documents(home) == before
    with closing(Ledger.open(home.database_url)) as ledger:
        assert ledger.backfills.get(number).state is BackfillState.DONE
        assert ledger.backfills.outdated(CODE) == {}
        assert ledger.check(deep=True) == []
