"""List an account: compare each folder's status with its mark, and report the differences in checkpointed parts.

A folder whose status equals its mark is not opened. In other folders, changes are reported by UID: deletions first,
then changed flags, then new messages in ascending order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from datetime import datetime, timedelta
from functools import cached_property, partial
from itertools import islice
from typing import TypeVar

from catchment.content.normalize.mail.attachments import inner
from catchment.contracts import Known
from catchment.errors import FetchFailed, ItemError, ParseError, SkipReason, SourceUnavailable, Vanished
from catchment.model import Change, Checkpoint, Failure, Item, Root, Skip, Tombstone, Upsert
from connectors.folders.excluded import no_longer_listed
from connectors.imap.auth import MARK
from connectors.imap.bodystructure import File, files
from connectors.imap.connection import ImapSession
from connectors.imap.connection_pool import Pool
from connectors.imap.mail_folders import SENT, MailboxMark, MailboxStatus, select_folders
from connectors.imap.names import MessageAddress, parse_locator
from connectors.imap.responses import Message
from connectors.imap.settings import ImapSettings

T = TypeVar("T")

_PART = 500
_AT_ONCE = 20
"""STATUS commands sent before the first response is read."""
_FLAGS_WATCHED = 500
"""Number of newest messages with flags that are reported again if the server does not count changes.

