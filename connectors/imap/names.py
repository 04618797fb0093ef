"""Names: locators of messages, encoding of folder names, and patterns that select folders."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import NamedTuple

from imapclient import imap_utf7

from catchment.model import PART

_LOCATOR = re.compile(rf"(.*);UIDVALIDITY=(\d+);UID=(\d+)(?:{PART}([\d.]+))?", re.DOTALL)
_UNDECODABLE = "\ufffd"
"""Prefix for a folder name that is not valid modified UTF-7; its bytes follow."""


class MessageAddress(NamedTuple):
    """The address of a message, or of one `part` of it."""

    folder: str
    validity: int
    uid: int
    part: str = ""

    @property
    def locator(self) -> str:
        """The locator of the item; `parse_locator` parses it."""
        part = f"{PART}{self.part}" if self.part else ""
        return f"{self.folder};UIDVALIDITY={self.validity};UID={self.uid}{part}"


def parse_locator(locator: str) -> MessageAddress | None:
    """Parse a locator; return None for the locator of a folder."""
    match = _LOCATOR.fullmatch(locator)
    return match and MessageAddress(match[1], int(match[2]), int(match[3]), match[4] or "")


def identity(message_id: str, size: int, received: str, part: str = "") -> str | None:
    """Return a string that survives moves and copies of a message; None without Message-ID.

    Anyone can reuse a Message-ID in another message: size and time of arrival distinguish most of them.
    """
    if not message_id:
        return None
    fields = "\0".join((message_id, str(size), received, part))
    return hashlib.sha256(fields.encode("utf-8", "replace")).hexdigest()[:32]


def decode_folder(raw: bytes) -> str:
    """Decode a folder name from modified UTF-7 (RFC 3501, section 5.1.3)."""
    try:
        text: str = imap_utf7.decode(raw)
        # Databases cannot store NUL.
        if imap_utf7.encode(text) == raw and "\0" not in text and not text.startswith(_UNDECODABLE):
            return "INBOX" if raw.upper() == b"INBOX" else text
    except ValueError:
        pass  # Created by another program, with raw 8-bit or truncated names; still a valid folder.
    return _UNDECODABLE + raw.decode("latin-1")


def encode_folder(text: str) -> bytes:
    """Encode a folder name as the server spells it."""
    if text.startswith(_UNDECODABLE):
        return text[1:].encode("latin-1", "replace")
    encoded: bytes = imap_utf7.encode(text)
    return encoded


def matches(folder: str, patterns: Iterable[str]) -> bool:
    """Return whether a pattern matches the folder. `*` matches anything, including subfolders; case is ignored."""
    return any(
        re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), folder, re.IGNORECASE | re.DOTALL)
        for pattern in patterns
    )
