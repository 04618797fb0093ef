"""Grouping of mail into conversations by headers alone.

A pure function of the set of messages, independent of their order of arrival.

Based on Jamie Zawinski's algorithm (https://www.jwz.org/doc/threading.html): identifiers first; subjects only for replies that
name no known message.

A conversation is named after the oldest identifier in its earliest message. If a missing message arrives later, its replies
usually named it already, so the name stays. The name changes if a message joins two conversations (the name of the earlier one
wins) or if the earliest message of a conversation arrives and has another identifier.
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
"""A reply that names no known message may answer messages sent up to SKEW later or WINDOW earlier."""
MAX_CANDIDATES = 200
"""Number of messages with the same subject considered for such a reply, latest first."""

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
    """The headers of a message that determine its conversation. `key` is the caller's unique ID; identifiers have no brackets.

    `references` are the answered messages, oldest first. `people` are addresses in lower case, including `sender`.
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
    """Return the envelope of a mail document."""
    properties = document.properties
    answered = (*_list(properties, "references"), *_list(properties, "in-reply-to"))
    senders = _addresses(properties, "from")
    people = [address for name in ("to", "cc", "reply-to") for address in _addresses(properties, name)]
    return Envelope(
        key,
        str(properties.get("message-id", "")),
        tuple(dict.fromkeys(answered)),
        document.title or "",
        document.created,
        senders[0] if senders else "",
        frozenset((*senders, *people)),
        str(properties.get("list-id", "")).lower(),
        str(properties.get("thread-index", "")),
    )


def conversation_names(messages: Iterable[Envelope], settled: Collection[str] = ()) -> dict[str, str]:
    """Return the conversation of each message by key: 16 hexadecimal digits, equal for equal sets of messages.

    Messages with `settled` keys are only candidates for replies: their conversation is already known to the caller, and their
    subject does not join them to another.
    """
    ordered = sorted(messages, key=lambda each: (each.sent or _LATEST, each.identifier, each.subject, each.key))
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
    """Return the replies that name none of these messages. They can only be matched by subject."""
    messages = list(messages)
    names = _Names(messages)
    return [message for message in messages if names.is_orphan(message)]


def identifiers(message: Envelope) -> list[str]:
    """Return the identifiers that connect a message with others of its conversation.

    Two messages of one conversation share an identifier, or are connected through further messages.
    """
    return [_own(message), *_answered(message), *_conversation(message)]


def base_subject(subject: str) -> tuple[str, bool]:
    """Return the subject without reply, forward and list decoration, in lower case, and whether it is a reply's subject."""
    base = _SPACE.sub(" ", subject).strip().casefold()
    is_reply = False
    while match := _PREFIX.match(base):
        if match.end() == len(base):
            break
        is_reply = is_reply or match[1] is not None
        base = base[match.end() :]
    return _SUFFIX.sub("", base), is_reply


class _Names:
    """The names of messages. An identifier used with several subjects is qualified by the subject."""

    def __init__(self, messages: Sequence[Envelope]) -> None:
        self.bases = {message.key: base_subject(message.subject) for message in messages}
        bearers: dict[str, set[str]] = {}
        for message in messages:
            bearers.setdefault(message.identifier, set()).add(self.bases[message.key][0])
        self._ambiguous = {name for name, subjects in bearers.items() if len(subjects) > 1}
        self._present = {self.own(message) for message in messages}

    def own(self, message: Envelope) -> str:
        """Return the name of a message."""
        return self._name(_own(message), message)

    def answered(self, message: Envelope) -> list[str]:
        """Return the names of the messages that it answers."""
        return [self._name(name, message) for name in _answered(message)]

    def linked(self, message: Envelope) -> list[str]:
        """Return all names that its own headers connect it with."""
        return [*self.answered(message), *_conversation(message)]

    def is_orphan(self, message: Envelope) -> bool:
        """Return whether it is a reply that names no known message."""
        if message.sent is None or message.conversation or not self.bases[message.key][1]:
            return False
        return self._present.isdisjoint(self.answered(message))

    def _name(self, identifier: str, message: Envelope) -> str:
        return f"{identifier}\n{self.bases[message.key][0]}" if identifier in self._ambiguous else identifier


def _own(message: Envelope) -> str:
    """Return the identifier of a message, or a name derived from its headers."""
    if message.identifier:
        return message.identifier
    return "\n".join(("unnamed", str(message.sent), message.subject, *sorted(message.people)))


def _answered(message: Envelope) -> list[str]:
    """Return the identifiers of the answered messages. Excludes mail addresses, which some programs put there."""
    return [
        name
        for name in message.references
        if len(name) >= _LEAST_IDENTIFIER and name != message.identifier and name.lower() not in message.people
    ]


def _conversation(message: Envelope) -> list[str]:
    return [f"conversation {message.conversation}"] if message.conversation else []


class Joined(Generic[Name]):
    """Disjoint sets of names (union-find)."""

    def __init__(self) -> None:
        self._above: dict[Name, Name] = {}

    def of(self, name: Name) -> Name:
        """Return the representative of the set, its least element."""
        top = name
        while (above := self._above.get(top, top)) != top:
            top = above
        while (above := self._above.get(name, top)) != top:
            self._above[name], name = top, above
        return top

    def join(self, name: Name, other: Name) -> None:
        """Merge the sets of both names."""
        name, other = self.of(name), self.of(other)
        if name != other:
            self._above[max(name, other)] = min(name, other)


def _by_subject(ordered: Sequence[Envelope], replies: Sequence[Envelope], names: _Names, joined: Joined[str]) -> None:
    """Join each reply that names no known message to the last preceding message with its subject and people."""
    same: dict[str, list[Envelope]] = {}
    for message in ordered:
        if message.sent and (base := names.bases[message.key][0]):
            same.setdefault(base, []).append(message)
    for reply in replies:
        candidates, sent = same.get(names.bases[reply.key][0], []), reply.sent or _LATEST
        place = bisect_right(candidates, sent + SKEW, key=lambda each: each.sent or _LATEST)
        for other in reversed(candidates[max(0, place - MAX_CANDIDATES) : place]):
            if other.sent is None or other.sent < sent - WINDOW:
                break
            if other.key != reply.key and _are_talking(reply, other):
                joined.join(names.own(reply), names.own(other))
                break


def _are_talking(reply: Envelope, other: Envelope) -> bool:
    """Return whether one message may answer the other: sent to its author, to the same list, or among the same people."""
    if reply.mailing_list and reply.mailing_list == other.mailing_list:
        return True
    if other.sender and other.sender in reply.people and (other.sender != reply.sender or reply.people == other.people):
        return True
    return len(reply.people & other.people) >= 2 and reply.sender in other.people


def _list(properties: Mapping[str, Any], name: str) -> list[str]:
    value = properties.get(name, [])
    return [str(entry) for entry in value] if isinstance(value, list) else [str(value)]


def _addresses(properties: Mapping[str, Any], name: str) -> list[str]:
    addresses = []
    for person in _list(properties, name):
        angled = _ADDRESS.search(person)
        addresses.append((angled[1] if angled else person).lower())
    return addresses
