"""Lost connections, stalls, refusals, shutdowns and restarts of the server: no message is lost or read twice."""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from catchment.errors import CatchmentError, FetchFailed, LoginFailed, RateLimited, SourceError, SourceUnavailable
from connectors.contract.memory_ledger import MemoryLedger
from connectors.imap import Imap
from tests.connectors.imap.certificates import authority, certificate
from tests.connectors.imap.dovecot import Dovecot, message
from tests.connectors.imap.proxy import Exchange, Proxy
from tests.waiting import PATIENCE

pytestmark = pytest.mark.full

COUNT = 12


@pytest.fixture
def proxy(server: Dovecot) -> Iterator[Proxy]:
    """A proxy in front of a server with twelve messages in two folders, one with an attachment."""
    with server.person() as person:
        person.create_folder("Kept")
        for number in range(COUNT):
            files = {"weir.txt": b"gauge\n" * 200} if number == 7 else None
            person.append("INBOX" if number % 2 else "Kept", message(number, files=files))
    made = Proxy(server.port)
    yield made
    made.close()


@pytest.fixture
def mail(account: Callable[..., Imap], proxy: Proxy) -> Imap:
    return account(port=proxy.port)


def everything(account: Callable[..., Imap]) -> MemoryLedger:
    """Return a ledger after a sync without faults."""
    ledger = MemoryLedger()
    ledger.sync(account())
    assert len(ledger.documents()) == COUNT + 1
    return ledger


def sync_until_done(mail: Imap, ledger: MemoryLedger) -> int:
    """Sync repeatedly, as a schedule does, until a sync has no failures; return the number of failed syncs."""
    for failed in range(10):
        try:
            ledger.sync(mail)
        except SourceError:
            continue
        if not any(row.job for row in ledger.present().values()):
            return failed
    raise AssertionError("the syncs keep failing")


def same(ledger: MemoryLedger, other: MemoryLedger) -> None:
    assert ledger.documents() == other.documents()
    assert ledger.marks == other.marks
    assert {k: row.item for k, row in ledger.present().items()} == {k: row.item for k, row in other.present().items()}


