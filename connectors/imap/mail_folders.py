"""Folders: their attributes, which of them are selected, their status, and the mark stored for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from connectors.imap.names import matches
from connectors.imap.settings import ImapSettings

SENT = "\\Sent"
"""Special use of the folder for sent messages, and Gmail's label of these messages."""
_TRASH = frozenset({"\\trash", "\\junk"})
_NO_MESSAGES = frozenset({"\\noselect", "\\nonexistent"})
_INCOMPLETE = -1


class MailFolder(NamedTuple):
    r"""A folder and its attributes in lower case, such as `\noselect` and the special uses of RFC 6154."""

    name: str
    flags: frozenset[str]

    @property
    def holds_messages(self) -> bool:
        """Whether the folder can contain messages."""
        return self.flags.isdisjoint(_NO_MESSAGES)

    @property
    def is_trash(self) -> bool:
        """Whether the folder is for deleted messages or junk."""
        return not self.flags.isdisjoint(_TRASH)

    @property
    def is_sent(self) -> bool:
        """Whether the folder is for the user's own messages."""
        return SENT.lower() in self.flags

    @property
    def holds_all(self) -> bool:
        """Whether the folder contains every message of all folders except trash and junk."""
        return "\\all" in self.flags


def select_folders(settings: ImapSettings, folders: Iterable[MailFolder], *, by_label: bool) -> list[MailFolder]:
    """Return the folders selected by the settings.

    `by_label`: folders are labels (Gmail). The folder with all messages is then sufficient, unless folders are named.
    """
    existing = [folder for folder in folders if folder.holds_messages and not matches(folder.name, settings.exclude)]
    if settings.include:
        return [folder for folder in existing if matches(folder.name, settings.include)]
    one_is_enough = by_label and any(folder.holds_all for folder in existing)
    return [
        folder for folder in existing if (settings.trash if folder.is_trash else folder.holds_all or not one_is_enough)
    ]


class MailboxStatus(NamedTuple):
    """The status of a folder. `modseq` is 0 if the server does not count changes; `unseen` is only used then."""

    validity: int
    next: int
    messages: int
    modseq: int
    unseen: int

    def mark(self, since: str) -> str:
        """Return the mark for a folder completely listed from this day on. Equal marks mean an unchanged folder."""
        return _mark(since, self.validity, self.next, self.modseq, self.messages, 0 if self.modseq else self.unseen)

    def mark_up_to(self, uid: int, since: str) -> str:
        """Return the mark for a folder that was listed up to this UID."""
        return _mark(since, self.validity, uid + 1, self.modseq, _INCOMPLETE, 0)


class MailboxMark(NamedTuple):
    """A stored mark. `messages` is None if the folder was not listed completely.

    `since` is the day from which it was listed, as an ISO date; "" for all messages.
    """

    validity: int
    next: int
    modseq: int
    messages: int | None
    since: str

    @classmethod
    def read(cls, text: str | None) -> MailboxMark | None:
        """Parse a mark; return None if there is none, or if it has another form."""
        try:
            *numbers, since = f"{text};".split(";")[:6]
            validity, following, modseq, messages, _ = map(int, numbers)
        except ValueError:
            return None
        return cls(validity, following, modseq, None if messages == _INCOMPLETE else messages, since)


def _mark(since: str, *numbers: int) -> str:
    return ";".join(filter(None, [*map(str, numbers), since]))