A deep sync reports all flags.
"""
_ODD_AT_MOST = 20
"""Unlistable messages tolerated per part; with more, the folder itself is reported as failing."""
_VERSION = "1"
_GENERATION = "generation"
_FOLDER = "folder "
_CLOSED = "excluded"
_ACCOUNT = ""
"""The container of the items that stand for unreadable folders. No folder has an empty name."""


class Changes:
    """One listing of an account. Larger items than `max_bytes` are skipped. `deep`: everything is compared again.

    The listing also stores the expiry of the login as a mark.
    """

    def __init__(self, settings: ImapSettings, pool: Pool, known: Known, max_bytes: int, *, deep: bool) -> None:
        self.pool = pool
        self.known = known
        self.deep = deep
        self._settings = settings
        self._marks = known.marks()
        self._max_bytes = max_bytes
        self.since = f"{settings.since or ''}"
        self._sent: Set[str] = set()

    def run(self) -> Iterator[Change]:
        """Yield all changes, as `Connector.changes` does."""
        existing, statuses = self._survey()
        generation = self._generation(statuses)
        yield self._root(generation)
        yield Checkpoint({_GENERATION: str(generation), MARK: self.pool.login.expiry.mark()})
        yield from self._removed_folders(existing, statuses)
        for name, status in statuses.items():
            if isinstance(status, ItemError):
                yield from self._report_failing_folder(name, status)
            # A mark is not enough: an interrupted listing may not have stored it.
            elif (
                self.deep
                or _folder_locator(name) in self._failing_folders
                or self._marks.get(_mark(name)) != status.mark(self.since)
            ):
                yield from self._compare_folder(name, status)
        yield Checkpoint()

    def between(self, since: datetime, until: datetime) -> Iterator[Change]:
        """Yield the messages of a period, as `Windowed.changes_between` does."""
        _, statuses = self._survey()
        # A new generation is for `run` to report, together with the deletions to hold.
        yield self._root(self._listed_generation)
        is_torn = False
        for name, status in statuses.items():
            if isinstance(status, ItemError):
                yield from self._report_failing_folder(name, status)
                is_torn = True
                continue
            try:
                yield from self._comparison(name, status).between(since, until)
            except Vanished as error:
                changed = "a folder was renumbered or deleted during the listing; try again"
                raise SourceUnavailable(f"{self._settings.host}: {changed}") from error
            except ItemError as error:
                yield from self._report_failing_folder(name, error)
                is_torn = True
        yield Checkpoint(is_torn=is_torn)

    def _root(self, generation: int) -> Root:
        account = hashlib.sha256(f"{self._settings.user}@{self._settings.host}".encode()).hexdigest()[:16]
        return Root({"": f"{account}.{generation}"})

    def _survey(self) -> tuple[set[str], dict[str, MailboxStatus | ItemError]]:
        """Return the names of all folders, and the status or error of each selected folder."""
        try:
            surveyed, by_label = self.pool.request(lambda session: (session.survey(), session.has_labels))
        except FetchFailed as error:
            raise SourceUnavailable(f"folders cannot be listed: {error}") from error
        existing = {folder.name for folder in surveyed if folder.holds_messages}
        statuses: dict[str, MailboxStatus | ItemError] = {}
        without_status: list[str] = []
        self._sent = {folder.name for folder in surveyed if folder.is_sent}
        selected = select_folders(self._settings, surveyed, by_label=by_label)
        if len(selected) > (allowed := self._settings.max_folders):
            raise SourceUnavailable(
                f"{self._settings.host}: {len(selected)} folders match, {allowed} allowed; narrow include, extend exclude, or "
                "raise max_folders"
            )
        for folder in selected:
            if status := surveyed[folder]:
                statuses[folder.name] = status
            else:
                without_status.append(folder.name)
        for names in _parts(without_status, _AT_ONCE):
            statuses |= self._statuses(names)
        # Deleted since they were listed, or listed only as parents of other folders.
        deleted = {name for name, status in statuses.items() if isinstance(status, Vanished)}
        return existing - deleted, {name: status for name, status in statuses.items() if name not in deleted}

    def _statuses(self, names: Sequence[str]) -> dict[str, MailboxStatus | ItemError]:
        try:
            surveyed = self.pool.request(lambda session: session.statuses(names), cost=len(names))
        except ItemError:
            surveyed = {}
        return {name: surveyed.get(name) or self._status(name) for name in names}

    def _status(self, name: str) -> MailboxStatus | ItemError:
        try:
            return self.pool.request(lambda session: session.status(name))
        except ItemError as error:
            return error

    def _generation(self, statuses: Mapping[str, MailboxStatus | ItemError]) -> int:
        """Return a counter that increases when folders are renumbered: deletions after that may be artefacts."""
        generation = self._listed_generation
        for name, status in statuses.items():
            mark = MailboxMark.read(self._marks.get(_mark(name)))
            if mark is not None and isinstance(status, MailboxStatus) and mark.validity != status.validity:
                return generation + 1
        return generation

    @property
    def _listed_generation(self) -> int:
        return int(self._marks.get(_GENERATION, "0"))

    # Folders that are not read

    def _removed_folders(self, existing: Set[str], selected: Collection[str]) -> Iterator[Change]:
        """Report the known items of folders that were deleted or deselected."""
        yield from (
            Tombstone(trouble) for trouble in sorted(self._failing_folders - set(map(_folder_locator, selected)))
        )
        known = self._containers - {_ACCOUNT}
        for name in sorted(known):
            if name in selected:
                continue
            if name not in existing:
                yield from no_longer_listed(self.known, name, is_deleted=True)
                yield Checkpoint({_mark(name): None})
            elif self._marks.get(_mark(name)) != _CLOSED:
                # The skips may be recorded only in part. Without a mark, the folder is compared again if it is selected
                # before that.
                yield Checkpoint({_mark(name): None})
                yield from no_longer_listed(self.known, name, is_deleted=False)
                yield Checkpoint({_mark(name): _CLOSED})
        for key in self._marks:
            name = key.removeprefix(_FOLDER)
            if key.startswith(_FOLDER) and name not in existing and name not in known:
                yield Checkpoint({key: None})

    def _report_failing_folder(self, name: str, error: ItemError) -> Iterator[Change]:
        """Report an unreadable folder as a failing item; its known items are kept."""
        yield Failure(Item(_folder_locator(name), _ACCOUNT, "closed"), error)
        yield Checkpoint()

    @cached_property
    def _containers(self) -> Set[str]:
        return self.known.containers()

    @cached_property
    def _failing_folders(self) -> Set[str]:
        """The items that stand for folders that were unreadable in the last listing."""
        return self.known.within(_ACCOUNT).keys() if _ACCOUNT in self._containers else set()

    # One folder

    def _compare_folder(self, name: str, status: MailboxStatus) -> Iterator[Change]:
        try:
            yield from self._comparison(name, status).run()
        except Vanished:
            return  # Renumbered since its status was read; the next sync starts over.
        except ItemError as error:
            yield from self._report_failing_folder(name, error)
            return
        if _folder_locator(name) in self._failing_folders:
            yield Tombstone(_folder_locator(name))
        yield Checkpoint({_mark(name): status.mark(self.since)})

    def _comparison(self, name: str, status: MailboxStatus) -> _FolderComparison:
        mark = MailboxMark.read(self._marks.get(_mark(name)))
        return _FolderComparison(self, name, status, None if mark is None or mark.validity != status.validity else mark)

    @cached_property
    def identities(self) -> Set[str]:
        """The identities of the source's items; empty if there were no items before this listing."""
        return self.known.identities() if self._containers else frozenset()

    @property
    def is_first(self) -> bool:
        """Whether no folder was listed yet."""
        return not any(key.startswith(_FOLDER) for key in self._marks)

    def items(self, name: str, status: MailboxStatus, message: Message) -> Iterator[Change]:
        """Yield a message and its attachments."""
        common = {"message_id": message.message_id} if message.message_id else {}
        # Gmail leaves out the label of the folder that is read.
        names = sorted({*message.labels, SENT}) if name in self._sent else list(message.labels)
        labels = {"labels": names} if names or message.number else {}
        item = Item(
            MessageAddress(name, status.validity, message.uid).locator,
            name,
            _VERSION,
            message.identity(),
            message.size,
            message.received,
            {**common, **labels, "flags": list(message.flags)},
        )
        yield self._sized(item)
        if self._settings.attachments:
            for file, within in self._files(name, status, message):
                locator = MessageAddress(name, status.validity, message.uid, file.part).locator
                item_identity = message.identity(file.part)
                attributes = {**common, "media_type": file.media_type} | ({"within": within} if within else {})
                yield self._sized(Item(locator, name, _VERSION, item_identity, file.size, message.received, attributes))

    def _files(self, name: str, status: MailboxStatus, message: Message) -> Iterator[tuple[File, str]]:
        """Yield the files of a message, each with the part to fetch if the server does not number the file."""
        for file in files(message.structure):
            yield file, ""
            if file.is_message and file.size <= self._max_bytes:
                try:
                    one_part = partial(ImapSession.part, uid=message.uid, number=file.part)
                    part = self.pool.in_folder(name, status.validity, one_part)
                    contained = list(inner(part[1], file.part)) if part else []
                except (FetchFailed, ParseError):
                    continue  # The fetch of the file itself reports it.
                for each in contained:
                    yield File(each.part, each.media_type, each.size), file.part

    def _sized(self, item: Item) -> Change:
        return Skip(item, SkipReason.TOO_LARGE) if (item.size or 0) > self._max_bytes else Upsert(item)


