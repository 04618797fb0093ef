"""Threads: conversations found again in a corpus with a known truth and the usual damage, whatever the order of arrival."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from catchment.normalize.mail import mail
from catchment.normalize.mail.threads import Envelope, base_subject, envelope, threads

_START = datetime(2026, 1, 1, tzinfo=UTC)
_PEOPLE = [f"p{number}@example.org" for number in range(60)]
_ME = _PEOPLE[0]
_TOPICS = ("pump", "roof", "minutes", "invoice", "hive", "orchard", "budget", "survey", "gauge", "mill", "levy", "rota")
_OCCASIONS = (
    "spring",
    "monday",
    "north",
    "repair",
    "quote",
    "draft",
    "meeting",
    "key",
    "plan",
    "2026",
    "second",
    "old",
)
_PREFIXES = ["Re: ", "RE: ", "AW: ", "Sv: ", "Re[2]: ", "Antw: ", "回复：", "Odp: ", "RES: "]


@dataclass
class _Corpus:
    """Messages as a mailbox holds them, and which conversation each belongs to."""

    envelopes: list[Envelope] = field(default_factory=list)
    truth: dict[str, int] = field(default_factory=dict)


def _corpus(seed: int, conversations: int) -> _Corpus:
    """Conversations of up to 15 messages, with each kind of damage in a share of them."""
    chance = random.Random(seed)
    corpus = _Corpus()
    for number in range(conversations):
        _converse(corpus, chance, number)
    return corpus


def _converse(corpus: _Corpus, chance: random.Random, number: int) -> None:
    subject = " ".join(chance.sample(_TOPICS, 2) + chance.sample(_OCCASIONS, chance.choice([0, 1, 2])))
    mailing_list = chance.choice(["", "", f"<l{number % 5}.lists.example.org>"])
    circle = [_ME, *chance.sample(_PEOPLE[1:], chance.randint(1, 4))]
    moment = _START + timedelta(minutes=chance.randint(0, 500_000))
    sent: list[Envelope] = []
    for turn in range(min(15, 1 + int(chance.expovariate(0.3)))):
        parent = chance.choice(sent[-4:]) if sent else None
        sender = chance.choice([person for person in circle if parent is None or person != parent.sender])
        moment += timedelta(minutes=chance.randint(2, 3_000))
        message = Envelope(
            key=f"{number}.{turn}",
            identifier=f"{number}.{turn}@{sender.partition('@')[0]}.example.org",
            references=(*parent.references[-20:], parent.identifier) if parent else (),
            subject=f"{chance.choice(_PREFIXES)}{base_subject(parent.subject)[0]}" if parent else subject,
            sent=moment,
            sender=sender,
            people=frozenset(circle),
            mailing_list=mailing_list,
        )
        sent.append(_damaged(message, chance))
    for message in sent:
        if len(sent) == 1 or chance.random() > 0.04:  # some messages never reached this mailbox
            corpus.envelopes.append(message)
            corpus.truth[message.key] = number
            if chance.random() < 0.05:  # a second copy by way of the list
                copy = message._replace(key=f"{message.key}c", subject=f"[parish] {message.subject}")
                corpus.envelopes.append(copy)
                corpus.truth[copy.key] = number


def _damaged(message: Envelope, chance: random.Random) -> Envelope:
    """What programs on the way do to headers."""
    kind = chance.random()
    if kind < 0.06:  # a program that names no message
        message = message._replace(references=())
    elif kind < 0.16:  # one that names only the last
        message = message._replace(references=message.references[-1:])
    elif kind < 0.20:  # references cut off in the middle
        message = message._replace(references=message.references[-3:-1])
    elif kind < 0.23:  # the address of the sender where an identifier belongs
        message = message._replace(references=(*message.references[-1:], _ME))
    if chance.random() < 0.05 and message.references:
        message = message._replace(subject=f"something else (was: {message.subject})")
    if chance.random() < 0.10:
        message = message._replace(subject=f"[parish {message.key}] {message.subject}")
    if chance.random() < 0.01:
        message = message._replace(identifier="")
    if chance.random() < 0.01:
        message = message._replace(identifier="1@localhost")
    if chance.random() < 0.02:
        message = message._replace(sent=None)
    return message


def _right(corpus: _Corpus) -> float:
    """The share of messages that are with the messages they belong with: B-cubed F1."""
    found = threads(corpus.envelopes)
    both = Counter((found[key], truth) for key, truth in corpus.truth.items())
    of_found, of_truth = Counter(found.values()), Counter(corpus.truth.values())
    pairs = [(found[key], truth) for key, truth in corpus.truth.items()]
    precision = sum(both[pair] / of_found[pair[0]] for pair in pairs) / len(pairs)
    recall = sum(both[pair] / of_truth[pair[1]] for pair in pairs) / len(pairs)
    return 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize("seed", range(5))
def test_at_least_95_in_100_messages_are_found_in_their_conversation(seed: int) -> None:
    assert _right(_corpus(seed, 400)) >= 0.95


def test_the_threads_are_the_same_in_whatever_order_messages_arrive() -> None:
    corpus = _corpus(9, 150)
    found = threads(corpus.envelopes)
    for seed in range(5):
        shuffled = random.Random(seed).sample(corpus.envelopes, len(corpus.envelopes))
        assert threads(shuffled) == found


def _message(key: str, *references: str, subject: str = "Re: pump", minute: int = 0, **said: str) -> Envelope:
    people = frozenset({"a@example.org", "b@example.org"})
    sent = _START + timedelta(minutes=minute)
    return _with(Envelope(key, key, references, subject, sent, "a@example.org", people), said)


def _with(message: Envelope, said: dict[str, str]) -> Envelope:
    return message._replace(**said)  # type: ignore[arg-type]


def test_a_parent_that_arrives_late_finds_its_thread_under_the_same_name() -> None:
    answers = [_message("two-id", "one-id", minute=2), _message("three-id", "one-id", "two-id", minute=3)]
    before = threads(answers)
    after = threads([*answers, _message("one-id", subject="pump", minute=1)])
    assert set(before.values()) == set(after.values())
    assert len(set(after.values())) == 1


def test_a_message_that_joins_two_threads_leaves_the_name_of_the_earlier() -> None:
    early, late = _message("one-id", subject="x", minute=1), _message("three-id", subject="y", minute=3)
    apart = threads([early, late])
    assert apart["one-id"] != apart["three-id"]
    joined = threads([early, late, _message("four-id", "one-id", "three-id", minute=4)])
    assert set(joined.values()) == {apart["one-id"]}


def test_one_identifier_on_messages_of_two_subjects_does_not_join_them() -> None:
    found = threads(
        [
            _message("a", subject="Backup failed")._replace(identifier="1@localhost"),
            _message("b", subject="Disk is full", minute=5)._replace(identifier="1@localhost"),
            _message("c", "1@localhost", subject="Re: Disk is full", minute=9),
        ]
    )
    assert found["a"] != found["b"]
    assert found["b"] == found["c"]


def test_the_same_subject_between_other_people_is_another_thread() -> None:
    other = frozenset({"c@example.org", "d@example.org"})
    found = threads(
        [
            _message("a", subject="Invoice"),
            _message("b", subject="Re: Invoice", minute=5)._replace(sender="c@example.org", people=other),
        ]
    )
    assert found["a"] != found["b"]


def test_exchange_conversations_are_followed_without_references() -> None:
    first = _message("a", subject="x")._replace(conversation="01d5")
    assert len(set(threads([first, _message("b", subject="y", minute=9)._replace(conversation="01d5")]).values())) == 1


def test_an_endless_circle_of_references_is_one_thread() -> None:
    ring = [_message(f"id-{n}", f"id-{(n + 1) % 50}", minute=n) for n in range(50)]
    assert len(set(threads(ring).values())) == 1


def test_the_envelope_of_a_document_says_who_answers_what() -> None:
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
def test_a_subject_is_known_under_its_prefixes(subject: str, base: str, is_reply: bool) -> None:
    assert base_subject(subject) == (base, is_reply)
