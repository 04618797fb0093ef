"""News of the inbox as it happens: by IDLE, by asking where there is none, and what the watcher makes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import SimpleQueue

import pytest

from catchment.errors import CatchmentError
from catchment.settings import Home
from connectors.imap import Imap
from connectors.imap.settings import ImapSettings
from deployments.sources_file import SourceEntry
from deployments.watch.mailbox import WatchedMailbox
from deployments.watch.report import Watching
from deployments.watch.tree import Sign
from tests.connectors.imap.dovecot import USER, Dovecot, message, serving


def _first_news(mail: Imap, happens: Callable[[], object]) -> bool:
    """What is told after something happens, heard in another thread."""
    told: SimpleQueue[bool] = SimpleQueue()

    def listen() -> None:
        with suppress(CatchmentError):
            for news in mail.news():
                told.put(news)

    listener = threading.Thread(target=listen)
    listener.start()
    assert told.get(timeout=20) is False, "in the beginning"
    happens()
    heard = told.get(timeout=20)
    while listener.is_alive():
        mail.interrupt()
        listener.join(0.1)
    return heard


def test_a_new_message_is_told_at_once(server: Dovecot, mail: Imap) -> None:
    with server.person() as person:
        assert _first_news(mail, lambda: person.append("INBOX", message(1)))


@pytest.fixture(scope="module")
def dull() -> Iterator[Dovecot]:
    """A server that says that it cannot tell of news by itself."""
    yield from serving("IMAP4rev1 LITERAL+ UIDPLUS")


def test_a_server_that_cannot_tell_is_asked(
    dull: Dovecot, server: Dovecot, account: Callable[..., Imap], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.imap.session._POLL_SECONDS", 0.1)
    dull.clear()
    mail = account(port=dull.port)
    with dull.person() as person:
        news = mail.news()
        assert next(news) is False
        assert next(news) is False, "nothing happened"
        person.append("INBOX", message(1))
        assert any(told for told, _ in zip(news, range(50), strict=False))
        news.close()


@pytest.fixture
def told() -> SimpleQueue[str | Sign]:
    return SimpleQueue()


@pytest.fixture
def watched(server: Dovecot, home: Home, told: SimpleQueue[str | Sign]) -> Iterator[WatchedMailbox]:
    settings = ImapSettings(
        host="127.0.0.1", port=server.port, user=USER, security="none", password="env:MAIL_PASSWORD"
    )
    mailbox = WatchedMailbox(SourceEntry("mail", "imap", settings, watch=True), settings, home, told.put)
    yield mailbox
    mailbox.close()


def _no_descriptor() -> object:
    raise AssertionError("mail needs no descriptor")


def test_the_watcher_hears_of_a_message_and_of_what_it_may_have_missed(
    server: Dovecot, watched: WatchedMailbox, told: SimpleQueue[str | Sign]
) -> None:
    watched.check(0.0, _no_descriptor)  # type: ignore[arg-type]
    assert told.get(timeout=20) is Sign.LOST
    assert watched.state().state is Watching.WATCHING
    with server.person() as person:
        person.append("INBOX", message(1))
    assert told.get(timeout=20) == "INBOX"


def test_the_watcher_connects_again_after_a_restart(
    server: Dovecot, watched: WatchedMailbox, told: SimpleQueue[str | Sign], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployments.watch.mailbox._FIRST_PAUSE", 0.1)
    watched.check(0.0, _no_descriptor)  # type: ignore[arg-type]
    assert told.get(timeout=20) is Sign.LOST
    server.stop()
    server.start()
    assert told.get(timeout=20) is Sign.LOST


def test_the_watcher_does_not_repeat_a_refused_login(
    watched: WatchedMailbox, monkeypatch: pytest.MonkeyPatch, server: Dovecot
) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "wrong horse")
    watched.check(0.0, _no_descriptor)  # type: ignore[arg-type]
    deadline = threading.Event()
    while "refused the login" not in watched.state().reason:
        assert not deadline.wait(0.02)
    assert watched.state().state is Watching.LIMITED
    assert "app password" in watched.state().reason
