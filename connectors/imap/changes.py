"""What is different in an account: its folders one by one, each compared with its mark, and told in parts.

A folder whose status equals its mark is not opened. What is told of a folder goes by UIDs: those that vanished first, then
those whose flags changed, then the new ones in rising order, with a checkpoint after each part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import islice
from typing import TypeVar

from catchment.contracts import Known
from catchment.errors import FetchFailed, ItemError, SourceUnavailable, Vanished
from catchment.model import Change, Checkpoint, Failure, Item, KnownItem, Root, Skip, SkipReason, Tombstone, Upsert
from connectors.imap.auth import MARK, Login
from connectors.imap.bodystructure import files
from connectors.imap.folders import MailboxMark, MailboxStatus, chosen
from connectors.imap.names import MessagePlace, identity, place
from connectors.imap.pool import Request
from connectors.imap.responses import Message
from connectors.imap.session import ImapSession
from connectors.imap.settings import ImapSettings

T = TypeVar("T")

_PART = 500
_AT_ONCE = 20
"""Folders whose status is asked for before the first answer is read."""
_FLAGS_WATCHED = 500
"""Messages whose flags are told again where the server counts no changes: the newest; a deep sync tells all."""
_ODD_AT_MOST = 20
"""Messages of one part that are told apart because they cannot be listed; with more the folder itself is in trouble."""
_VERSION = "1"
_EXCLUDED = f"{_VERSION}+{SkipReason.EXCLUDED}"
_GENERATION = "generation"
_FOLDER = "folder "
_CLOSED = "excluded"
_ACCOUNT = ""
"""The container of the folders that could not be read, each an item of its own; no folder has an empty name."""


class Changes:
    """One listing of an account. `ask` puts a question to the server; `max_bytes` is the size up to which a thing is read.

    How long the `login` lasts is marked, for whoever wants to know.
    """

    def __init__(
        self, settings: ImapSettings, ask: Request, known: Known, max_bytes: int, login: Login, *, deep: bool
    ) -> None:
        self._settings = settings
        self._ask = ask
        self._known = known
        self._marks = known.marks()
        self._max_bytes = max_bytes
        self._login = login
        self._deep = deep

    def tell(self) -> Iterator[Change]:
        """As `Connector.changes`."""
        there, statuses = self._stand()
        generation = self._generation(statuses)
        account = hashlib.sha256(f"{self._settings.user}@{self._settings.host}".encode()).hexdigest()[:16]
        yield Root(f"{account}.{generation}")
        yield Checkpoint({_GENERATION: str(generation), MARK: self._login.standing.mark()})
        yield from self._gone(there, statuses)
        for name, status in statuses.items():
            if isinstance(status, ItemError):
                yield from self._in_trouble(name, status)
            # A mark alone does not tell: that of a listing which was broken off may not have been kept.
            elif self._deep or _trouble(name) in self._troubled or self._marks.get(_mark(name)) != status.mark():
                yield from self._tell_folder(name, status)
        yield Checkpoint()

    def _stand(self) -> tuple[set[str], dict[str, MailboxStatus | ItemError]]:
        """The folders that there are, and how those stand that are wanted."""
        try:
            told, by_label = self._ask(lambda session: (session.survey(), session.has_labels))
        except FetchFailed as error:
            raise SourceUnavailable(f"its folders cannot be listed: {error}") from error
        there = {folder.name for folder in told if folder.holds_messages}
        statuses: dict[str, MailboxStatus | ItemError] = {}
        silent: list[str] = []
        wanted = chosen(self._settings, told, by_label=by_label)
        if len(wanted) > (most := self._settings.max_folders):
            raise SourceUnavailable(
                f"{self._settings.host}: {len(wanted)} folders match, {most} allowed; narrow include, extend exclude, or "
                "raise max_folders"
            )
        for folder in wanted:
            if status := told[folder]:
                statuses[folder.name] = status
            else:
                silent.append(folder.name)
        for names in _parts(silent, _AT_ONCE):
            statuses |= self._statuses(names)
        # Deleted just now, or listed for the sake of what is below it.
        gone = {name for name, status in statuses.items() if isinstance(status, Vanished)}
        return there - gone, {name: status for name, status in statuses.items() if name not in gone}

    def _statuses(self, names: Sequence[str]) -> dict[str, MailboxStatus | ItemError]:
        try:
            told = self._ask(lambda session: session.statuses(names), cost=len(names))
        except ItemError:
            told = {}
        return {name: told.get(name) or self._status(name) for name in names}

    def _status(self, name: str) -> MailboxStatus | ItemError:
        try:
            return self._ask(lambda session: session.status(name))
        except ItemError as error:
            return error

    def _generation(self, statuses: Mapping[str, MailboxStatus | ItemError]) -> int:
        """Counts how often folders were numbered anew: what is missed after that is missed for a reason of the server's."""
        generation = int(self._marks.get(_GENERATION, "0"))
        for name, status in statuses.items():
            mark = MailboxMark.read(self._marks.get(_mark(name)))
            if mark is not None and isinstance(status, MailboxStatus) and mark.validity != status.validity:
                return generation + 1
        return generation

    # Folders that are not read

    def _gone(self, there: Set[str], wanted: Collection[str]) -> Iterator[Change]:
        """What is known in folders that are not there any more, or not wanted any more."""
        yield from (Tombstone(trouble) for trouble in sorted(self._troubled - set(map(_trouble, wanted))))
        known = self._containers - {_ACCOUNT}
        for name in sorted(known):
            if name in wanted:
                continue
            if name not in there:
                yield from (Tombstone(locator) for locator in sorted(self._known.within(name)))
                yield Checkpoint({_mark(name): None})
            elif self._marks.get(_mark(name)) != _CLOSED:
                # Not all of it may be recorded at once: its mark must not hold when it is wanted again before it is.
                yield Checkpoint({_mark(name): None})
                for locator in sorted(self._known.within(name)):
                    yield Skip(Item(locator, name, _EXCLUDED), SkipReason.EXCLUDED)
                yield Checkpoint({_mark(name): _CLOSED})
        for key in self._marks:
            name = key.removeprefix(_FOLDER)
            if key.startswith(_FOLDER) and name not in there and name not in known:
                yield Checkpoint({key: None})

    def _in_trouble(self, name: str, error: ItemError) -> Iterator[Change]:
        """A folder that cannot be opened keeps what is known of it, and stands as a failed item of its own."""
        yield Failure(Item(_trouble(name), _ACCOUNT, "closed"), error)
        yield Checkpoint()

    @cached_property
    def _containers(self) -> Set[str]:
        return self._known.containers()

    @cached_property
    def _troubled(self) -> Set[str]:
        """What stands for the folders that could not be read the last time."""
        return self._known.within(_ACCOUNT).keys() if _ACCOUNT in self._containers else set()

    # One folder

    def _tell_folder(self, name: str, status: MailboxStatus) -> Iterator[Change]:
        mark = MailboxMark.read(self._marks.get(_mark(name)))
        telling = _Telling(self, name, status, None if mark is None or mark.validity != status.validity else mark)
        try:
            yield from telling.tell()
        except Vanished:
            return  # It was numbered anew since its status was asked: the next sync begins with that.
        except ItemError as error:
            yield from self._in_trouble(name, error)
            return
        if _trouble(name) in self._troubled:
            yield Tombstone(_trouble(name))
        yield Checkpoint({_mark(name): status.mark()})

    def ask(self, name: str, status: MailboxStatus, question: Callable[[ImapSession], T]) -> T:
        """Put a question about a folder, opened as it was when its status was asked."""

        def within(session: ImapSession) -> T:
            session.open(name, status.validity)
            return question(session)

        return self._ask(within)

    def known(self, name: str) -> Mapping[str, KnownItem]:
        """What is known of a folder."""
        return self._known.within(name)

    def items(self, name: str, status: MailboxStatus, message: Message) -> Iterator[Change]:
        """A message and the files in it."""
        arrived = "" if message.received is None else message.received.isoformat()
        # Gmail's own number is the same under every label.
        who = f"{message.number}" if message.number else message.message_id
        facts = {"message_id": message.message_id} if message.message_id else {}
        shown = {"labels": list(message.labels)} if message.number else {}
        item = Item(
            MessagePlace(name, status.validity, message.uid).locator,
            name,
            _VERSION,
            identity(who, message.size, arrived),
            message.size,
            message.received,
            {**facts, **shown, "flags": list(message.flags)},
        )
        yield self._sized(item)
        if self._settings.attachments:
            for file in files(message.structure):
                locator = MessagePlace(name, status.validity, message.uid, file.part).locator
                same = identity(who, message.size, arrived, file.part)
                attributes = {**facts, "media_type": file.media_type}
                yield self._sized(Item(locator, name, _VERSION, same, file.size, message.received, attributes))

    @property
    def deep(self) -> bool:
        """Whether everything is told again."""
        return self._deep

    def _sized(self, item: Item) -> Change:
        return Skip(item, SkipReason.TOO_LARGE) if (item.size or 0) > self._max_bytes else Upsert(item)


