"""Storage of mail conversations. A conversation's number is the smallest content ID in it.

`catchment.ledger.library.mail_grouping` computes the conversations. It is called with all messages that a new or deleted
message can affect: those of conversations sharing an identifier with it, and the replies with its subject that name no known
message. The result is therefore the same as for all messages together, in any order. Conversations may span sources.

Contents are copies of one message if they differ only in headers that people do not read, such as those that a mailbox adds.
They have a common name below zero in `mail_names`; other contents have none, so a search pays only for copies.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import bindparam, delete, func, literal_column, select, update

from catchment.ledger.db.database import (
    AnyRow,
    Reading,
    Writing,
    among,
    as_map,
    from_json,
    maybe_micros,
    maybe_time,
    to_micros,
)
from catchment.ledger.db.job_states import in_parts
from catchment.ledger.db.schema import ORPHAN, contents, mail_names, mails
from catchment.ledger.library import mail_grouping
from catchment.ledger.library.mail_grouping import MAX_CANDIDATES, SKEW, WINDOW, Envelope, Joined, envelope
from catchment.model import Document

MAIL = "message/rfc822"
"""The media type of a message."""

_MOST = 2_000
"""Maximum number of messages reconsidered at once. Larger conversations are never split; they only grow."""
_AT_ONCE = 200
"""Number of new messages processed together: few enough that the affected ones rarely exceed the maximum."""


class _Known(NamedTuple):
    """A message with a conversation. If `settled`, it is only a candidate for replies, and its conversation is not split."""

    conversation: int
    orphan: bool
    envelope: Envelope
    settled: bool


def add(writing: Writing, messages: Iterable[tuple[int, Document]]) -> None:
    """Assign conversations to the messages among new contents (ID, document)."""
    for part in in_parts(
        ((number, document) for number, document in messages if document.media_type == MAIL), _AT_ONCE
    ):
        new = {number: envelope(str(number), document) for number, document in part}
        names = {number: _names(message) for number, message in new.items()}
        near = _sharing(writing, {name for shared in names.values() for name in shared})
        near |= _orphans_that_may_answer(writing, new.values())
        _arrange(writing, new, near)
        rows = [(name, number) for number, shared in names.items() for name in shared]
        writing.insert(mail_names, rows)
        _name_copies(writing, {number: document for number, document in part if new[number].identifier})


def forget(writing: Writing, content_ids: Collection[int]) -> None:
    """Remove messages from their conversations before their contents are deleted, and recompute those of the rest."""
    forgotten = among(writing, mails.c.content_id, content_ids)
    conversations = set(writing.execute(select(mails.c.thread).where(forgotten)).scalars())
    if not conversations:
        return
    of_contents = among(writing, mail_names.c.content_id, content_ids)
    names = set(writing.execute(select(mail_names.c.name).where(of_contents)).scalars())
    writing.execute(delete(mail_names).where(of_contents))
    writing.execute(delete(mails).where(forgotten))
    left = select(mails.c.content_id, mails.c.thread).where(among(writing, mails.c.thread, conversations)).limit(_MOST)
    _arrange(writing, {}, _sharing(writing, names) | as_map(writing.execute(left)))


def copies(reading: Reading, content_ids: Collection[int]) -> dict[int, list[int]]:
    """Return the contents that are the same message as each of these, with itself, in order. Omits those without copies."""
    named, member = mail_names.alias(), mail_names.alias()
    statement = (
        select(named.c.content_id, member.c.content_id)
        .join_from(named, member, member.c.name == named.c.name)
        .where(named.c.name < 0, among(reading, named.c.content_id, content_ids))
        .order_by(member.c.content_id)
    )
    result: defaultdict[int, list[int]] = defaultdict(list)
    for number, copy in reading.execute(statement) if content_ids else ():
        result[number].append(copy)
    return result


def _name_copies(writing: Writing, new: Mapping[int, Document]) -> None:
    """Give new messages and their copies a common name.

    An identifier is not enough: some programs use one for several messages, and a mailing list may change the text.
    """
    message, twin, words, twin_words = mails.alias(), mails.alias(), contents.alias(), contents.alias()
    statement = (
        select(message.c.content_id, twin.c.content_id, message.c.name, message.c.sent, words.c.title)
        .join_from(message, twin, (twin.c.base == message.c.base) & (twin.c.sent == message.c.sent))
        .join(words, words.c.id == message.c.content_id)
        .join(twin_words, twin_words.c.id == twin.c.content_id)
        .where(among(writing, message.c.content_id, new), message.c.content_id != twin.c.content_id)
        .where(message.c.name == twin.c.name, words.c.title == twin_words.c.title, words.c.text == twin_words.c.text)
    )
    rows = {
        (-_number(f"{identifier}\n{sent}\n{title}\n{new[number].text}"), member)
        for number, copy, identifier, sent, title in writing.execute(statement)
        for member in (number, copy)
    }
    if rows:
        writing.execute(delete(mail_names).where(among(writing, mail_names.c.name, {name for name, _ in rows})))
        writing.insert(mail_names, list(rows))


def _arrange(writing: Writing, new: Mapping[int, Envelope], near: Mapping[int, int]) -> None:
    """Compute the conversations of new messages and of the affected ones in `near` (content to conversation)."""
    known = _load(writing, near)
    fresh = {**new, **{number: mail.envelope for number, mail in known.items() if not mail.settled}}
    alone = {
        int(mail.key) for mail in mail_grouping.orphans([*new.values(), *(mail.envelope for mail in known.values())])
    } & fresh.keys()
    known |= _candidates(writing, [fresh[number] for number in alone], known)
    settled = {number: mail.conversation for number, mail in known.items() if mail.settled}
    everyone = [*fresh.values(), *(known[number].envelope for number in settled)]
    together: defaultdict[str, list[int]] = defaultdict(list)
    for key, name in mail_grouping.conversation_names(everyone, {str(number) for number in settled}).items():
        together[name].append(int(key))
    joined = Joined[int]()
    for numbers in together.values():
        for number in numbers:
            joined.join(min(numbers), settled.get(number, number))
    _save(writing, new, {n: (joined.of(n), n in alone) for n in fresh}, known)
    for conversation in set(settled.values()):
        if (target := joined.of(conversation)) != conversation:
            writing.execute(update(mails).where(mails.c.thread == conversation).values(thread=target))


def _save(
    writing: Writing, new: Mapping[int, Envelope], placed: Mapping[int, tuple[int, bool]], known: Mapping[int, _Known]
) -> None:
    columns = ("content_id", "name", "base", "sent", "thread", "orphan")
    rows = [
        (n, _names(envelope)[0], _base(envelope), maybe_micros(envelope.sent), *placed[n])
        for n, envelope in new.items()
    ]
    writing.insert(mails, rows, columns)
    changed = [
        {"content": n, "thread": conversation, "orphan": orphan}
        for n, (conversation, orphan) in placed.items()
        if n not in new and (conversation, orphan) != known[n][:2]
    ]
    if changed:
        writing.execute(update(mails).where(mails.c.content_id == bindparam("content")), changed)


# Affected messages


def _sharing(reading: Reading, names: Collection[int]) -> dict[int, int]:
    """Return the messages that have or mention one of these names, with their conversations."""
    statement = (
        select(mails.c.content_id, mails.c.thread)
        .join(mail_names, mail_names.c.content_id == mails.c.content_id)
        .where(among(reading, mail_names.c.name, names))
        .order_by(mails.c.content_id.desc())
        .limit(_MOST)
    )
    return as_map(reading.execute(statement))


def _orphans_that_may_answer(reading: Reading, new: Iterable[Envelope]) -> dict[int, int]:
    """Return unmatched replies that may answer one of these messages, by subject and time, with their conversations."""
    moments: defaultdict[int, list[int]] = defaultdict(list)
    for message in new:
        if message.sent is not None and (base := _base(message)) is not None:
            moments[base].append(to_micros(message.sent))
    statement = (
        select(mails.c.content_id, mails.c.thread, mails.c.base, mails.c.sent)
        .where(literal_column(ORPHAN), among(reading, mails.c.base, moments.keys()))
        .order_by(mails.c.content_id.desc())
        .limit(_MOST)
    )
    skew, window = SKEW.total_seconds() * 1e6, WINDOW.total_seconds() * 1e6
    return {
        number: conversation
        for number, conversation, base, sent in reading.execute(statement)
        if any(moment - skew <= sent <= moment + window for moment in moments[base])
    }


def _candidates(reading: Reading, replies: Iterable[Envelope], known: Collection[int]) -> dict[int, _Known]:
    """Return the messages that these replies may answer, by subject and time, except those in `known`."""
    moments: defaultdict[int, list[datetime]] = defaultdict(list)
    for reply in replies:
        if reply.sent is not None and (base := _base(reply)) is not None:
            moments[base].append(reply.sent)
    candidates: set[int] = set()
    for base, sent in moments.items():
        window = mails.c.sent.between(to_micros(min(sent) - WINDOW), to_micros(max(sent) + SKEW))
        latest = select(mails.c.content_id).where(mails.c.base == base, window).order_by(mails.c.sent.desc())
        candidates |= set(reading.execute(latest.limit(min(_MOST, MAX_CANDIDATES * len(sent)))).scalars())
    rows = _rows(reading, candidates - set(known), ())
    return {row.content_id: _known(row, settled=True) for row in rows}


def _load(reading: Reading, near: Mapping[int, int]) -> dict[int, _Known]:
    """Load these messages (content to conversation) and the rest of their conversations, up to the maximum."""
    conversations = set(near.values())
    sizes = (
        select(mails.c.thread, func.count())
        .where(among(reading, mails.c.thread, conversations))
        .group_by(mails.c.thread)
    )
    whole: set[int] = set()
    room = _MOST
    for conversation, size in sorted(reading.execute(sizes), key=lambda row: row[1]):
        room -= size
        if room >= 0:
            whole.add(conversation)
    rows = _rows(reading, [number for number, conversation in near.items() if conversation not in whole], whole)
    return {row.content_id: _known(row, settled=row.thread not in whole) for row in rows}


def _rows(reading: Reading, numbers: Collection[int], conversations: Collection[int]) -> list[AnyRow]:
    statement = select(
        mails.c.content_id, mails.c.thread, mails.c.orphan, contents.c.title, contents.c.created, contents.c.properties
    ).join(contents, contents.c.id == mails.c.content_id)
    conditions = ((mails.c.content_id, numbers), (mails.c.thread, conversations))
    return [
        row
        for column, values in conditions
        if values
        for row in reading.execute(statement.where(among(reading, column, values)))
    ]


def _known(row: AnyRow, *, settled: bool) -> _Known:
    created, properties = maybe_time(row.created), from_json(row.properties)
    document = Document("", MAIL, row.title, created=created, properties=properties)
    return _Known(row.thread, row.orphan, envelope(str(row.content_id), document), settled)


def _names(message: Envelope) -> list[int]:
    """Return the name of a message and the names it mentions, as hashes, since identifiers may be too long to index."""
    return list(dict.fromkeys(map(_number, mail_grouping.identifiers(message))))


def _base(message: Envelope) -> int | None:
    base, _ = mail_grouping.base_subject(message.subject)
    return _number(base) if base else None


def _number(text: str) -> int:
    """Return a 63-bit hash of the text."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8]) >> 1
