"""Mail messages, described by their envelopes, and their delivery to a ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catchment.ledger.library import conversation_index as kept
from catchment.ledger.library.mail_grouping import Envelope
from catchment.model import Document
from tests.ledger.world import World, delivered, note


def document(message: Envelope) -> Document:
    """Return a message with this envelope."""
    others = sorted(message.people - {message.sender})
    said = {
        "message-id": message.identifier,
        "references": list(message.references),
        "from": [f"Somebody <{message.sender}>"],
        "to": others,
        "list-id": message.mailing_list,
        "thread-index": message.conversation,
    }
    given = {name: value for name, value in said.items() if value}
    return Document(f"Words of {message.key}", kept.MAIL, message.subject, created=message.sent, properties=given)


def arrive(world: World, messages: Sequence[Envelope]) -> None:
    """Deliver messages to the library in one batch."""
    world.see(*(note(message.key) for message in messages))
    by_key = {message.key: message for message in messages}
    batch = world.claim(len(messages))
    outcomes = []
    for job in batch.jobs:
        message = by_key[job.item.locator]
        done = delivered(job.id, f"Words of {message.key}", title=message.subject)
        outcomes.append(replace(done, document=document(message)))
    world.ledger.queue.deliver(batch.token, outcomes)
