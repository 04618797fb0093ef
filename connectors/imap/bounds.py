"""Limit the size of IMAP responses: imaplib accepts literals of any size and keeps every line of a response in memory.

Each limit is checked before the bytes are read. The rest of an oversized response stays unread in the socket, so the
connection cannot be used again.
"""

from __future__ import annotations

import imaplib
from typing import Any

from imapclient import IMAPClient
from imapclient.imap4 import IMAP4WithTimeout
from imapclient.tls import IMAP4_TLS

LEAST_LITERAL = 1_000_000
"""The literal limit is never smaller, because servers also send names, headers and body structures as literals."""
MOST_LINE = 1_000_000
MOST_LINES = 1_000_000
_BESIDES = 64_000_000
"""Bytes allowed in a response in addition to its largest literal."""


class LimitExceeded(Exception):
    """A response, or the announced size of a literal, exceeds a limit.

    Not a subclass of imaplib's errors: imaplib catches those and raises another error.
    """


class _Bounded(imaplib.IMAP4):
    """A connection that counts the bytes and lines of the current response."""

    most_literal = LEAST_LITERAL
    _bytes = 0
    _lines = 0

    def begin_response(self) -> None:
        """Reset the counters before a new response."""
        self._bytes = self._lines = 0

    def read(self, size: int) -> bytes:
        """Read a literal as imaplib does. Raises LimitExceeded before reading if a limit is exceeded."""
        if size > self.most_literal:
            raise LimitExceeded(f"a literal of {size} bytes, {self.most_literal} allowed")
        self._count(size)
        return super().read(size)

    def readline(self) -> bytes:
        """Read a line as imaplib does. Raises LimitExceeded if a limit is exceeded."""
        line = bytes(self.file.readline(MOST_LINE + 1))  # type: ignore[arg-type]  # the file is binary
        if len(line) > MOST_LINE:
            raise LimitExceeded(f"a line of more than {MOST_LINE} bytes")
        self._lines += 1
        if self._lines > MOST_LINES:
            raise LimitExceeded(f"more than {MOST_LINES} lines")
        self._count(len(line))
        return line

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > (most := self.most_literal + _BESIDES):
            raise LimitExceeded(f"more than {most} bytes")


class _Plain(_Bounded, IMAP4WithTimeout):  # type: ignore[misc]  # imapclient is untyped
    pass


class _Tls(_Bounded, IMAP4_TLS):  # type: ignore[misc]
    pass


class BoundedClient(IMAPClient):  # type: ignore[misc]  # imapclient is untyped
    """An IMAPClient that connects with these limits."""

    def _create_IMAP4(self) -> Any:  # noqa: N802 - name defined by IMAPClient
        connect = getattr(self._timeout, "connect", None)
        if self.ssl:
            return _Tls(self.host, self.port, self.ssl_context, connect)  # type: ignore[call-arg]
        return _Plain(self.host, self.port, connect)
