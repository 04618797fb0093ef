"""A mail server that sends or announces too much: memory is bounded, and other messages are still read."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from catchment.errors import SkipReason, SourceUnavailable
from connectors.contract.memory_ledger import MemoryLedger
from connectors.imap import Imap
from tests.connectors.imap.dovecot import Dovecot, message
from tests.connectors.imap.proxy import Exchange, Proxy

pytestmark = pytest.mark.full

COUNT = 6
_HUGE = 6_000_000_000


@pytest.fixture
def proxy(server: Dovecot) -> Iterator[Proxy]:
    proxy = Proxy(server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def mail(account: Callable[..., Imap], proxy: Proxy, server: Dovecot) -> Imap:
    with server.person() as person:
        for number in range(COUNT):
            person.append("INBOX", message(number, f"Number {number}", f"Text {number}"))
    return account(port=proxy.port)


def _endless(exchange: Exchange, head: bytes) -> None:
    """Announce a huge literal, and send it until the connection is closed."""
    exchange.harmed = True

    def pour() -> None:
        with suppress(OSError):
            exchange.client.sendall(head)
            for _ in range(4_000):
                exchange.client.sendall(b"x" * 1_000_000)

    threading.Thread(target=pour, daemon=True).start()


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_huge_literal_skips_its_message_and_reads_the_others(mail: Imap, proxy: Proxy, server: Dovecot) -> None:
    with server.person() as person:
        person.select_folder("INBOX", readonly=True)
        # The server is shared; UIDs continue after the inbox was emptied.
        uid = b"%d" % person.search()[2]

    def harm(exchange: Exchange) -> None:
        words = exchange.line.split()
        if b"BODY.PEEK[]" in exchange.line and uid in words[3].split(b","):
            _endless(exchange, b"* 3 FETCH (UID %s BODY[] {%d}\r\n" % (uid, _HUGE))

    proxy.harm = harm
    before = _peak()
    ledger = MemoryLedger()
    report = ledger.sync(mail)
    (locator, error), *others = report.failed.items()
    assert (locator.rpartition("=")[2], str(error), others) == (uid.decode(), SkipReason.TOO_LARGE, [])
    assert len(ledger.documents()) == COUNT - 1
    assert _peak() - before < 200_000


@pytest.mark.parametrize(
    "harmful",
    [
        b'* LIST () "/" {%d}\r\n' % _HUGE,
        b'* LIST () "/" ' + b"x" * 2_000_000 + b"\r\n",
        b"* OK still here\r\n" * 1_100_000,
    ],
    ids=["literal", "line", "lines"],
)
def test_oversized_folder_list_fails_the_source(mail: Imap, proxy: Proxy, harmful: bytes) -> None:
    def harm(exchange: Exchange) -> None:
        if exchange.command == b"LIST":
            _endless(exchange, harmful)

    proxy.harm = harm
    before = _peak()
    with pytest.raises(SourceUnavailable, match=r"folders cannot be listed: .*: response too large \(.*\); "):
        MemoryLedger().sync(mail)
    assert _peak() - before < 300_000


def test_huge_literal_in_the_greeting_is_not_read(mail: Imap, proxy: Proxy) -> None:
    proxy.greeting = b"* OK {%d}\r\n" % _HUGE
    with pytest.raises(SourceUnavailable):
        MemoryLedger().sync(mail)


def test_too_many_folders_fail_the_source(account: Callable[..., Imap], proxy: Proxy, server: Dovecot) -> None:
    def harm(exchange: Exchange) -> None:
        if exchange.command == b"LIST":
            lines = (b'* LIST () "/" Folder%d\r\n' % number for number in range(5_001))
            exchange.client.sendall(b"".join(lines))
            exchange.answer("{tag} OK Listed")

    proxy.harm = harm
    with pytest.raises(SourceUnavailable, match=r"5001 folders match, 5000 allowed; .* exclude, or raise max_folders"):
        MemoryLedger().sync(account(port=proxy.port))
    assert b"STATUS" not in proxy.commands
    narrow = account(port=proxy.port, exclude=("Folder*",))
    assert not MemoryLedger().sync(narrow).failed
