"""What a folder says of itself, which folders are wanted, and what is kept of a folder as its mark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from connectors.imap.names import matches
from connectors.imap.settings import ImapSettings

_ALL = frozenset({"\\All"})
_TRASH = frozenset({"\\Trash", "\\Junk"})
_NO_MESSAGES = frozenset({"\\Noselect", "\\NonExistent"})
_UNFINISHED = -1


class MailFolder(NamedTuple):
    """A folder and its attributes, such as `\\Noselect` and the special uses of RFC 6154."""

    name: str
    flags: tuple[str, ...]

    @property
    def holds_messages(self) -> bool:
        """Whether there can be messages in it."""
        return not _has(self.flags, _NO_MESSAGES)

    @property
    def is_trash(self) -> bool:
        """Whether it holds what was thrown away, or junk."""
        return _has(self.flags, _TRASH)

    @property
    def holds_all(self) -> bool:
        """Whether every message is in it that is in any other folder, other than trash and junk."""
        return _has(self.flags, _ALL)


def chosen(settings: ImapSettings, folders: Iterable[MailFolder], *, by_label: bool) -> list[MailFolder]:
    """The folders whose messages are wanted.

    `by_label`: a folder is what has a label (Gmail). Then the one that holds everything is enough, unless folders were named.
    """
    there = [folder for folder in folders if folder.holds_messages and not matches(folder.name, settings.exclude)]
    if settings.include:
        return [folder for folder in there if matches(folder.name, settings.include)]
    enough = by_label and any(folder.holds_all for folder in there)
    return [folder for folder in there if (settings.trash if folder.is_trash else folder.holds_all or not enough)]


class MailboxStatus(NamedTuple):
    """How a folder stands. `modseq` is 0 where the server counts no changes; only then `unseen` matters."""

    validity: int
    next: int
    messages: int
    modseq: int
    unseen: int

    def mark(self) -> str:
        """What is kept when all of the folder was told. Equal marks: nothing to tell."""
        return _mark(self.validity, self.next, self.modseq, self.messages, 0 if self.modseq else self.unseen)

    def mark_up_to(self, uid: int) -> str:
        """What is kept when the messages up to this one were told as they were now or later."""
        return _mark(self.validity, uid + 1, self.modseq, _UNFINISHED, 0)


class MailboxMark(NamedTuple):
    """A mark that was kept. `messages` is None where the folder was not told to its end."""

    validity: int
    next: int
    modseq: int
    messages: int | None

    @classmethod
    def read(cls, text: str | None) -> MailboxMark | None:
        """The mark in this form; None where there is none."""
        try:
            validity, following, modseq, messages, _ = map(int, (text or "").split(";"))
        except ValueError:
            return None
        return cls(validity, following, modseq, None if messages == _UNFINISHED else messages)


def _mark(*numbers: int) -> str:
    return ";".join(map(str, numbers))


def _has(flags: tuple[str, ...], wanted: frozenset[str]) -> bool:
    return not {flag.lower() for flag in flags}.isdisjoint(flag.lower() for flag in wanted)
