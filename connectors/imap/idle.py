"""How a connection waits for news of the folder that is open: by IDLE (RFC 2177), or by asking now and then.

The library's own waiting looks at the socket alone, and so not at what it has already read from it: what comes together with
the server's word that it idles would be told ten minutes later.
"""

from __future__ import annotations

import imaplib
import select
import ssl
import time
from typing import Any

_POLL_SECONDS = 60.0
"""How often a server is asked that cannot tell by itself."""
_NEWS = frozenset({"EXISTS", "EXPUNGE", "VANISHED", "FETCH"})


def wait(connection: Any, seconds: float, *, can_idle: bool) -> bool:
    """Wait until the server tells of a change in the folder that is open, or so many seconds at most; whether it told.

    It is asked first what happened since it was heard last: not every server tells that once it idles. `connection` is the
    library's, whose errors are raised as they come.
    """
    connection.untagged_responses.clear()
    connection.noop()
    if _heard(connection):
        return True
    if can_idle:
        return _idle(connection, seconds)
    _comes(connection, min(seconds, _POLL_SECONDS))
    return False


def _idle(connection: Any, seconds: float) -> bool:
    until = time.monotonic() + seconds
    tag = connection._command("IDLE")
    # None: the server idles. What it tells before is news as well.
    while connection._get_response() is not None:
        if connection.tagged_commands[tag]:
            raise imaplib.IMAP4.error("IDLE was declined")
    while not _heard(connection) and _comes(connection, until - time.monotonic()):
        connection._get_response()
    connection.send(b"DONE\r\n")
    connection._command_complete("IDLE", tag)
    return _heard(connection)


def _heard(connection: Any) -> bool:
    return not _NEWS.isdisjoint(connection.untagged_responses)


def _comes(connection: Any, seconds: float) -> bool:
    """Whether something can be read, within so many seconds."""
    return _is_read_ahead(connection) or bool(select.select([connection.sock], [], [], max(seconds, 0))[0])


def _is_read_ahead(connection: Any) -> bool:
    if hasattr(connection, "_readbuf"):
        return bool(connection._readbuf)  # From Python 3.14 on the library has a buffer of its own.
    timeout = connection.sock.gettimeout()
    connection.sock.setblocking(False)
    try:
        return bool(connection.file.peek(1))
    except ssl.SSLWantReadError:
        return False
    finally:
        connection.sock.settimeout(timeout)
