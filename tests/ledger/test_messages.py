"""Mail in the library: own text before quotations, conversations, and attachments."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from catchment.content.extract import extract
from catchment.content.normalize.mail import mail
from catchment.ledger import Delivered
from catchment.ledger.db.schema import mails
from catchment.model import Priority, Upsert
from catchment.search.search import search
from tests.documents import document_named
from tests.hits import find_hits
from tests.ledger.world import START, World, content, delivered, note

SLUICE = """The sluice has to be mended before the flood, because the lower gate does not close any more and the planks of the
upper one are rotten where they meet the sill. Somebody should look at the hinges too, while the water is low enough."""


def eml(number: int, text: str, *answers: int, subject: str = "Re: works", attached: Sequence[str] = ()) -> bytes:
    """Return message `number`, a reply to the given messages."""
    head = [
        f"From: Person {number} <p{number}@example.org>",
        "To: all@example.org",
        f"Subject: {subject}",
        f"Message-ID: <{number}@mail.example.org>",
        f"Date: Fri, 06 Mar 2026 {8 + number // 60:02}:{number % 60:02}:00 +0000",
        *(f"References: <{one}@mail.example.org>" for one in answers[:1]),
        "MIME-Version: 1.0",
        "Content-Type: multipart/mixed; boundary=b",
    ]
    files = [f'--b\nContent-Disposition: attachment; filename="{name}"\n\nWords' for name in attached]
    return "\n".join([*head, "", "--b", "Content-Type: text/plain", "", text, *files, "--b--", ""]).encode()


def arrive(world: World, *messages: tuple[str, bytes]) -> None:
    """Parse these messages (locator, bytes), split them into chunks and deliver them to the library."""
    said = {locator: mail(data) for locator, data in messages}
    world.see(*(note(locator) for locator, _ in messages))
    batch = world.claim()
    outcomes = []
    for job in batch.jobs:
        document = said[job.item.locator]
        digest = content(job.item.locator)
        outcomes.append(Delivered(job.id, digest, "1", document, extract(document), document.title or "", None, {}))
    world.ledger.queue.deliver(batch.token, outcomes)


def quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())


@pytest.mark.databases
def test_author_ranks_before_ten_messages_that_quote_it(world: World) -> None:
    more = "\n\nBesides, the minutes of the last meeting are with the treasurer, and the rota for the summer is not done yet."
    answers = [(f"m{n}", eml(n, f"Answer {n}.\n\n{quoted(SLUICE)}", 1)) for n in range(2, 12)]
    arrive(world, *answers, ("m1", eml(1, SLUICE + more, subject="works")))
    found = world.found("rotten planks")
    assert (found[0], len(found)) == ("m1", 11)


def test_search_reports_conversations_and_can_group_by_them(world: World) -> None:
    arrive(world, ("a", eml(1, "A pump", subject="pump")), ("b", eml(2, "The pump, the pump", 1)))
    arrive(world, ("c", eml(30, "Another pump", subject="other")))
    world.ingest(note("pump.md"), text="A pump in a note")
    each = {hit.item: (hit.conversation, hit.alike) for hit in find_hits(world.ledger, "pump")}
    assert each == {"a": (1, 1), "b": (1, 1), "c": (3, 1), "pump.md": (None, 1)}
    best = {hit.item: hit.alike for hit in search(world.ledger, "pump", START, by_conversation=True).hits}
    assert sorted(best.values()) == [1, 1, 2] and best.keys() > {"c", "pump.md"}
    assert len(search(world.ledger, "pump", START, by_conversation=True, limit=2).hits) == 2


def test_message_is_shown_in_its_conversation_across_sources(world: World) -> None:
    arrive(world, ("c", eml(3, "three", 1)), ("a", eml(1, "one", subject="works")), ("b", eml(2, "two", 1)))
    arrive(world, ("copies/b", eml(2, "two, as the list sent it", 1)))
    shown = document_named(world.ledger, "b")
    assert [(one.item, one.title, one.author) for one in shown.conversation] == [
        ("a", "works", "Person 1 <p1@example.org>"),
        ("b", "Re: works", "Person 2 <p2@example.org>"),
        ("c", "Re: works", "Person 3 <p3@example.org>"),
    ]
    assert [one.item for one in document_named(world.ledger, "copies/b").conversation] == ["a", "copies/b", "c"]
    world.lose("a")
    world.settle()
    assert [one.item for one in document_named(world.ledger, "c").conversation] == ["b", "c"], (
        "what was deleted is not shown"
    )
    world.expire()
    assert [one.item for one in document_named(world.ledger, "c").conversation] == ["b", "c"], (
        "and still holds them together"
    )
    world.ingest(note("plain.md"))
    assert document_named(world.ledger, "plain.md").conversation == ()


def test_very_long_conversation_is_shown_around_the_message(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catchment.ledger.library.mail_relations._MOST", 5)
    arrive(world, *((f"m{n}", eml(n, f"words {n}", 1)) for n in range(1, 20)))
    assert [one.item for one in document_named(world.ledger, "m10").conversation] == ["m8", "m9", "m10", "m11", "m12"]
    assert [one.item for one in document_named(world.ledger, "m19").conversation][-1] == "m19"


def test_message_and_its_attachments_refer_to_each_other(world: World) -> None:
    arrive(world, ("INBOX/7", eml(7, "See the files.", attached=["plan.txt", "lost.bin"])))
    other = world.ledger.sources.put("other", "imap", Priority.NORMAL)
    elsewhere = world.begin(other)
    world.ledger.intake.record(elsewhere.id, [Upsert(note("INBOX/7;PART=3"))], {})
    world.ingest(note("INBOX/7;PART=2"))
    message, file = document_named(world.ledger, "INBOX/7"), document_named(world.ledger, "INBOX/7;PART=2")
    assert [(one.part, one.name, one.document) for one in message.attached] == [
        ("2", "plan.txt", file.document),
        ("3", "lost.bin", None),
    ]
    assert (file.carrier, message.carrier) == (message.document, None)


def test_messages_changed_in_a_batch_are_rethreaded_by_new_headers(world: World) -> None:
    arrive(world, ("a", eml(1, "one", subject="works")), ("b", eml(2, "two", 1)))
    world.see(note("b", "v2"))
    batch = world.claim()
    world.ledger.queue.deliver(batch.token, [delivered(batch.jobs[0].id, "no message any more")])
    with world.ledger._store.read() as reading:
        assert len(reading.execute(mails.select()).all()) == 1
    assert len(document_named(world.ledger, "a").conversation) == 1


def copied(data: bytes) -> bytes:
    """Return a message as another mailbox has it."""
    added = b"Received: from relay.example.org\nX-Mozilla-Status: 0001\nX-Gmail-Labels: Inbox\nStatus: RO\n"
    return (added + data).replace(b"\n", b"\r\n")


@pytest.mark.databases
def test_copies_of_a_message_are_one_hit_with_all_places(world: World) -> None:
    first, other = eml(1, "The pump", subject="pump"), eml(2, "Another pump", subject="other")
    arrive(world, ("inbox/a", first), ("inbox/b", other))
    arrive(world, ("old.mbox!/1", copied(first)), ("saved/a.eml", b"Status: O\n" + first))
    world.ingest(note("pump.md"), text="A pump in a note")
    places = {"inbox/a", "old.mbox!/1", "saved/a.eml"}
    for query, total in (("pump", 3), ("kind:obsidian", 3), ("pump -another", 2), ("pump type:mail", 2)):
        for by_conversation in (False, True):
            results = search(world.ledger, query, START, by_conversation=by_conversation)
            assert (results.total, len(results.hits)) == (total, total), query
            (hit,) = (hit for hit in results.hits if len(hit.places) > 1)
            assert ({item for _, item in hit.places}, hit.alike) == (places, 1)
            pages = [search(world.ledger, query, START, limit=1, offset=n).hits for n in range(total + 1)]
            assert [len(page) for page in pages] == [1] * total + [0]
            assert {hit.document for page in pages for hit in page} >= {hit.document}
    shown = document_named(world.ledger, "old.mbox!/1")
    assert {copy.item for copy in shown.copies} == places == {item for _, item in shown.places}
    assert len(shown.conversation) == 1


@pytest.mark.databases
def test_each_copy_of_a_message_is_filtered_by_its_place(world: World) -> None:
    first = eml(1, "The pump", subject="pump")
    arrive(world, ("inbox/a", first), ("old.mbox!/1", copied(first)))
    for query in ("pump in:old.mbox!", "in:old.mbox!", "pump path:old -in:inbox"):
        (hit,) = search(world.ledger, query, START).hits
        assert (hit.item, len(hit.places)) == ("old.mbox!/1", 2)
    world.lose("old.mbox!/1")
    world.settle()
    (hit,) = search(world.ledger, "pump", START).hits
    assert (hit.item, hit.places) == ("inbox/a", (("notes", "inbox/a"),))
    assert not search(world.ledger, "pump in:old.mbox!", START).hits
    world.expire()
    (hit,) = search(world.ledger, "pump", START).hits
    assert hit.item == "inbox/a"


def test_other_messages_with_the_same_identifier_stay_apart(world: World) -> None:
    first = eml(1, "The pump", subject="pump")
    arrive(world, ("a", first), ("footer", eml(1, "The pump\n\nTo leave this list, write to it.", subject="pump")))
    arrive(
        world,
        ("subject", eml(1, "The pump", subject="The other pump")),
        ("list", eml(1, "The pump", subject="[l] pump")),
    )
    arrive(
        world, ("later", first.replace(b"08:01", b"09:01")), ("none", first.replace(b"Message-ID: <1@", b"X-ID: <1@"))
    )
    arrive(world, ("none as well", first.replace(b"Message-ID: <1@", b"X-Other: <1@")))
    hits = find_hits(world.ledger, "pump")
    assert {len(hit.places) for hit in hits} == {1} and len(hits) == 7
