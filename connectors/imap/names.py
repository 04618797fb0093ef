"""What things are called: a message as a locator, a folder as text, and which folders a person means."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import NamedTuple

from imapclient import imap_utf7

from catchment.model import PART

_LOCATOR = re.compile(rf"(.*);UIDVALIDITY=(\d+);UID=(\d+)(?:{PART}([\d.]+))?", re.DOTALL)
_UNSPELLABLE = "\ufffd"
"""Begins the text of a folder name that is no modified UTF-7; what follows are its bytes."""


class MessagePlace(NamedTuple):
    """Where a message, or one `part` of it, lies."""

    folder: str
    validity: int
    uid: int
    part: str = ""

    @property
    def locator(self) -> str:
        """The locator of its item; leads back by `place`."""
        part = f"{PART}{self.part}" if self.part else ""
        return f"{self.folder};UIDVALIDITY={self.validity};UID={self.uid}{part}"


def place(locator: str) -> MessagePlace | None:
    """The place that a locator names; None for the locator of a folder."""
    found = _LOCATOR.fullmatch(locator)
    return found and MessagePlace(found[1], int(found[2]), int(found[3]), found[4] or "")


def identity(message_id: str, size: int, received: str, part: str = "") -> str | None:
    """What a message keeps when it is moved or copied; None for one without Message-ID.

    Anyone can send a second message with the Message-ID of a first: size and time of arrival tell most of them apart.
    """
    if not message_id:
        return None
    said = "\0".join((message_id, str(size), received, part))
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:32]


def folder_text(raw: bytes) -> str:
    """The name of a folder as people write it, from the server's modified UTF-7 (RFC 3501, 5.1.3)."""
    try:
        text: str = imap_utf7.decode(raw)
        # No database keeps a NUL.
        if imap_utf7.encode(text) == raw and "\0" not in text and not text.startswith(_UNSPELLABLE):
            return "INBOX" if raw.upper() == b"INBOX" else text
    except ValueError:
        pass  # A name that another program made in raw 8 bits, or cut off; it is as good a folder as any.
    return _UNSPELLABLE + raw.decode("latin-1")


def folder_bytes(text: str) -> bytes:
    """The name of a folder as its server spells it."""
    if text.startswith(_UNSPELLABLE):
        return text[1:].encode("latin-1", "replace")
    spelled: bytes = imap_utf7.encode(text)
    return spelled


def matches(folder: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns means this folder: `*` stands for anything, deeper folders too; capitals do not count."""
    return any(
        re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), folder, re.IGNORECASE | re.DOTALL)
        for pattern in patterns
    )
