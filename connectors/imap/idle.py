"""Wait for changes in the open folder, by IDLE (RFC 2177) or by polling.

IMAPClient's own `idle_check` only watches the socket. It would miss notifications that are already in imaplib's read
buffer, which often arrive together with the server's confirmation of IDLE.
"""

from __future__ import annotations

import imaplib
import select
import ssl
import time
from typing import Any

_POLL_SECONDS = 60.0
"""Polling interval for servers without IDLE."""
_NEWS = frozenset({"EXISTS", "EXPUNGE", "VANISHED", "FETCH"})


def wait(connection: Any, seconds: float, *, can_idle: bool) -> bool:
    """Wait for a change in the open folder, at most `seconds`; return whether there was one.

    Sends NOOP first, because not every server reports earlier changes once it idles. `connection` is imaplib's; its
    errors are not translated here.
    """
    connection.untagged_responses.clear()
    connection.noop()
    if _has_news(connection):
        return True
    if can_idle:
        return _idle(connection, seconds)
    _wait_readable(connection, min(seconds, _POLL_SECONDS))
    return False


def _idle(connection: Any, seconds: float) -> bool:
    until = time.monotonic() + seconds
    tag = connection._command("IDLE")
    # None confirms IDLE. Changes may be reported before it.
    while connection._get_response() is not None:
        if connection.tagged_commands[tag]:
            raise imaplib.IMAP4.error("IDLE refused")
    while not _has_news(connection) and _wait_readable(connection, until - time.monotonic()):
        connection._get_response()
    connection.send(b"DONE\r\n")
    connection._command_complete("IDLE", tag)
    return _has_news(connection)


def _has_news(connection: Any) -> bool:
    return not _NEWS.isdisjoint(connection.untagged_responses)


def _wait_readable(connection: Any, seconds: float) -> bool:
    """Return whether data is available, waiting at most `seconds`."""
    return _is_buffered(connection) or bool(select.select([connection.sock], [], [], max(seconds, 0))[0])


def _is_buffered(connection: Any) -> bool:
    if hasattr(connection, "_readbuf"):
        return bool(connection._readbuf)  # imaplib has its own buffer since Python 3.14.
    timeout = connection.sock.gettimeout()
    connection.sock.setblocking(False)
    try:
        return bool(connection.file.peek(1))
    except ssl.SSLWantReadError:
        return False
    finally:
        connection.sock.settimeout(timeout)
