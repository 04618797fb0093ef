"""What a folder says of itself, and what is kept of that as its mark."""

from __future__ import annotations

from typing import NamedTuple

_TRASH = frozenset({"\\Trash", "\\Junk"})
_NO_MESSAGES = frozenset({"\\Noselect", "\\NonExistent"})
_UNFINISHED = -1
TROUBLED = "!"
"""Ends the mark of a folder that could not be read the last time."""


class Folder(NamedTuple):
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


class Status(NamedTuple):
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


class Mark(NamedTuple):
    """A mark that was kept. `messages` is None where the folder was not told to its end."""

    validity: int
    next: int
    modseq: int
    messages: int | None

    @classmethod
    def read(cls, text: str | None) -> Mark | None:
        """The mark in this form; None where there is none."""
        try:
            validity, following, modseq, messages, _ = map(int, (text or "").removesuffix(TROUBLED).split(";"))
        except ValueError:
            return None
        return cls(validity, following, modseq, None if messages == _UNFINISHED else messages)


def _mark(*numbers: int) -> str:
    return ";".join(map(str, numbers))


def _has(flags: tuple[str, ...], wanted: frozenset[str]) -> bool:
    return not {flag.lower() for flag in flags}.isdisjoint(flag.lower() for flag in wanted)
