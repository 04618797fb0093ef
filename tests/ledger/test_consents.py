"""Consent, and the purge after its withdrawal: on both databases, after kills, and down to the bytes."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import event

from catchment.errors import LedgerUnavailable, Refused
from catchment.ledger import ConsentState, Ledger, Source
from catchment.ledger.db import job_states
from catchment.ledger.items import purge as purging
from catchment.model import Priority, Tombstone, Upsert
from tests.documents import document_named
from tests.ledger.test_crashes import _kill_at, in_child
from tests.ledger.world import PARSE_ERROR, World, delivered, note, notes

pytestmark = pytest.mark.databases

ANNA = "operator:anna"


def states(world: World, source: str = "notes") -> dict[str, str]:
    return {consent.scope: consent.state.value for consent in world.ledger.consents.all(source)}


def everything(_locator: str) -> bool:
    return True


def purge(world: World, source: Source, which: Callable[[str], bool] = everything) -> int:
    """Purge a source completely and record it; return the number of items."""
    whole = which is everything
    scopes = set(states(world, source.name))
    world.ledger.consents.withdraw(source.id, scopes, ANNA)
    number = sum(world.ledger.purging.items(source.id, which))
    if whole:
        world.ledger.purging.rest(source.id)
    world.ledger.purging.end(source.id, scopes, ANNA)
    return number


@pytest.fixture
def mail(world: World) -> Source:
    return with_mail(world)


def with_mail(world: World) -> Source:
    """A second source, of mail, with one unique message and one with the same text as a note of `notes`."""
    source = world.ledger.sources.put("mail", "imap", Priority.NORMAL)
    world.ledger.consents.give(source.id, {"messages", "attachments"}, ANNA, None)
    fill(world, source, {"INBOX/1": "The zebrafinch sings in Winnipeg every single morning", "INBOX/2": "Shared words"})
    world.ingest(note("shared.md"), text="Shared words")
    return source


def fill(world: World, source: Source, texts: dict[str, str], version: str = "v1") -> None:
    """Bring these items of a source into the library."""
    sync = world.begin(source)
    world.ledger.intake.record(sync.id, [Upsert(note(locator, version)) for locator in texts], {"INBOX": "seen"})
    batch = world.ledger.queue.claim(source.id, 1_000, owner="worker")
    done = [delivered(job.id, texts[job.item.locator], title=job.item.locator) for job in batch.jobs]
    world.ledger.queue.deliver(batch.token, done)
    world.ledger.syncs.end(sync.id, "completed", {})


def test_consent_is_valid_from_grant_to_expiry(world: World) -> None:
    consents, number = world.ledger.consents, world.source.id
    assert (consents.valid(number), consents.all()) == (frozenset(), [])
    consents.ask(number, {"messages"})
    assert (states(world), consents.valid(number)) == ({"messages": "asked"}, frozenset())
    consents.give(number, {"messages"}, ANNA, world.clock.moment + timedelta(days=90))
    assert consents.valid(number) == {"messages"}
    [given] = consents.all("notes")
    assert (given.by, given.given) == (ANNA, world.clock.moment)
    world.clock.forward(days=90)
    assert (states(world), consents.valid(number)) == ({"messages": "expired"}, frozenset())
    consents.give(number, {"messages"}, ANNA, None)
    consents.ask(number, {"messages", "attachments"})
    assert states(world) == {"attachments": "asked", "messages": "given"}


def test_only_the_configured_scopes_of_a_source_need_consent(world: World) -> None:
    consents, number = world.ledger.consents, world.source.id
    consents.give(number, {"messages", "attachments"}, ANNA, None)
    consents.withdraw(number, {"attachments"}, ANNA)
    consents.ask(number, {"messages"})
    assert states(world) == {"attachments": "purging", "messages": "given"}
    world.ledger.purging.end(number, {"attachments"}, ANNA)
    assert states(world) == {"messages": "given"}
    assert [consent.wanted for consent in consents.all("notes", every=True)] == [False, True]
    consents.ask(number, {"messages", "attachments"})
    assert states(world) == {"attachments": "withdrawn", "messages": "given"}


def test_withdrawn_consent_cannot_be_renewed_before_the_purge(world: World) -> None:
    consents, number = world.ledger.consents, world.source.id
    consents.give(number, {"messages", "attachments"}, ANNA, None)
    consents.withdraw(number, {"attachments"}, ANNA)
    consents.withdraw(number, {"attachments"}, ANNA)
    assert (states(world)["attachments"], consents.valid(number)) == ("purging", {"messages"})
    with pytest.raises(Refused, match="consent revoke"):
        consents.give(number, {"attachments"}, ANNA, None)
    world.ledger.purging.end(number, {"attachments"}, ANNA)
    assert states(world)["attachments"] == "withdrawn"
    consents.give(number, {"attachments"}, ANNA, None)
    assert consents.valid(number) == {"attachments", "messages"}


def test_consent_and_withdrawal_stay_in_the_history(world: World, mail: Source) -> None:
    purge(world, mail)
    with world.ledger._store.read() as reading:
        rows = reading.connection.exec_driver_sql(
            f"SELECT event, reason FROM history WHERE source_id = {mail.id} AND actor = '{ANNA}' ORDER BY id"
        ).all()
    given, withdrawn, purged = ([(event, scope) for scope in ("attachments", "messages")] for event in
                                ("consent given", "consent withdrawn", "purged"))  # fmt: skip
    assert [tuple(row) for row in rows] == [*given, *withdrawn, *purged]


def test_new_consent_relists_the_source_but_an_extension_does_not(world: World, mail: Source) -> None:
    consents, marks = world.ledger.consents, lambda: world.ledger.intake.known(mail.id).marks()
    consents.give(mail.id, {"messages"}, ANNA, world.clock.moment + timedelta(days=1))
    assert marks() == {"INBOX": "seen"}
    world.clock.forward(days=2)
    consents.give(mail.id, {"messages"}, ANNA, None)
    assert marks() == {}


def test_readded_source_needs_new_consent(world: World, mail: Source) -> None:
    world.ledger.sources.remove("mail", ANNA, "")
    world.ledger.sources.put("mail", "imap", Priority.NORMAL)
    assert world.ledger.consents.all("mail") == []


def test_purge_keeps_only_content_shared_with_another_source(world: World, mail: Source) -> None:
    world.ledger.consents.give(world.source.id, {"content"}, ANNA, None)
    left = world.ledger.purging.left(mail.id, everything, whole=True)
    assert (left["items"], left["jobs"], left["documents"], left["marks"], left["contents"]) == (2, 2, 2, 1, 0)
    assert purge(world, mail) == 2
    assert set(world.ledger.purging.left(mail.id, everything, whole=True).values()) == {0}
    assert (world.found("zebrafinch"), world.found("shared")) == ([], ["shared.md"])
    assert document_named(world.ledger, "shared.md").content.text == "Shared words"
    assert states(world, "mail") == {"attachments": "withdrawn", "messages": "withdrawn"}
    assert states(world) == {"content": "given"}


def test_every_kind_of_row_of_a_source_is_counted_and_purged(world: World, mail: Source) -> None:
    sync = world.begin(mail)
    world.ledger.intake.record(sync.id, [Upsert(note(f"INBOX/{n}")) for n in range(20, 40)], {})
    batch = world.ledger.queue.claim(mail.id, 5, owner="worker")
    for job in batch.jobs:
        world.ledger.queue.fail(batch.token, job.id, PARSE_ERROR, retry_at=None)
    world.ledger.intake.record(sync.id, [Tombstone(f"INBOX/{n}") for n in range(1, 40)], {})
    assert world.ledger.intake.settle(sync.id).held
    world.ledger.sources.changed_roots(sync.id, {"": "validity 7"})
    world.ledger.syncs.end(sync.id, "failed", {}, "the folder Winnipeg is gone")
    assert world.ledger.purging.left(mail.id, everything, whole=True)["holds"] == 1
    purge(world, mail)
    assert set(world.ledger.purging.left(mail.id, everything, whole=True).values()) == {0}
    assert world.ledger.intake.known(mail.id).roots() == {}
    assert [row.error for row in world.ledger.syncs.recent(mail.id)] == [None, None]


def test_purged_history_records_moves_without_paths(world: World, mail: Source) -> None:
    sync = world.begin(mail)
    world.ledger.intake.record(sync.id, [Upsert(note("Winnipeg/1", identity="one"))], {})
    item = world.ledger.intake.find("Winnipeg/1")[0].id
    world.ledger.intake.record(sync.id, [Tombstone("Winnipeg/1"), Upsert(note("Berlin/1", identity="one"))], {})

    def moves() -> list[str | None]:
        return [event.reason for event in world.ledger.history.of_item(item) if event.event == "moved"]

    assert moves() == ["from Winnipeg/1"]
    purge(world, mail)
    assert moves() == [None]
    assert world.ledger.purging.left(mail.id, everything, whole=True)["moves"] == 0
    assert world.ledger.history.verify() == []


def test_one_scope_of_a_source_is_purged_alone(world: World, mail: Source) -> None:
    fill(world, mail, {"INBOX/1;PART=2": "Forty mites on the board of the apiary"})

    def attached(locator: str) -> bool:
        return ";PART=" in locator

    world.ledger.consents.withdraw(mail.id, {"attachments"}, ANNA)
    assert world.ledger.purging.left(mail.id, attached, whole=False)["items"] == 1
    assert sum(world.ledger.purging.items(mail.id, attached)) == 1
    world.ledger.purging.end(mail.id, {"attachments"}, ANNA)
    assert set(world.ledger.purging.left(mail.id, attached, whole=False).values()) == {0}
    assert (world.found("mites"), world.found("zebrafinch")) == ([], ["INBOX/1"])
    assert states(world, "mail") == {"attachments": "withdrawn", "messages": "given"}


def test_probe_passages_are_unique_to_the_purged_source(world: World, mail: Source) -> None:
    fill(world, mail, {"INBOX/3": "short"})
    [passage] = world.ledger.purging.passages(mail.id, everything)
    assert "zebrafinch" in passage and len(passage) >= 24
    assert world.ledger.purging.said_elsewhere(passage)
    purge(world, mail)
    assert not world.ledger.purging.said_elsewhere(passage)
    assert world.ledger.purging.passages(mail.id, everything) == []


def test_long_texts_are_purged_in_small_batches(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_states, "_TEXT_AT_ONCE", 40)
    world.ingest(*notes(6))
    world.ingest(note("long.md"), text="long " * 30)
    world.see(note("never read.md"))
    assert list(world.ledger.purging.items(world.source.id, everything)) == [3, 3, 1, 1]
    assert set(world.ledger.purging.left(world.source.id, everything, whole=False).values()) == {0}


@pytest.mark.parametrize("statement", [3, 20, 40, 60])
def test_killed_purge_is_finished_by_the_next(
    sqlite_world: World, statement: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = sqlite_world
    monkeypatch.setattr(purging, "_ITEMS_AT_ONCE", 200)
    world.ingest(*notes(450))
    world.ledger.consents.give(world.source.id, {"content"}, ANNA, None)
    world.ledger.close()

    def die() -> None:
        ledger = Ledger.open(world.url, clock=world.clock)
        _kill_at(ledger, statement)
        ledger.consents.withdraw(world.source.id, {"content"}, ANNA)
        sum(ledger.purging.items(world.source.id, everything))
        ledger.purging.rest(world.source.id)
        ledger.purging.end(world.source.id, {"content"}, ANNA)

    assert in_child(die)() < 0
    world.reopen()
    assert world.ledger.check() == []
    assert states(world)["content"] in ("given", "purging")
    purge(world, world.source)
    assert set(world.ledger.purging.left(world.source.id, everything, whole=True).values()) == {0}
    assert states(world) == {"content": "withdrawn"}
    assert world.ledger.check(deep=True) == []


def test_purged_bytes_are_absent_from_the_file_and_its_log(sqlite_world: World) -> None:
    world, chance, mail = sqlite_world, random.Random(7), with_mail(sqlite_world)
    words = ["".join(chance.choices("abcdefghij", k=7)) for _ in range(500)]

    def page(tag: str, number: int) -> str:
        return f"{tag}text{number} " + " ".join(chance.choices(words, k=chance.randint(50, 1_500)))

    # Debian's SQLite overwrites almost all deleted data with zeros; other builds do not.
    engine = world.ledger._store.engine
    engine.dispose()
    event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA secure_delete = OFF"))
    # Edits leave stale bytes in pages that have been reused since.
    for version in ("v1", "v2", "v3"):
        for start in range(0, 120, 40):
            chosen = chance.sample(range(start, start + 40), 30)
            fill(world, mail, {f"qqxxplace{n}": page("qqxx", n) for n in chosen}, version)
            world.ingest(*(note(f"n/{n}.md", version) for n in chosen))
    purge(world, mail)
    world.ledger.purging.erase()
    for file in world.ledger.purging.files():
        assert b"qqxx" not in file.read_bytes(), file.name
        assert b"zebrafinch" not in file.read_bytes()
    assert world.ledger.check(deep=True) == []


def test_open_reader_that_prevents_emptying_the_log_is_reported(
    sqlite_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catchment.ledger.db.vacuum._LOG_SECONDS", 0.2)
    world = sqlite_world
    world.ingest(*notes(3))
    file = Path(str(world.ledger._store.file))
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM items").fetchone()
        with pytest.raises(LedgerUnavailable):
            world.ledger.purging.erase()
    world.ledger.purging.erase()
    assert world.ledger.check() == []


def test_database_releases_the_purged_data(world: World, mail: Source) -> None:
    purge(world, mail)
    world.ledger.purging.erase()
    world.ledger.purging.erase()
    assert world.found("shared") == ["shared.md"]
    assert ConsentState.WITHDRAWN in states(world, "mail").values()


def test_first_consent_by_configuration_does_not_replace_a_withdrawal(world: World, mail: Source) -> None:
    consents = world.ledger.consents
    consents.give(mail.id, {"new"}, "configuration", None, if_new=True)
    assert states(world, "mail")["new"] == ConsentState.GIVEN
    consents.withdraw(mail.id, {"new"}, "anna")
    consents.give(mail.id, {"new"}, "configuration", None, if_new=True)
    assert states(world, "mail")["new"] == ConsentState.PURGING
