"""The dates and senders of mail and of the files attached to it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy import text

from catchment.ledger.library.conversation_index import MAIL
from catchment.model import PART, Document
from tests.ledger.test_search import ask, found
from tests.ledger.world import World, content, delivered, note

SENT, ARRIVED, WRITTEN = (datetime(year, 5, 4, 10, tzinfo=UTC) for year in (2023, 2024, 2019))
LETTER = "INBOX;UIDVALIDITY=1;UID=7"
PLAN = f"{LETTER}{PART}2"
MARIA = "Maria Lopez <maria@example.org>"


def put(world: World, locator: str, modified: datetime, document: Document, **metadata: str) -> None:
    world.see(note(locator, content(document.text)))
    batch = world.claim()
    done = delivered(batch.jobs[0].id, document.text, title=locator[-6:], metadata=metadata)
    world.ledger.queue.deliver(batch.token, [replace(done, modified=modified, document=document)])


def put_message(world: World, created: datetime | None) -> None:
    document = Document("the weir of Maria", MAIL, author=MARIA, created=created, properties={"from": [MARIA]})
    put(world, LETTER, ARRIVED, document)


PDF = Document("the plan of the weir", "application/pdf", author="Word", modified=WRITTEN)


def test_message_without_a_date_has_that_of_its_arrival(world: World) -> None:
    put_message(world, None)
    (hit,) = ask(world, "weir").hits
    assert hit.moment == ARRIVED
    assert found(world, "date:2024") == [LETTER]


def test_attachment_is_found_by_sender_and_date_of_its_message(world: World) -> None:
    put_message(world, SENT)
    put(world, PLAN, SENT, PDF, **{"from": MARIA, "sent": SENT.isoformat()})
    for query, expected in {
        "from:maria type:pdf": [PLAN],
        "date:2023 type:pdf": [PLAN],
        "date:2019": [],
        "from:word": [PLAN],
        "-from:maria weir": [],
    }.items():
        assert found(world, query) == expected, query
    (hit,) = ask(world, "weir type:pdf").hits
    assert (hit.author, hit.moment, hit.title) == (MARIA, SENT, PLAN[-6:])
    shown = world.ledger.library.document(hit.document)
    assert shown.content.author == MARIA
    assert {one.author for one in world.ledger.library.latest().rows} == {MARIA}


def test_attachments_of_an_older_ledger_get_sender_and_date(world: World) -> None:
    put_message(world, SENT)
    put(world, PLAN, WRITTEN, PDF)
    put(world, f"{LETTER}{PART}3", ARRIVED, Document("a weir in a weir", MAIL, author="Ole", created=WRITTEN))
    put(world, "INBOX;UIDVALIDITY=1;UID=8", ARRIVED, Document("no date, a weir", MAIL))
    put(world, f"INBOX;UIDVALIDITY=1;UID=9{PART}2", ARRIVED, Document("no message, a weir", "text/plain"))
    with world.ledger._store.write() as writing:
        writing.execute(text("UPDATE documents SET moment = NULL WHERE path LIKE '%UID=8'"))
        writing.execute(text("UPDATE revision SET version_num = '0007'"))
        for table in ("refused_documents", "sinks", "outbox"):
            writing.execute(text(f"DROP TABLE {table}"))
        writing.execute(text("DELETE FROM counters WHERE name IN ('sinks', 'changes')"))
    world.reopen()
    hits = {hit.item: (hit.author, hit.moment) for hit in ask(world, "weir").hits}
    assert hits == {
        LETTER: (MARIA, SENT),
        PLAN: (MARIA, SENT),
        f"{LETTER}{PART}3": ("Ole", WRITTEN),
        "INBOX;UIDVALIDITY=1;UID=8": (None, ARRIVED),
        f"INBOX;UIDVALIDITY=1;UID=9{PART}2": (None, ARRIVED),
    }
    assert found(world, "from:maria type:pdf") == [PLAN]
