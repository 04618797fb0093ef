"""Connections that are cut, servers that stall, decline, say goodbye and restart: nothing is lost, and nothing comes twice."""

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
from connectors.imap import Imap
from tests.connectors.imap.certificates import authority, certificate
from tests.connectors.imap.dovecot import Dovecot, message
from tests.connectors.imap.proxy import Exchange, Proxy
from tests.connectors.memory_ledger import MemoryLedger
from tests.waiting import PATIENCE

pytestmark = pytest.mark.full

COUNT = 12


@pytest.fixture
def proxy(server: Dovecot) -> Iterator[Proxy]:
    """A proxy before a server with twelve messages, one with a file, in two folders."""
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
    """What a sync without trouble has."""
    ledger = MemoryLedger()
    ledger.sync(account())
    assert len(ledger.documents()) == COUNT + 1
    return ledger


def sync_until_done(mail: Imap, ledger: MemoryLedger) -> int:
    """Sync again and again as a schedule does, until nothing fails; how often it failed. What was fetched is not again."""
    for failed in range(10):
        try:
            ledger.sync(mail)
        except SourceError:
            continue
        if not any(row.job for row in ledger.present().values()):
            return failed
    raise AssertionError("it never ends well")


def same(ledger: MemoryLedger, other: MemoryLedger) -> None:
    assert ledger.documents() == other.documents()
    assert ledger.marks == other.marks
    assert {k: row.item for k, row in ledger.present().items()} == {k: row.item for k, row in other.present().items()}


