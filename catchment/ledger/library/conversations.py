"""Conversations: which messages belong together, told from their headers alone. A pure function of the set of messages.

After the idea of Jamie Zawinski's threading (https://www.jwz.org/doc/threading.html): identifiers first, subjects only for
replies that name no message which is there. Who belongs together does not depend on the order in which messages arrive.

A thread is called after the oldest identifier that its earliest message names. A message that is missing and arrives later is
mostly named by those that answer it, so the name stays. It changes in two cases: when a message arrives that joins two
threads (the earlier one's name is kept), and when the earliest message of a thread arrives and is not the one named.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar

from catchment.model import Document

Name = TypeVar("Name", int, str)

SKEW, WINDOW = timedelta(hours=12), timedelta(days=120)
"""A reply that names no message answers one that was sent so much later than itself at most, or so much earlier."""
MAX_CANDIDATES = 200
"""So many messages of its subject, the latest before it, are looked at for the one that such a reply answers."""

_REPLY = "re|aw|antw|sv|vs|rif|r|odp|ynt|res|ref|atb|απ|отв|на|vá|回复|回覆|答复|返信|답장|תשובה|رد"
_FORWARD = "fw|fwd|wg|tr|rv|i|pd|ilt|vb|vl|enc|doorst|trs|πρθ|пересл|továbbítás|转发|轉寄|転送|전달"
_PREFIX = re.compile(
    rf"(?:(?:({_REPLY})|{_FORWARD})\s?(?:\[\d{{1,3}}\]|\(\d{{1,3}}\)|\*\d{{1,3}}|\d{{1,2}})?\s?[:：]|\[[^\[\]]{{1,60}}\])\s*"
)
_SUFFIX = re.compile(r"\s*\((?:fwd|was: ?.{0,400})\)\s*$")
_SPACE = re.compile(r"\s+")
_ADDRESS = re.compile(r"<([^<>]+)>\s*$")
_LATEST = datetime.max.replace(tzinfo=UTC)
_LEAST_IDENTIFIER = 5


class Envelope(NamedTuple):
    """What of a message threads are found by. `key` is the caller's own name for it, unique; identifiers have no brackets.

    `references` are the messages it answers, the oldest first. `people` are addresses in lower case, `sender` is one of them.
    """

    key: str
    identifier: str
    references: tuple[str, ...]
    subject: str
    sent: datetime | None
    sender: str
    people: frozenset[str]
    mailing_list: str = ""
    conversation: str = ""


def envelope(key: str, document: Document) -> Envelope:
    """The envelope of a document that `mail` made."""
    said = document.properties
    answered = (*_list(said, "references"), *_list(said, "in-reply-to"))
    senders = _addresses(said, "from")
    people = [address for name in ("to", "cc", "reply-to") for address in _addresses(said, name)]
    return Envelope(
        key,
        str(said.get("message-id", "")),
        tuple(dict.fromkeys(answered)),
        document.title or "",
        document.created,
        senders[0] if senders else "",
        frozenset((*senders, *people)),
        str(said.get("list-id", "")).lower(),
        str(said.get("thread-index", "")),
    )


def threads(messages: Iterable[Envelope], settled: Collection[str] = ()) -> dict[str, str]:
    """The thread of each message, by its key: 16 hexadecimal digits, the same for the same messages in any order.

    Those whose keys are `settled` are only there to be answered: whoever asks knows their thread, and they are not joined
    to another by their subject.
    """
    ordered = sorted(messages, key=lambda one: (one.sent or _LATEST, one.identifier, one.subject, one.key))
    names = _Names(ordered)
    joined = Joined[str]()
    for message in ordered:
        own = names.own(message)
        for other in names.linked(message):
            joined.join(own, other)
    alone = [message for message in ordered if message.key not in settled and names.is_orphan(message)]
    _by_subject(ordered, alone, names, joined)
    called: dict[str, str] = {}
    result: dict[str, str] = {}
    for message in ordered:
        own = names.own(message)
        first = next(iter(names.answered(message)), own)
        name = called.setdefault(joined.of(own), first)
        result[message.key] = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:16]
    return result


def orphans(messages: Iterable[Envelope]) -> list[Envelope]:
    """The replies that name no message which is among these: what they answer is found by their subject, if at all."""
    messages = list(messages)
    names = _Names(messages)
    return [message for message in messages if names.is_orphan(message)]


def identifiers(message: Envelope) -> list[str]:
    """What a message is called and what it names: two messages of one thread have one in common, or a third between them."""
    return [_own(message), *_answered(message), *_conversation(message)]


def base_subject(subject: str) -> tuple[str, bool]:
    """A subject without what replying, forwarding and lists put around it, in lower case; and whether it is a reply's."""
    said = _SPACE.sub(" ", subject).strip().casefold()
    is_reply = False
    while found := _PREFIX.match(said):
        if found.end() == len(said):
            break
        is_reply = is_reply or found[1] is not None
        said = said[found.end() :]
    return _SUFFIX.sub("", said), is_reply