def test_connection_lost_at_any_command_is_recovered(
    account: Callable[..., Imap], proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.imap.account_listing._PART", 8)
    whole = everything(account)
    everything_asked = account(port=proxy.port)
    MemoryLedger().sync(everything_asked)
    count = len(proxy.commands)
    assert count > 15
    for at in range(count):
        proxy.commands.clear()
        proxy.harm = lambda exchange, at=at: exchange.cut() if exchange.number == at else None  # type: ignore[misc]
        ledger = MemoryLedger()
        assert sync_until_done(account(port=proxy.port), ledger) == 0, "reconnects without a failed sync"
        same(ledger, whole)


def test_connection_lost_in_any_response_is_recovered(account: Callable[..., Imap], proxy: Proxy) -> None:
    whole = everything(account)
    for most in range(300, 12_000, 1_700):
        proxy.most = most
        ledger = MemoryLedger()
        sync_until_done(account(port=proxy.port), ledger)
        same(ledger, whole)


def test_server_that_always_disconnects_is_unavailable(account: Callable[..., Imap], mail: Imap, proxy: Proxy) -> None:
    ledger = everything(account)
    proxy.harm = lambda exchange: exchange.cut() if exchange.command == b"LIST" else None
    with pytest.raises(SourceUnavailable, match=r"cannot connect .*; check host"):
        ledger.sync(mail)
    assert len(ledger.documents()) == COUNT + 1
    assert proxy.commands.count(b"LIST") == 2, "one retry only"


@pytest.mark.parametrize("odd", [b"", b"UIDNEXT 0 "])
def test_missing_uidnext_deletes_no_items(
    account: Callable[..., Imap], server: Dovecot, proxy: Proxy, odd: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.imap.account_listing._FLAGS_WATCHED", 1)

    def plain(line: bytes) -> bytes:
        return re.sub(rb" (?:CONDSTORE|QRESYNC|ENABLE|LIST-STATUS)\b", b"", line)

    proxy.translate = plain
    ledger = MemoryLedger()
    ledger.sync(account(port=proxy.port))
    with server.person() as person:
        person.select_folder("INBOX")
        person.delete_messages(person.search()[:1])
        person.expunge()
    proxy.translate = lambda line: re.sub(rb"UIDNEXT \d+ ?", odd, plain(line))
    ledger.sync(account(port=proxy.port))
    assert len(ledger.documents()) >= COUNT
    proxy.translate = plain
    ledger.sync(account(port=proxy.port))
    assert len(ledger.documents()) == COUNT
    assert not any(row.error for row in ledger.present().values())


@pytest.mark.parametrize("most", [700, 6_000])
def test_stalled_response_is_requested_again(most: int, account: Callable[..., Imap], proxy: Proxy) -> None:
    proxy.most, proxy.stall = most, True
    ledger = MemoryLedger()
    ledger.sync(account(port=proxy.port, limits={"stall_seconds": 0.5}))
    assert proxy.commands.count(b"LOGIN") == 2
    same(ledger, everything(account))


def test_short_stall_is_tolerated(account: Callable[..., Imap], proxy: Proxy) -> None:
    stalls = iter([0.5])
    proxy.harm = lambda exchange: time.sleep(next(stalls, 0)) if exchange.command == b"UID FETCH" else None
    ledger = MemoryLedger()
    ledger.sync(account(port=proxy.port, limits={"stall_seconds": 20}))
    assert proxy.commands.count(b"LOGIN") == 1
    same(ledger, everything(account))


def test_server_that_always_stalls_times_out(account: Callable[..., Imap], proxy: Proxy) -> None:
    def stall(exchange: Exchange) -> None:
        exchange.harmed = exchange.command == b"LIST"

    proxy.harm = stall
    with pytest.raises(SourceUnavailable, match="no response within the time limit; the next sync continues"):
        account(port=proxy.port, limits={"stall_seconds": 0.3}).probe()


@pytest.mark.parametrize(
    ("code", "command"),
    [
        ("LIMIT", b"LIST"),
        ("LIMIT", b"EXAMINE"),
        ("LIMIT", b"UID SEARCH"),
        ("LIMIT", b"UID FETCH"),
        ("OVERQUOTA", b"UID FETCH"),
        ("THROTTLED", b"UID FETCH"),
    ],
)
def test_rate_limit_stops_the_sync_at_once(
    code: str, command: bytes, mail: Imap, proxy: Proxy, account: Callable[..., Imap]
) -> None:
    proxy.harm = lambda exchange: (
        exchange.answer(f"{{tag}} NO [{code}] Too much") if exchange.command == command else None
    )
    ledger = MemoryLedger()
    with pytest.raises(RateLimited):
        ledger.sync(mail)
    assert proxy.commands.count(command) == 1
    proxy.harm = None
    ledger.sync(mail)
    same(ledger, everything(account))


def test_suggested_wait_is_returned(mail: Imap, proxy: Proxy) -> None:
    told = "{tag} NO Request is throttled. Suggested Backoff Time: 65536 milliseconds"
    proxy.harm = lambda exchange: exchange.answer(told) if exchange.command == b"LIST" else None
    with pytest.raises(RateLimited) as limited:
        mail.probe()
    assert limited.value.retry_after == 65.536


def test_bye_ends_the_sync_and_the_next_one_completes(mail: Imap, proxy: Proxy, account: Callable[..., Imap]) -> None:
    def goodbye(exchange: Exchange) -> None:
        if exchange.command == b"UID SEARCH":
            exchange.answer("* BYE [UNAVAILABLE] Going down for a while")
            exchange.cut()

    proxy.harm = goodbye
    ledger = MemoryLedger()
    with pytest.raises(SourceUnavailable):
        ledger.sync(mail)
    proxy.harm = None
    ledger.sync(mail)
    same(ledger, everything(account))


def test_unreadable_folder_is_one_failing_item_until_it_opens(
    mail: Imap, proxy: Proxy, account: Callable[..., Imap]
) -> None:
    ledger = MemoryLedger()
    proxy.harm = lambda exchange: exchange.answer("{tag} NO [NOPERM] No") if b"Kept" in exchange.line else None
    report = ledger.sync(mail)
    assert list(report.failed) == ["Kept;"]
    assert len(ledger.documents()) == COUNT // 2 + 1
    proxy.harm = None
    ledger.sync(mail)
    same(ledger, everything(account))


def test_reopened_folder_clears_failure_after_lost_cursor(
    mail: Imap, proxy: Proxy, account: Callable[..., Imap]
) -> None:
    ledger = everything(account)
    marks = dict(ledger.marks)
    proxy.harm = lambda exchange: exchange.answer("{tag} NO [NOPERM] No") if b"Kept" in exchange.line else None
    assert list(ledger.sync(mail, deep=True).failed) == ["Kept;"]
    ledger.marks = marks  # as after a listing that found a move and was then interrupted
    proxy.harm = None
    ledger.sync(mail)
    same(ledger, everything(account))


def test_unlistable_message_fails_alone(mail: Imap, proxy: Proxy, server: Dovecot) -> None:
    with server.person() as person:
        person.select_folder("INBOX")
        odd = person.search()[2]

    def decline(exchange: Exchange) -> None:
        words = exchange.line.split()
        if words[1:3] == [b"UID", b"FETCH"] and str(odd).encode() in words[3].split(b","):
            exchange.answer(
                "{tag} NO [SERVERBUG] Internal error" if b"BODY.PEEK[]" in exchange.line else "{tag} NO Bad"
            )

    proxy.harm = decline
    ledger = MemoryLedger()
    report = ledger.sync(mail)
    assert [locator.rpartition("UID=")[2] for locator in report.failed] == [str(odd)]
    assert len(ledger.documents()) >= COUNT - 1


@pytest.mark.parametrize(
    "greeting", [b"* BYE Too busy\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\r\n"]
)
def test_server_that_is_not_imap_is_unavailable(
    greeting: bytes, account: Callable[..., Imap], mail: Imap, proxy: Proxy
) -> None:
    ledger = everything(account)
    proxy.greeting = greeting
    with pytest.raises(SourceUnavailable, match="; "):
        ledger.sync(mail)
    proxy.greeting = None
    assert ledger.sync(mail).item_changes == []


@pytest.fixture
def certified(tmp_path: Path) -> Callable[[int], ssl.SSLContext]:
    """Create server contexts for `localhost` with certificates valid for some days; the authority is in
    `authority.pem`."""
    signer = authority("Authority of this test")
    (tmp_path / "authority.pem").write_bytes(signer.pem)

    def make(days: int) -> ssl.SSLContext:
        made = certificate(signer, "localhost", days)
        (tmp_path / "server.pem").write_bytes(made.pem + made.key_pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "server.pem")
        return context

    return make


def test_expired_certificate_gives_a_remedy_and_keeps_items(
    account: Callable[..., Imap], proxy: Proxy, certified: Callable[[int], ssl.SSLContext], tmp_path: Path
) -> None:
    mail = account(host="localhost", port=proxy.port, security="tls", ca_file=tmp_path / "authority.pem")
    ledger = everything(account)
    proxy.tls = certified(-1)
    with pytest.raises(
        SourceUnavailable, match=r"localhost: invalid certificate \(certificate has expired\); the server's operator"
    ):
        ledger.sync(mail)
    assert proxy.commands == [], "no command was sent"
    proxy.tls = certified(30)
    assert ledger.sync(mail).item_changes == []
    same(ledger, everything(account))


def test_tls_to_a_plain_port_names_the_setting(account: Callable[..., Imap], proxy: Proxy) -> None:
    with pytest.raises(SourceUnavailable, match="localhost: the port does not speak TLS; set security to starttls"):
        account(host="localhost", port=proxy.port, security="tls").probe()


def test_no_password_is_sent_without_starttls(account: Callable[..., Imap], proxy: Proxy, server: Dovecot) -> None:
    proxy.translate = lambda line: line.replace(b" STARTTLS", b"")
    mail = account(host="localhost", port=proxy.port, security="starttls", ca_file=server.ca_file)
    with pytest.raises(SourceUnavailable, match="STARTTLS not available on this port; set security to tls"):
        mail.probe()
    assert set(proxy.commands) == {b"CAPABILITY"}


def test_authenticate_is_used_if_login_is_disabled(mail: Imap, proxy: Proxy) -> None:
    proxy.translate = lambda line: line.replace(b" AUTH=PLAIN", b" LOGINDISABLED AUTH=PLAIN")
    assert "messages in INBOX" in mail.probe()
    assert b"LOGIN" not in proxy.commands


def test_server_restart_during_a_sync_is_recovered(server: Dovecot, account: Callable[..., Imap], proxy: Proxy) -> None:
    whole = everything(account)
    begun, back = threading.Event(), threading.Event()

    def restart(exchange: Exchange) -> None:
        if exchange.command == b"UID FETCH" and not begun.is_set():
            begun.set()
            server.stop()
            server.start()
            back.set()

    proxy.harm = restart
    ledger = MemoryLedger()
    with suppress(SourceError):
        ledger.sync(account(port=proxy.port))
    assert back.wait(PATIENCE)
    assert sync_until_done(account(port=proxy.port), ledger) == 0
    same(ledger, whole)


def test_refused_login_is_not_retried(mail: Imap, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "wrong horse")
    with pytest.raises(LoginFailed):
        mail.probe()
    assert proxy.commands.count(b"LOGIN") == 1


def test_temporarily_refused_login_is_not_a_failed_login(mail: Imap, proxy: Proxy) -> None:
    for code, error in (("UNAVAILABLE", SourceUnavailable), ("LIMIT", RateLimited)):
        said = f"{{tag}} NO [{code}] Later"
        proxy.harm = lambda exchange, said=said: exchange.answer(said) if exchange.command == b"LOGIN" else None  # type: ignore[misc]
        with pytest.raises(error):
            mail.probe()


def test_errors_do_not_quote_the_server(mail: Imap, proxy: Proxy) -> None:
    proxy.harm = lambda exchange: exchange.answer("{tag} NO secret plans") if exchange.command == b"EXAMINE" else None
    ledger = MemoryLedger()
    report = ledger.sync(mail)
    assert {type(error) for error in report.failed.values()} == {FetchFailed}
    assert not any("secret plans" in str(error) for error in report.failed.values())
    assert all(isinstance(error, CatchmentError) for error in report.failed.values())
