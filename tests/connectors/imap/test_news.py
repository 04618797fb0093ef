"""Notifications of new mail, by IDLE and by polling, and the watcher's reaction to them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from queue import SimpleQueue

import pytest
from imapclient import IMAPClient

from catchment.errors import CatchmentError, LoginFailed, SourceUnavailable, TryAgain
from catchment.ledger import Ledger
from catchment.runtime import secret_references
from catchment.runtime.process import alive, identity
from catchment.runtime.watch_status import Watching
from catchment.settings import Home
from connectors.imap import Imap
from connectors.imap.settings import ImapSettings
from deployments.sources.sources_file import SourceEntry
from deployments.watch.idle_source import WatchedMailbox
from deployments.watch.tree import WatchEvent
from tests.connectors.imap.dovecot import PASSWORD, USER, Dovecot, message, serving
from tests.connectors.imap.library import consent
from tests.connectors.imap.proxy import Exchange, Harm, Proxy
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.full


def _first_news(mail: Imap, happens: Callable[[], object]) -> bool:
    """Return the first notification after `happens` was called, received in another thread."""
    told: SimpleQueue[bool] = SimpleQueue()

    def listen() -> None:
        with suppress(CatchmentError):
            for news in mail.news():
                told.put(news)

    listener = threading.Thread(target=listen)
    listener.start()
    assert told.get(timeout=PATIENCE) is False, "the initial value"
    happens()
    heard = told.get(timeout=PATIENCE)
    while listener.is_alive():
        mail.interrupt()
        listener.join(0.1)
    return heard


def test_new_message_is_reported_at_once(server: Dovecot, mail: Imap) -> None:
    with server.person() as person:
        assert _first_news(mail, lambda: person.append("INBOX", message(1)))


def _append(person: IMAPClient) -> None:
    person.append("INBOX", message(3))


def _flag(person: IMAPClient) -> None:
    person.add_flags(person.search()[:1], [b"\\Flagged"])


def _delete(person: IMAPClient) -> None:
    person.delete_messages(person.search()[:1])
    person.expunge()


CHANGES = pytest.mark.parametrize("change", [_append, _flag, _delete])


@pytest.fixture
def person(server: Dovecot) -> Iterator[IMAPClient]:
    """A mail client with the inbox open; it has two messages."""
    with server.person() as person:
        for number in range(2):
            person.append("INBOX", message(number))
        person.select_folder("INBOX")
        yield person


@pytest.fixture
def proxy(server: Dovecot) -> Iterator[Proxy]:
    made = Proxy(server.port)
    yield made
    made.close()


@CHANGES
def test_change_before_waiting_is_reported(
    mail: Imap, person: IMAPClient, change: Callable[[IMAPClient], None]
) -> None:
    with closing(mail.news()) as news:
        assert next(news) is False
        change(person)
        assert next(news) is True


@CHANGES
def test_change_just_before_idle_starts_is_reported(
    account: Callable[..., Imap],
    proxy: Proxy,
    person: IMAPClient,
    change: Callable[[IMAPClient], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changes = iter([lambda: None, lambda: change(person)])
    proxy.harm = lambda exchange: next(changes, lambda: None)() if exchange.command == b"IDLE" else None
    with closing(account(port=proxy.port).news()) as news:
        assert next(news) is False
        # No change in the first period; IDLE is then renewed.
        monkeypatch.setattr("connectors.imap.connector._RENEWED_SECONDS", 0.1)
        assert next(news) is False
        monkeypatch.setattr("connectors.imap.connector._RENEWED_SECONDS", 100)
        assert next(news) is True


def _idling(told: str) -> Harm:
    """Return a harm that answers IDLE and DONE instead of the server."""
    tags: list[str] = []

    def answer(exchange: Exchange) -> None:
        if exchange.command == b"IDLE":
            tags.append(exchange.tag.decode())
            exchange.answer(told)
        elif exchange.line == b"DONE\r\n":
            exchange.answer(f"{tags.pop()} OK Idle completed")

    return answer


@pytest.mark.parametrize(
    "told",
    ["+ idling\r\n* 1 EXPUNGE", "* 1 EXPUNGE\r\n+ idling", "+ idling\r\n* OK Still here\r\n* 2 FETCH (FLAGS ())"],
)
def test_change_sent_with_the_idle_confirmation_is_reported(
    account: Callable[..., Imap], proxy: Proxy, person: IMAPClient, told: str
) -> None:
    proxy.harm = _idling(told)
    with closing(account(port=proxy.port).news()) as news:
        assert next(news) is False
        assert next(news) is True


def test_noop_before_idle_finds_unreported_changes(
    account: Callable[..., Imap], proxy: Proxy, person: IMAPClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.imap.connector._RENEWED_SECONDS", 0.1)
    proxy.harm = _idling("+ idling")
    with closing(account(port=proxy.port).news()) as news:
        assert [next(news), next(news)] == [False, False]
        _flag(person)
        assert next(news) is True


def test_changes_are_reported_over_tls(server: Dovecot, account: Callable[..., Imap], person: IMAPClient) -> None:
    mail = account(host="localhost", port=server.tls_port, security="tls", ca_file=server.ca_file)
    assert _first_news(mail, lambda: _flag(person))


@pytest.fixture(scope="module")
def without_idle() -> Iterator[Dovecot]:
    """A server without IDLE."""
    yield from serving("IMAP4rev1 LITERAL+ UIDPLUS")


def test_server_without_idle_is_polled(
    without_idle: Dovecot, server: Dovecot, account: Callable[..., Imap], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.imap.idle._POLL_SECONDS", 0.1)
    without_idle.clear()
    mail = account(port=without_idle.port)
    with without_idle.person() as person:
        news = mail.news()
        assert next(news) is False
        assert next(news) is False, "no change yet"
        person.append("INBOX", message(1))
        assert any(told for told, _ in zip(news, range(50), strict=False))
        news.close()


@pytest.fixture
def told() -> SimpleQueue[str | WatchEvent]:
    return SimpleQueue()


@pytest.fixture
def watched(server: Dovecot, home: Home, told: SimpleQueue[str | WatchEvent]) -> Iterator[WatchedMailbox]:
    settings = ImapSettings(
        host="127.0.0.1", port=server.port, user=USER, security="none", password="env:MAIL_PASSWORD"
    )
    consent(home, Imap(settings))
    mailbox = WatchedMailbox(SourceEntry("mail", "imap", settings, watch=True), settings, home, told.put)
    yield mailbox
    mailbox.close()


def _no_descriptor() -> object:
    raise AssertionError("mail needs no descriptor")


def test_watcher_reports_new_mail_and_possible_earlier_changes(
    server: Dovecot, watched: WatchedMailbox, told: SimpleQueue[str | WatchEvent]
) -> None:
    watched.check(0.0, _no_descriptor)  # type: ignore[arg-type]
    assert told.get(timeout=PATIENCE) is WatchEvent.LOST
    assert watched.state().state is Watching.WATCHING
    with server.person() as person:
        person.append("INBOX", message(1))
    assert told.get(timeout=PATIENCE) == "INBOX"


def test_watcher_connects_only_with_consent(
    watched: WatchedMailbox, told: SimpleQueue[str | WatchEvent], home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployments.watch.idle_source._CONSENT_SECONDS", 0.05)
    monkeypatch.setattr("deployments.watch.idle_source._FIRST_PAUSE", 0.05)

    def until_it_says(state: Watching) -> None:
        def look() -> Watching:
            watched.check(time.monotonic(), _no_descriptor)  # type: ignore[arg-type]
            return watched.state().state

        until(look, lambda said: said is state)

    until_it_says(Watching.WATCHING)
    with closing(Ledger.open(home.database_url)) as ledger:
        source = ledger.sources.get("mail").id
        ledger.consents.withdraw(source, {"messages"}, "operator")
        # By the watcher.
        watched.close()
        until_it_says(Watching.LIMITED)
        until(lambda: watched.state().reason, lambda reason: reason == "no consent given")
        assert watched.state().remedy == "catchment consent give mail"
        ledger.purging.end(source, {"messages"}, "operator")
        ledger.consents.give(source, {"messages"}, "operator", None)
    until_it_says(Watching.WATCHING)


def test_watcher_reconnects_after_a_server_restart(
    server: Dovecot, watched: WatchedMailbox, told: SimpleQueue[str | WatchEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployments.watch.idle_source._FIRST_PAUSE", 0.1)
    watched.check(0.0, _no_descriptor)  # type: ignore[arg-type]
    assert told.get(timeout=PATIENCE) is WatchEvent.LOST
    server.stop()
    server.start()
    assert told.get(timeout=PATIENCE) is WatchEvent.LOST


def test_watcher_retries_a_refused_login_only_with_a_new_secret(
    proxy: Proxy, home: Home, told: SimpleQueue[str | WatchEvent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployments.watch.idle_source._LOOK_SECONDS", 0.01)
    secret = tmp_path / "password"
    secret.touch(mode=0o600)
    secret.write_text("wrong horse")
    settings = ImapSettings(host="127.0.0.1", port=proxy.port, user=USER, security="none", password=f"file:{secret}")
    consent(home, Imap(settings))
    entry = SourceEntry("mail", "imap", settings, watch=True)
    with closing(WatchedMailbox(entry, settings, home, told.put)) as watched:
        watched.check(0.0, _no_descriptor)  # type: ignore[arg-type]
        until(lambda: watched.state().reason, lambda reason: "login refused" in reason)
        assert watched.state().state is Watching.LIMITED
        assert "app password" in watched.state().reason
        secret.write_text(PASSWORD)
        assert told.get(timeout=PATIENCE) is WatchEvent.LOST
        assert watched.state().state is Watching.WATCHING
    assert proxy.commands.count(b"LOGIN") == 2


@pytest.mark.parametrize(
    "error", [LoginFailed("login refused; check it"), SourceUnavailable("login refused, in a way")]
)
def test_watcher_listens_again_after_a_sync_that_could_log_in(
    watched: WatchedMailbox,
    told: SimpleQueue[str | WatchEvent],
    home: Home,
    error: CatchmentError,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("deployments.watch.idle_source._LOOK_SECONDS", 0.01)
    monkeypatch.setattr("deployments.watch.idle_source._FIRST_PAUSE", 600.0)
    refusals, news = [error], Imap.news

    def refusing(mail: Imap) -> Iterator[bool]:
        if refusals:
            raise refusals.pop()
        yield from news(mail)

    monkeypatch.setattr(Imap, "news", refusing)
    watched.check(0.0, _no_descriptor)  # type: ignore[arg-type]
    until(lambda: watched.state().reason, lambda reason: "login refused" in reason)
    with closing(Ledger.open(home.database_url)) as ledger:
        source = ledger.sources.get("mail").id
        sync = ledger.syncs.begin(source, run="run-1", owner=identity(), code_version="0.1.0", alive=alive)
        ledger.syncs.end(sync.id, "completed", {})
    assert told.get(timeout=PATIENCE) is WatchEvent.LOST
    assert watched.state().state is Watching.WATCHING


def test_watcher_does_not_retry_while_the_secret_is_unreadable(
    proxy: Proxy, home: Home, told: SimpleQueue[str | WatchEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The secret is in a block, which cannot be read while the Prefect server is down."""
    monkeypatch.setattr("deployments.watch.idle_source._LOOK_SECONDS", 0.01)
    is_away, was_asked = threading.Event(), threading.Event()

    def read(_name: str) -> str:
        if is_away.is_set():
            was_asked.set()
            raise TryAgain("the Prefect server does not respond")
        return "wrong horse"

    monkeypatch.setitem(secret_references._READERS, "block", read)
    settings = ImapSettings(host="127.0.0.1", port=proxy.port, user=USER, security="none", password="block:mail")
    consent(home, Imap(settings))
    with closing(
        WatchedMailbox(SourceEntry("mail", "imap", settings, watch=True), settings, home, told.put)
    ) as watched:
        watched.check(0.0, _no_descriptor)  # type: ignore[arg-type]
        until(lambda: watched.state().reason, lambda reason: "login refused" in reason)
        is_away.set()
        assert was_asked.wait(PATIENCE)
        listener = watched._listener
        assert listener is not None
        listener.join(0.2)
        assert listener.is_alive()
    assert proxy.commands.count(b"LOGIN") == 1
