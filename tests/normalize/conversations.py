"""Generate mailboxes of known conversations with headers that are damaged as by real mail programs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from catchment.ledger.library.mail_grouping import Envelope, base_subject

START = datetime(2026, 1, 1, tzinfo=UTC)
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
class Corpus:
    """The messages of a mailbox and the conversation of each."""

    envelopes: list[Envelope] = field(default_factory=list)
    truth: dict[str, int] = field(default_factory=dict)


def corpus(seed: int, conversations: int) -> Corpus:
    """Return conversations of up to 15 messages; every kind of damage affects a share of them."""
    chance = random.Random(seed)
    made = Corpus()
    for number in range(conversations):
        _converse(made, chance, number)
    return made


def _converse(corpus: Corpus, chance: random.Random, number: int) -> None:
    subject = " ".join(chance.sample(_TOPICS, 2) + chance.sample(_OCCASIONS, chance.choice([0, 1, 2])))
    mailing_list = chance.choice(["", "", f"<l{number % 5}.lists.example.org>"])
    circle = [_ME, *chance.sample(_PEOPLE[1:], chance.randint(1, 4))]
    moment = START + timedelta(minutes=chance.randint(0, 500_000))
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
        if len(sent) == 1 or chance.random() > 0.04:  # some messages are missing in the mailbox
            corpus.envelopes.append(message)
            corpus.truth[message.key] = number
            if chance.random() < 0.05:  # a second copy through the mailing list
                copy = message._replace(key=f"{message.key}c", subject=f"[parish] {message.subject}")
                corpus.envelopes.append(copy)
                corpus.truth[copy.key] = number


def _damaged(message: Envelope, chance: random.Random) -> Envelope:
    """Damage the headers as mail programs do."""
    kind = chance.random()
    if kind < 0.06:  # no references at all
        message = message._replace(references=())
    elif kind < 0.16:  # only the direct parent
        message = message._replace(references=message.references[-1:])
    elif kind < 0.20:  # truncated references
        message = message._replace(references=message.references[-3:-1])
    elif kind < 0.23:  # the address of the sender instead of an identifier
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


def right(found: Mapping[str, object], truth: Mapping[str, int]) -> float:
    """Return the B-cubed F1 score of the conversations."""
    pairs = [(found[key], number) for key, number in truth.items()]
    both, of_found, of_truth = Counter(pairs), Counter(found.values()), Counter(truth.values())
    precision = sum(both[pair] / of_found[pair[0]] for pair in pairs) / len(pairs)
    recall = sum(both[pair] / of_truth[pair[1]] for pair in pairs) / len(pairs)
    return 2 * precision * recall / (precision + recall)