class _Names:
    """What the messages are called. An identifier that messages of different subjects bear names each of them apart."""

    def __init__(self, messages: Sequence[Envelope]) -> None:
        self.bases = {message.key: base_subject(message.subject) for message in messages}
        bearers: dict[str, set[str]] = {}
        for message in messages:
            bearers.setdefault(message.identifier, set()).add(self.bases[message.key][0])
        self._ambiguous = {name for name, subjects in bearers.items() if len(subjects) > 1}
        self._present = {self.own(message) for message in messages}

    def own(self, message: Envelope) -> str:
        """The name of a message."""
        return self._name(_own(message), message)

    def answered(self, message: Envelope) -> list[str]:
        """The names of the messages that it says it answers."""
        return [self._name(name, message) for name in _answered(message)]

    def linked(self, message: Envelope) -> list[str]:
        """All that it is in one thread with by what it says itself."""
        return [*self.answered(message), *_conversation(message)]

    def is_orphan(self, message: Envelope) -> bool:
        """Whether it is a reply that names no message which is there."""
        if message.sent is None or message.conversation or not self.bases[message.key][1]:
            return False
        return self._present.isdisjoint(self.answered(message))

    def _name(self, identifier: str, message: Envelope) -> str:
        return f"{identifier}\n{self.bases[message.key][0]}" if identifier in self._ambiguous else identifier


def _own(message: Envelope) -> str:
    """A message without an identifier is called after what its headers say."""
    if message.identifier:
        return message.identifier
    return "\n".join(("unnamed", str(message.sent), message.subject, *sorted(message.people)))


def _answered(message: Envelope) -> list[str]:
    """The identifiers of the messages that it says it answers; some programs put a person's address there."""
    return [
        name
        for name in message.references
        if len(name) >= _LEAST_IDENTIFIER and name != message.identifier and name.lower() not in message.people
    ]


def _conversation(message: Envelope) -> list[str]:
    return [f"conversation {message.conversation}"] if message.conversation else []


class Joined(Generic[Name]):
    """Names that belong together (union-find)."""

    def __init__(self) -> None:
        self._above: dict[Name, Name] = {}

    def of(self, name: Name) -> Name:
        """The one name that stands for all that are joined with this one: the least of them."""
        top = name
        while (above := self._above.get(top, top)) != top:
            top = above
        while (above := self._above.get(name, top)) != top:
            self._above[name], name = top, above
        return top

    def join(self, one: Name, other: Name) -> None:
        """Let these two, and all that are joined with either, belong together."""
        one, other = self.of(one), self.of(other)
        if one != other:
            self._above[max(one, other)] = min(one, other)


def _by_subject(ordered: Sequence[Envelope], replies: Sequence[Envelope], names: _Names, joined: Joined[str]) -> None:
    """Join each reply that names no message which is there to the last one before it of its subject and people."""
    same: dict[str, list[Envelope]] = {}
    for message in ordered:
        if message.sent and (base := names.bases[message.key][0]):
            same.setdefault(base, []).append(message)
    for reply in replies:
        candidates, sent = same.get(names.bases[reply.key][0], []), reply.sent or _LATEST
        place = bisect_right(candidates, sent + SKEW, key=lambda one: one.sent or _LATEST)
        for other in reversed(candidates[max(0, place - MAX_CANDIDATES) : place]):
            if other.sent is None or other.sent < sent - WINDOW:
                break
            if other.key != reply.key and _are_talking(reply, other):
                joined.join(names.own(reply), names.own(other))
                break


def _are_talking(reply: Envelope, other: Envelope) -> bool:
    """Whether one may answer the other: it goes to its sender, or to the same list, or between the same people."""
    if reply.mailing_list and reply.mailing_list == other.mailing_list:
        return True
    if other.sender and other.sender in reply.people and (other.sender != reply.sender or reply.people == other.people):
        return True
    return len(reply.people & other.people) >= 2 and reply.sender in other.people


def _list(said: Mapping[str, Any], name: str) -> list[str]:
    value = said.get(name, [])
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def _addresses(said: Mapping[str, Any], name: str) -> list[str]:
    found = []
    for person in _list(said, name):
        angled = _ADDRESS.search(person)
        found.append((angled[1] if angled else person).lower())
    return found
