"""A connector for the mail account of the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from connectors.imap import Imap
from connectors.imap.settings import ImapSettings
from tests.connectors.imap.dovecot import USER, Dovecot


@pytest.fixture
def account(server: Dovecot) -> Iterator[Callable[..., Imap]]:
    """Create a connector for the account, with additional settings; closed after the test."""
    made: list[Imap] = []

    def make(**settings: Any) -> Imap:
        given = {"host": "127.0.0.1", "port": server.port, "user": USER, "security": "none"}
        secret = {} if "token" in settings else {"password": "env:MAIL_PASSWORD"}
        made.append(Imap(ImapSettings(**{**given, **secret, **settings})))
        return made[-1]

    yield make
    for connector in made:
        connector.close()


@pytest.fixture
def mail(account: Callable[..., Imap]) -> Imap:
    """The connector for the whole account."""
    return account()
