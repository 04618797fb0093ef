"""Mail conversations in the library equal those computed from all messages at once, in any order of arrival and removal."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import timedelta

import pytest

from catchment.ledger.db.database import as_map
from catchment.ledger.library import conversation_index as kept
from catchment.ledger.library.mail_grouping import Envelope, conversation_names
from catchment.model import Tombstone
from tests.ledger.mailbox import arrive
from tests.ledger.world import World
from tests.normalize.conversations import START, corpus, right

pytestmark = pytest.mark.databases


def leave(world: World, keys: Iterable[str]) -> None:
    """Delete messages at their source and expire their tombstones."""
    world.ledger.intake.record(world.sync.id, [Tombstone(key) for key in keys], {})
    if world.settle().held:
        world.ledger.intake.apply_hold(world.source.id, "operator", "")
    world.expire()


def found(world: World) -> dict[str, int]:
    """Return the conversation of each message by key."""
    statement = """SELECT items.locator, mails.thread FROM mails JOIN documents ON documents.content_id = mails.content_id
        JOIN items ON items.id = documents.item_id"""
    with world.ledger._store.read() as reading:
        return as_map(reading.connection.exec_driver_sql(statement))


def together(conversations: dict[str, int] | dict[str, str]) -> set[frozenset[str]]:
    """Return the sets of messages that share a conversation."""
    sets: dict[object, set[str]] = {}
    for key, conversation in conversations.items():
        sets.setdefault(conversation, set()).add(key)
    return {frozenset(one) for one in sets.values()}


def in_batches(chance: random.Random, messages: Sequence[Envelope], largest: int) -> Iterable[Sequence[Envelope]]:
    rest = list(messages)
    while rest:
        size = chance.randint(1, largest)
        yield rest[:size]
        rest = rest[size:]


def test_at_least_95_in_100_messages_are_kept_in_their_conversation(world: World) -> None:
    mailbox, chance = corpus(0, 400), random.Random(0)
    for batch in in_batches(chance, chance.sample(mailbox.envelopes, len(mailbox.envelopes)), 300):
        arrive(world, batch)
    assert right(found(world), mailbox.truth) >= 0.95
    assert together(found(world)) == together(conversation_names(mailbox.envelopes))


@pytest.mark.full
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_threads_match_a_full_computation_after_any_changes(sqlite_world: World, seed: int) -> None:
    world, chance = sqlite_world, random.Random(seed)
    there: dict[str, Envelope] = {}
    messages = corpus(seed + 10, 40).envelopes
    for batch in in_batches(chance, chance.sample(messages, len(messages)), 12):
        arrive(world, batch)
        there |= {message.key: message for message in batch}
        gone = chance.sample(sorted(there), min(len(there), chance.choice([0, 0, 1, 3])))
        leave(world, gone)
        for key in gone:
            del there[key]
        assert together(found(world)) == together(conversation_names(there.values()))
    assert world.ledger.check(deep=True) == []


def _message(key: str, *references: str, minute: int, subject: str | None = None) -> Envelope:
    people = frozenset({"ada@example.org", "nils@example.org"})
    sent = START + timedelta(minutes=minute)
    return Envelope(key, f"{key}@example.org", references, subject or f"about {key}", sent, "ada@example.org", people)


def test_conversation_above_the_size_limit_still_grows_and_merges(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_MOST", 5)
    for name in ("one", "two"):
        for n in range(12):
            before = [f"{name}{n - 1}@example.org"] if n else []
            arrive(world, [_message(f"{name}{n}", *before, minute=n)])
    assert sorted(map(len, together(found(world)))) == [12, 12]
    arrive(world, [_message("both", "one3@example.org", "two7@example.org", minute=99)])
    assert set(found(world).values()) == {1}
    leave(world, ["both"])
    assert set(found(world).values()) == {1}, "what was joined as a whole stays so"


def test_reply_without_references_merges_no_separate_conversations(world: World) -> None:
    arrive(world, [_message("a", minute=1, subject="Invoice"), _message("b", minute=2, subject="Bill")])
    arrive(world, [_message("c", "b@example.org", minute=3, subject="Re: Invoice")])
    arrive(world, [_message("d", minute=4_000, subject="Re: Invoice")])
    assert together(found(world)) == {frozenset("a"), frozenset("bcd")}


def test_duplicate_message_id_is_unique_again_after_a_removal(world: World) -> None:
    bearers = [_message(key, minute=n, subject=key)._replace(identifier="1@localhost") for n, key in enumerate("ab")]
    arrive(world, [*bearers, _message("c", "1@localhost", minute=9, subject="Re: another matter")])
    assert len(together(found(world))) == 3
    leave(world, "b")
    assert together(found(world)) == {frozenset("ac")}