class _FolderComparison:
    """The comparison of one folder. `mark` is its last state; None to compare everything."""

    def __init__(self, changes: Changes, name: str, status: MailboxStatus, mark: MailboxMark | None) -> None:
        self._changes = changes
        self._name = name
        self._status = status
        self._mark = mark

    def run(self) -> Iterator[Change]:
        mark, status = self._mark, self._status
        self._request(ImapSession.refresh)
        if mark is None or self._changes.deep:
            present = self._uids(1, status.next - 1)
            yield from self._missing(present)
            yield from self._new_messages(self._selected(present))
            return
        changed, deleted = self._changes_since(mark)
        new = [uid for uid in self._uids(mark.next, status.next - 1) if uid >= mark.next]
        # After an interrupted listing, the mark may end before the last known message; later deletions are then not
        # reported.
        if deleted is None or mark.messages is None:
            no_deletions = mark.messages is not None and status.messages == mark.messages + len(new)
            yield from () if no_deletions else self._missing(self._uids(1, status.next - 1))
        else:
            yield from self._deleted(deleted)
        older: list[int] = []
        if self._changes.since < mark.since:
            older = self._uids(1, mark.next - 1, self._changes.since, mark.since)
        for uids in _parts([*self._selected(changed), *older], _PART):
            yield from self._messages(uids)
        yield from self._new_messages(self._selected(new))

    def _selected(self, uids: Sequence[int]) -> Sequence[int]:
        """Return the UIDs of the messages that `since` selects, that are known, or that may have moved here."""
        next_uid = self._mark.next if self._mark else 1
        was_listed = self._mark is not None and self._mark.messages is not None
        if not self._changes.since or not uids or (was_listed and uids[0] >= next_uid):
            return uids
        selected = {at.uid for at in self._known_items.values() if at and at.validity == self._status.validity}
        selected.update(self._uids(uids[0], uids[-1], self._changes.since))
        older = [uid for uid in uids if uid >= next_uid and uid not in selected]
        if was_listed:
            selected.update(older)
        elif identities := self._changes.identities:
            for part in _parts(older, _PART):
                for message in self._list(part, structure=False):
                    if isinstance(message, Message) and message.identity() in identities:
                        selected.add(message.uid)
        return [uid for uid in uids if uid in selected]

    def between(self, since: datetime, until: datetime) -> Iterator[Change]:
        """Yield the messages of a period, except those that may have moved: `run` must see these first, not as copies."""
        self._request(ImapSession.refresh)
        # A server searches by its own days.
        first_day, next_day = since.date() - timedelta(days=1), until.date() + timedelta(days=2)
        uids = self._uids(1, self._status.next - 1, f"{first_day}", f"{next_day}")
        next_uid = self._mark.next if self._mark else 1
        listed = frozenset() if self._changes.is_first else self._changes.identities

        def is_wanted(message: Message) -> bool:
            may_have_moved = message.uid >= next_uid and message.identity() in listed
            return not may_have_moved and (message.received is None or since <= message.received < until)

        for part in _parts(uids, _PART):
            yield from self._messages(part, is_wanted)
            yield Checkpoint()

    def _changes_since(self, mark: MailboxMark) -> tuple[list[int], list[tuple[int, int]] | None]:
        """Return the UIDs whose flags may have changed, and the ranges of deleted UIDs; None if the server does not
        report those."""
        last = mark.next - 1
        if last < 1:
            return [], []
        if not (mark.modseq and self._status.modseq):
            return list(self._uids(1, last))[-_FLAGS_WATCHED:], None
        if mark.modseq == self._status.modseq:
            return [], None
        changed, deleted = self._request(lambda session: session.changed(last, mark.modseq))
        can_vanish = self._request(lambda session: session.can_vanish)
        return [uid for uid in changed if uid <= last], deleted if can_vanish else None

    def _new_messages(self, uids: Sequence[int]) -> Iterator[Change]:
        for part in _parts(uids, _PART):
            yield from self._messages(part)
            if part[-1] < self._status.next - 1:
                yield Checkpoint({_mark(self._name): self._status.mark_up_to(part[-1], self._changes.since)})

    def _messages(self, uids: Sequence[int], is_wanted: Callable[[Message], bool] = lambda _: True) -> Iterator[Change]:
        for message in self._list(uids):
            if not isinstance(message, Message):
                yield message
            elif is_wanted(message):
                yield from self._changes.items(self._name, self._status, message)

    def _list(self, uids: Sequence[int], *, structure: bool = True) -> Iterator[Message | Failure]:
        """Yield the messages; a Failure for each message that cannot be listed, isolated by halving the request."""
        odd = 0
        waiting = [list(uids)]
        while waiting:
            part = waiting.pop()
            try:
                yield from self._request(lambda session, part=part: session.messages(part, structure=structure))  # type: ignore[misc]
            except FetchFailed as error:
                if len(part) > 1:
                    waiting += [part[len(part) // 2 :], part[: len(part) // 2]]
                    continue
                odd += 1
                if odd > _ODD_AT_MOST:
                    raise
                yield from self._list_without_structure(part, error)

    def _list_without_structure(self, uids: list[int], error: FetchFailed) -> Iterator[Message | Failure]:
        """Yield a message without its structure, or a Failure if that fails too."""
        try:
            yield from self._request(lambda session: session.messages(uids, structure=False))
        except FetchFailed:
            locator = MessageAddress(self._name, self._status.validity, uids[0]).locator
            yield Failure(Item(locator, self._name, _VERSION), error)

    # Deleted messages

    @cached_property
    def _known_items(self) -> dict[str, MessageAddress | None]:
        return {locator: parse_locator(locator) for locator in self._changes.known.within(self._name)}

    def _missing(self, present: Sequence[int]) -> Iterator[Change]:
        existing = set(present)
        for locator, at in sorted(self._known_items.items()):
            if at is None or at.validity != self._status.validity or at.uid not in existing:
                yield Tombstone(locator)

    def _deleted(self, ranges: Sequence[tuple[int, int]]) -> Iterator[Change]:
        if not ranges:
            return
        for locator, at in sorted(self._known_items.items()):
            if at is None or any(first <= at.uid <= last for first, last in ranges):
                yield Tombstone(locator)

    # Requests

    def _uids(self, first: int, last: int, since: str = "", before: str = "") -> list[int]:
        return self._request(lambda session: list(session.uids(first, last, since, before))) if first <= last else []

    def _request(self, operation: Callable[[ImapSession], T]) -> T:
        return self._changes.pool.in_folder(self._name, self._status.validity, operation)


def _parts(all_of: Sequence[T], allowed: int) -> Iterator[list[T]]:
    rest = iter(all_of)
    while part := list(islice(rest, allowed)):
        yield part


def _mark(name: str) -> str:
    return f"{_FOLDER}{name}"


def _folder_locator(name: str) -> str:
    """Return the locator of the item for an unreadable folder. `parse_locator` returns None for it."""
    return f"{name};"