def test_a_connection_may_be_cut_at_every_command(
    account: Callable[..., Imap], proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.imap.changes._PART", 8)
    whole = everything(account)
    everything_asked = account(port=proxy.port)
    MemoryLedger().sync(everything_asked)
    count = len(proxy.commands)
    assert count > 15
    for at in range(count):
        proxy.commands.clear()
        proxy.harm = lambda exchange, at=at: exchange.cut() if exchange.number == at else None  # type: ignore[misc]
        ledger = MemoryLedger()
        assert sync_until_done(account(port=proxy.port), ledger) == 0, "it connects again by itself"
        same(ledger, whole)


def test_a_connection_may_be_cut_in_the_middle_of_any_answer(account: Callable[..., Imap], proxy: Proxy) -> None:
    whole = everything(account)
    for most in range(300, 12_000, 1_700):
        proxy.most = most
        ledger = MemoryLedger()
        sync_until_done(account(port=proxy.port), ledger)
        same(ledger, whole)


def test_a_server_that_hangs_up_each_time_is_unavailable_and_deletes_nothing(
    account: Callable[..., Imap], mail: Imap, proxy: Proxy
) -> None:
    ledger = everything(account)
    proxy.harm = lambda exchange: exchange.cut() if exchange.command == b"LIST" else None
    with pytest.raises(SourceUnavailable, match=r"cannot be reached .*; check host"):
        ledger.sync(mail)
    assert len(ledger.documents()) == COUNT + 1
    assert proxy.commands.count(b"LIST") == 2, "asked twice, and no more"


@pytest.mark.parametrize("odd", [b"", b"UIDNEXT 0 "])
def test_a_server_that_does_not_say_where_a_folder_ends_deletes_nothing(
    account: Callable[..., Imap], server: Dovecot, proxy: Proxy, odd: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.imap.changes._FLAGS_WATCHED", 1)

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
def test_an_answer_that_stalls_in_the_middle_is_asked_for_anew(
    most: int, account: Callable[..., Imap], proxy: Proxy
) -> None:
    proxy.most, proxy.stall = most, True
    ledger = MemoryLedger()
    ledger.sync(account(port=proxy.port, limits={"stall_seconds": 0.5}))
    assert proxy.commands.count(b"LOGIN") == 2
    same(ledger, everything(account))


def test_a_short_stall_is_waited_for(account: Callable[..., Imap], proxy: Proxy) -> None:
    stalls = iter([0.5])
    proxy.harm = lambda exchange: time.sleep(next(stalls, 0)) if exchange.command == b"UID FETCH" else None
    ledger = MemoryLedger()
    ledger.sync(account(port=proxy.port, limits={"stall_seconds": 20}))
    assert proxy.commands.count(b"LOGIN") == 1
    same(ledger, everything(account))


def test_a_server_that_stalls_each_time_is_left_after_a_while(account: Callable[..., Imap], proxy: Proxy) -> None:
    def stall(exchange: Exchange) -> None:
        exchange.harmed = exchange.command == b"LIST"

    proxy.harm = stall
    with pytest.raises(SourceUnavailable, match="did not answer in time; the next sync goes on"):
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
def test_a_server_that_asks_to_wait_is_left_alone_at_once(
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


def test_a_wait_that_is_told_is_kept(mail: Imap, proxy: Proxy) -> None:
    told = "{tag} NO Request is throttled. Suggested Backoff Time: 65536 milliseconds"
    proxy.harm = lambda exchange: exchange.answer(told) if exchange.command == b"LIST" else None
    with pytest.raises(RateLimited) as limited:
        mail.probe()
    assert limited.value.retry_after == 65.536


def test_a_goodbye_is_heard(mail: Imap, proxy: Proxy, account: Callable[..., Imap]) -> None:
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


def test_a_folder_that_may_not_be_opened_is_one_failed_item_until_it_can_be(
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


def test_a_folder_that_can_be_opened_again_is_no_failed_item_also_when_the_marks_of_its_listing_were_lost(
    mail: Imap, proxy: Proxy, account: Callable[..., Imap]
) -> None:
    ledger = everything(account)
    marks = dict(ledger.marks)
    proxy.harm = lambda exchange: exchange.answer("{tag} NO [NOPERM] No") if b"Kept" in exchange.line else None
    assert list(ledger.sync(mail, deep=True).failed) == ["Kept;"]
    ledger.marks = marks  # as a listing leaves them that found a move and was broken off afterwards
    proxy.harm = None
    ledger.sync(mail)
    same(ledger, everything(account))


def test_one_message_that_cannot_be_listed_leaves_the_others_alone(mail: Imap, proxy: Proxy, server: Dovecot) -> None:
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
def test_what_is_no_server_of_mail_is_unavailable_and_deletes_nothing(
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
    """Makes certificates for `localhost` that end in so many days; the authority is in `authority.pem`."""
    signer = authority("Authority of this test")
    (tmp_path / "authority.pem").write_bytes(signer.pem)

    def make(days: int) -> ssl.SSLContext:
        made = certificate(signer, "localhost", days)
        (tmp_path / "server.pem").write_bytes(made.pem + made.key_pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "server.pem")
        return context

    return make


def test_an_expired_certificate_is_told_with_its_remedy_and_nothing_is_lost(
    account: Callable[..., Imap], proxy: Proxy, certified: Callable[[int], ssl.SSLContext], tmp_path: Path
) -> None:
    mail = account(host="localhost", port=proxy.port, security="tls", ca_file=tmp_path / "authority.pem")
    ledger = everything(account)
    proxy.tls = certified(-1)
    with pytest.raises(
        SourceUnavailable, match=r"certificate of localhost is not valid \(certificate has expired\); whoever runs"
    ):
        ledger.sync(mail)
    assert proxy.commands == [], "nothing was said to it"
    proxy.tls = certified(30)
    assert ledger.sync(mail).item_changes == []
    same(ledger, everything(account))


def test_a_server_without_starttls_is_told_nothing(account: Callable[..., Imap], proxy: Proxy, server: Dovecot) -> None:
    proxy.translate = lambda line: line.replace(b" STARTTLS", b"")
    mail = account(host="localhost", port=proxy.port, security="starttls", ca_file=server.ca_file)
    with pytest.raises(SourceUnavailable, match="does not offer STARTTLS on this port; use security tls"):
        mail.probe()
    assert set(proxy.commands) == {b"CAPABILITY"}


def test_a_server_that_declines_login_is_logged_in_to_by_authenticate(mail: Imap, proxy: Proxy) -> None:
    proxy.translate = lambda line: line.replace(b" AUTH=PLAIN", b" LOGINDISABLED AUTH=PLAIN")
    assert "messages in INBOX" in mail.probe()
    assert b"LOGIN" not in proxy.commands


def test_a_restart_of_the_server_in_the_middle_of_a_sync_does_no_harm(
    server: Dovecot, account: Callable[..., Imap], proxy: Proxy
) -> None:
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


def test_a_refused_login_is_asked_once(mail: Imap, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "wrong horse")
    with pytest.raises(LoginFailed):
        mail.probe()
    assert proxy.commands.count(b"LOGIN") == 1


def test_a_login_that_is_declined_for_now_is_no_refused_login(mail: Imap, proxy: Proxy) -> None:
    for code, error in (("UNAVAILABLE", SourceUnavailable), ("LIMIT", RateLimited)):
        said = f"{{tag}} NO [{code}] Later"
        proxy.harm = lambda exchange, said=said: exchange.answer(said) if exchange.command == b"LOGIN" else None  # type: ignore[misc]
        with pytest.raises(error):
            mail.probe()


def test_an_error_of_a_server_says_nothing_of_what_it_said(mail: Imap, proxy: Proxy) -> None:
    proxy.harm = lambda exchange: exchange.answer("{tag} NO secret plans") if exchange.command == b"EXAMINE" else None
    ledger = MemoryLedger()
    report = ledger.sync(mail)
    assert {type(error) for error in report.failed.values()} == {FetchFailed}
    assert not any("secret plans" in str(error) for error in report.failed.values())
    assert all(isinstance(error, CatchmentError) for error in report.failed.values())
