"""Conversations in a generated mailbox with damaged headers, in any order of arrival."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from catchment.content.normalize.mail import mail
from catchment.ledger.library.mail_grouping import Envelope, base_subject, conversation_names, envelope
from tests.normalize.conversations import START, corpus, right


@pytest.mark.parametrize("seed", range(5))
def test_95_percent_of_messages_are_in_their_conversation(seed: int) -> None:
    mailbox = corpus(seed, 400)
    assert right(conversation_names(mailbox.envelopes), mailbox.truth) >= 0.95


def test_threads_do_not_depend_on_order_of_arrival() -> None:
    envelopes = corpus(9, 150).envelopes
    found = conversation_names(envelopes)
    for seed in range(5):
        assert conversation_names(random.Random(seed).sample(envelopes, len(envelopes))) == found


def _message(key: str, *references: str, subject: str = "Re: pump", minute: int = 0, **fields: str) -> Envelope:
    people = frozenset({"a@example.org", "b@example.org"})
    sent = START + timedelta(minutes=minute)
    return _with(Envelope(key, key, references, subject, sent, "a@example.org", people), fields)


def _with(message: Envelope, fields: dict[str, str]) -> Envelope:
    return message._replace(**fields)  # type: ignore[arg-type]


def test_late_parent_joins_the_conversation_without_renaming_it() -> None:
    answers = [_message("two-id", "one-id", minute=2), _message("three-id", "one-id", "two-id", minute=3)]
    before = conversation_names(answers)
    after = conversation_names([*answers, _message("one-id", subject="pump", minute=1)])
    assert set(before.values()) == set(after.values())
    assert len(set(after.values())) == 1


def test_joined_threads_keep_the_name_of_the_earlier() -> None:
    early, late = _message("one-id", subject="x", minute=1), _message("three-id", subject="y", minute=3)
    apart = conversation_names([early, late])
    assert apart["one-id"] != apart["three-id"]
    joined = conversation_names([early, late, _message("four-id", "one-id", "three-id", minute=4)])
    assert set(joined.values()) == {apart["one-id"]}


def test_reused_identifier_does_not_join_two_subjects() -> None:
    found = conversation_names(
        [
            _message("a", subject="Backup failed")._replace(identifier="1@localhost"),
            _message("b", subject="Disk is full", minute=5)._replace(identifier="1@localhost"),
            _message("c", "1@localhost", subject="Re: Disk is full", minute=9),
        ]
    )
    assert found["a"] != found["b"]
    assert found["b"] == found["c"]


def test_same_subject_of_other_people_is_another_conversation() -> None:
    other = frozenset({"c@example.org", "d@example.org"})
    found = conversation_names(
        [
            _message("a", subject="Invoice"),
            _message("b", subject="Re: Invoice", minute=5)._replace(sender="c@example.org", people=other),
        ]
    )
    assert found["a"] != found["b"]


def test_exchange_conversations_are_followed_without_references() -> None:
    first = _message("a", subject="x")._replace(conversation="01d5")
    assert (
        len(
            set(
                conversation_names([first, _message("b", subject="y", minute=9)._replace(conversation="01d5")]).values()
            )
        )
        == 1
    )


def test_reference_cycle_is_one_conversation() -> None:
    ring = [_message(f"id-{n}", f"id-{(n + 1) % 50}", minute=n) for n in range(50)]
    assert len(set(conversation_names(ring).values())) == 1


def test_envelope_of_a_document_has_references() -> None:
    document = mail(
        b"From: Ada <Ada@example.org>\nTo: nils@example.net\nSubject: Re: pump\nMessage-ID: <b@x>\n"
        b"References: <a@x>\n <a2@x>\nIn-Reply-To: <a2@x>\nDate: Fri, 01 Mar 2024 10:30:00 +0100\n"
        b"List-Id: Garden <Garden.example.org>\n\nYes"
    )
    found = envelope("k", document)
    assert (found.identifier, found.references, found.sender) == ("b@x", ("a@x", "a2@x"), "ada@example.org")
    assert found.people == {"ada@example.org", "nils@example.net"}
    assert found.mailing_list == "garden <garden.example.org>"


@pytest.mark.parametrize(
    ("subject", "base", "is_reply"),
    [
        ("Re: [parish] AW: Fwd: The  Pump", "the pump", True),
        ("Re[4]: pump (was: roof)", "pump", True),
        ("回复：水泵", "水泵", True),
        ("Fwd: pump (fwd)", "pump", False),
        ("Reading: list", "reading: list", False),
        ("Re:", "re:", False),
        ("[urgent]", "[urgent]", False),
        ("", "", False),
    ],
)
def test_prefixes_of_a_subject_are_removed(subject: str, base: str, is_reply: bool) -> None:
    assert base_subject(subject) == (base, is_reply)
