"""Mail messages in `search`, `show` and `related`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from catchment.content.extract import extract
from catchment.content.normalize.mail import mail
from catchment.ledger import Delivered, Ledger
from catchment.model import Document, Item, Priority, Upsert
from catchment.runtime.home import Home
from catchment.runtime.process import alive, identity
from tests.console.conftest import Cli

ASKED = b"""From: Ada <ada@example.org>\nTo: Nils <nils@example.net>\nSubject: The sluice\nMessage-ID: <1@example.org>
Date: Fri, 06 Mar 2026 08:00:00 +0000\n\nDoes the sluice hold?\n\n-- \nAda, keeper of the weir\n"""
ANSWERED = b"""From: Nils <nils@example.net>\nTo: Ada <ada@example.org>\nCc: Grace <grace@example.org>\nSubject: Re: The sluice
Message-ID: <2@example.net>\nIn-Reply-To: <1@example.org>\nDate: Fri, 06 Mar 2026 09:30:00 +0000\nMIME-Version: 1.0
Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\nThe sluice holds, the plan is attached.\n
On Friday Ada wrote:\n> Does the sluice hold?\n
--b\nContent-Type: text/plain; name="plan.txt"\nContent-Disposition: attachment; filename="plan.txt"\n\nNew planks\n--b--\n"""


@pytest.fixture
def mailbox(filled: Path) -> Path:
    """Return a home with a message, its reply, and an attachment of the reply."""
    response = {"INBOX;UID=1": mail(ASKED), "INBOX;UID=2": mail(ANSWERED)}
    response["INBOX;UID=2;PART=2"] = Document("New planks", "text/plain", "plan")
    with closing(Ledger.open(Home(filled).database_url)) as ledger:
        source = ledger.sources.put("mail", "imap", Priority.NORMAL).id
        sync = ledger.syncs.begin(source, run=None, owner=identity(), code_version="1", alive=alive)
        ledger.intake.record(sync.id, [Upsert(Item(locator, "INBOX", "1")) for locator in response], {})
        batch = ledger.queue.claim(source, 10, owner=identity())
        outcomes = []
        for job in batch.jobs:
            told = response[job.item.locator]
            done = Delivered(job.id, job.item.locator, "1", told, extract(told), told.title or "", None, {})
            outcomes.append(done)
        ledger.queue.deliver(batch.token, outcomes)
        ledger.syncs.end(sync.id, "completed", {"succeeded": 3})
    return filled


def test_a_message_is_shown_with_the_writers_own_words_its_files_and_its_conversation(mailbox: Path, cli: Cli) -> None:
    out = cli("show", "INBOX;UID=2").out
    assert "Nils <nils@example.net>" in out and "copy to" in out
    assert "The sluice holds, the plan is attached." in out
    assert "[2 quoted lines; show all with --full]" in out and "Does the sluice hold?" not in out
    asked = cli("show", "INBOX;UID=1").out
    assert "[1 line of signature; show all with --full]" in asked and "keeper" not in asked
    assert "plan.txt" in out
    assert "Message 2 of 2 in its conversation" in out
    assert "Ada <ada@example.org>" in out.partition("conversation")[2]
    assert "> Does the sluice hold?" in cli("show", "INBOX;UID=2", "--full").out
    assert "keeper of the weir" in cli("show", "INBOX;UID=1", "--full").out


def test_a_script_is_told_the_same(mailbox: Path, cli: Cli) -> None:
    shown = cli("show", "INBOX;UID=2", "--json").json
    file = cli("show", "INBOX;UID=2;PART=2", "--json").json
    assert shown["own_text"].strip() == "The sluice holds, the plan is attached."
    assert shown["attached"] == [
        {"part": "2", "name": "plan.txt", "media_type": "text/plain", "document": file["document"], "left_out": None}
    ]
    assert [(one["title"], one["sent"]) for one in shown["conversation"]] == [
        ("The sluice", "2026-03-06T08:00:00Z"),
        ("Re: The sluice", "2026-03-06T09:30:00Z"),
    ]
    assert (file["attached_to"], file["own_text"], file["conversation"]) == (shown["document"], None, [])
    assert f"attached to  {shown['document']}" in " ".join(cli("show", "INBOX;UID=2;PART=2").out.split(" "))


def test_a_search_can_tell_of_each_conversation_only_the_best(mailbox: Path, cli: Cli) -> None:
    assert len(cli("search", "sluice", "--json").json) == 2
    (best,) = cli("search", "sluice", "--threads", "--json").json
    assert best["alike"] == 2
    assert "and 1 more message of this conversation" in cli("search", "sluice", "--threads").out
    assert "conversation" not in cli("search", "sluice").out


def test_what_is_related_to_a_message_is_its_conversation_and_its_files(mailbox: Path, cli: Cli) -> None:
    answer = cli("related", "INBOX;UID=2", "--json").json
    assert [(one["relation"], one["title"]) for one in answer] == [
        ("earlier in the conversation", "The sluice"),
        ("attached", "plan.txt"),
    ]
    assert [one["relation"] for one in cli("related", "INBOX;UID=1", "--json").json] == ["later in the conversation"]
    assert [one["relation"] for one in cli("related", "INBOX;UID=2;PART=2", "--json").json] == ["attached to"]
    assert "earlier in the conversation" in cli("related", "INBOX;UID=2").out