class _Telling:
    """What is different in one folder. `mark` is where it was told up to, None where it is told from the beginning."""

    def __init__(self, changes: Changes, name: str, status: MailboxStatus, mark: MailboxMark | None) -> None:
        self._changes = changes
        self._name = name
        self._status = status
        self._mark = mark

    def tell(self) -> Iterator[Change]:
        mark, status = self._mark, self._status
        self._ask(ImapSession.refresh)
        if mark is None or self._changes.deep:
            present = self._present(status.next - 1)
            yield from self._not_among(present)
            yield from self._in_parts(present)
            return
        flagged, gone = self._told_since(mark)
        new = [uid for uid in self._uids(mark.next, status.next - 1) if uid >= mark.next]
        # Of a listing that was cut short the mark may end before what is known: what vanished behind it is told by nobody.
        if gone is None or mark.messages is None:
            explained = mark.messages is not None and status.messages == mark.messages + len(new)
            yield from () if explained else self._not_among(self._present(status.next - 1))
        else:
            yield from self._gone_of(gone)
        for uids in _parts(flagged, _PART):
            yield from self._messages(uids)
        yield from self._in_parts(new)

    def _told_since(self, mark: MailboxMark) -> tuple[list[int], list[tuple[int, int]] | None]:
        """The messages whose flags may be others, and the ranges of UIDs that vanished; None where that is not told."""
        last = mark.next - 1
        if last < 1:
            return [], []
        if not (mark.modseq and self._status.modseq):
            return list(self._present(last))[-_FLAGS_WATCHED:], None
        if mark.modseq == self._status.modseq:
            return [], None
        flagged, gone = self._ask(lambda session: session.changed(last, mark.modseq))
        can_vanish = self._ask(lambda session: session.can_vanish)
        return [uid for uid in flagged if uid <= last], gone if can_vanish else None

    def _in_parts(self, uids: Sequence[int]) -> Iterator[Change]:
        for part in _parts(uids, _PART):
            yield from self._messages(part)
            if part[-1] < self._status.next - 1:
                yield Checkpoint({_mark(self._name): self._status.mark_up_to(part[-1])})

    def _messages(self, uids: Sequence[int]) -> Iterator[Change]:
        for message in self._listed(uids):
            if isinstance(message, Message):
                yield from self._changes.items(self._name, self._status, message)
            else:
                yield message

    def _listed(self, uids: Sequence[int]) -> Iterator[Message | Failure]:
        """The messages, and as a failure each that cannot be listed, found by asking for ever smaller parts."""
        odd = 0
        waiting = [list(uids)]
        while waiting:
            part = waiting.pop()
            try:
                yield from self._ask(lambda session, part=part: session.messages(part, structure=True))  # type: ignore[misc]
            except FetchFailed as error:
                if len(part) > 1:
                    waiting += [part[len(part) // 2 :], part[: len(part) // 2]]
                    continue
                odd += 1
                if odd > _ODD_AT_MOST:
                    raise
                yield from self._plainly(part, error)

    def _plainly(self, uids: list[int], error: FetchFailed) -> Iterator[Message | Failure]:
        """A message without a word about its parts, or else as a failure."""
        try:
            yield from self._ask(lambda session: session.messages(uids, structure=False))
        except FetchFailed:
            locator = MessagePlace(self._name, self._status.validity, uids[0]).locator
            yield Failure(Item(locator, self._name, _VERSION), error)

    # What is gone

    @cached_property
    def _here(self) -> dict[str, MessagePlace | None]:
        return {locator: place(locator) for locator in self._changes.known(self._name)}

    def _not_among(self, present: Sequence[int]) -> Iterator[Change]:
        there = set(present)
        for locator, at in sorted(self._here.items()):
            if at is None or at.validity != self._status.validity or at.uid not in there:
                yield Tombstone(locator)

    def _gone_of(self, ranges: Sequence[tuple[int, int]]) -> Iterator[Change]:
        if not ranges:
            return
        for locator, at in sorted(self._here.items()):
            if at is None or any(first <= at.uid <= last for first, last in ranges):
                yield Tombstone(locator)

    # Questions

    def _present(self, last: int) -> list[int]:
        return self._uids(1, last)

    def _uids(self, first: int, last: int) -> list[int]:
        return self._ask(lambda session: list(session.uids(first, last))) if first <= last else []

    def _ask(self, question: Callable[[ImapSession], T]) -> T:
        return self._changes.ask(self._name, self._status, question)


def _parts(all_of: Sequence[T], most: int) -> Iterator[list[T]]:
    rest = iter(all_of)
    while part := list(islice(rest, most)):
        yield part


def _mark(name: str) -> str:
    return f"{_FOLDER}{name}"


def _trouble(name: str) -> str:
    """The locator of a folder that cannot be read; `place` knows it for none of a message."""
    return f"{name};"
