"""Incidents in a running system: a stopped mail server is told by command, page and event until it is back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from catchment.runtime.home import Home
from catchment.search import remote
from tests.acceptance.incidents import events, open_reasons
from tests.acceptance.person import Person
from tests.connectors.imap.dovecot import USER, Dovecot, message, serving
from tests.waiting import until

pytestmark = pytest.mark.acceptance

_SUBJECT = "source:letters"
_SECONDS = 30
"""Judgements are made every ten seconds."""


@pytest.fixture
def dovecot(person: Person) -> Iterator[Dovecot]:
    """A server with a message, whose account is synced as `letters`."""
    for server in serving():
        with server.person() as mine:
            mine.append("INBOX", message(1, "The sluice"))
        account = (
            "imap",
            f"{USER}@127.0.0.1:{server.port}",
            "--name",
            "letters",
            "--set",
            "security=none",
            "--consent",
        )
        person("sources", "add", *account, "--secret", "password=env:MAIL_PASSWORD").ok()
        person.sync("letters")
        yield server
        person("sources", "remove", "letters", "--yes").ok()


def test_stopped_mail_server_is_an_incident_until_it_is_back(person: Person, dovecot: Dovecot) -> None:
    dovecot.stop()
    assert person("sync", "letters", "--wait").code != 0
    begun = time.monotonic()
    until(lambda: open_reasons(person, _SUBJECT), lambda found: found == ["source.unreachable"], seconds=_SECONDS)
    took = time.monotonic() - begun
    (row,) = _rows(person)
    assert row["affects"] == {"source": "letters", "syncs": [], "runs": [], "items": []}
    shown = person("incidents", "show", str(row["id"]), "--json").ok().json
    assert shown["affects"]["runs"]
    assert person("status", "--exit-code").code == 1
    assert "letters: " in person("status").ok().out
    page = remote.fetch(Home(person.home), "/incidents")["open"]
    assert [one["id"] for one in page if one["subject"] == _SUBJECT] == [row["id"]]
    (trouble,) = (one for one in remote.fetch(Home(person.home), "/trouble")["troubles"] if "letters" in str(one))
    assert (trouble["incident"], trouble["reason"]) == (row["id"], "source.unreachable")
    until(lambda: ("opened", "source.unreachable", row["id"]) in events(person), seconds=_SECONDS)

    dovecot.start()
    person("incidents", "ack", str(row["id"]), "--note", "the provider works on it").ok()
    person.sync("letters")
    begun = time.monotonic()
    until(lambda: open_reasons(person, _SUBJECT), lambda found: not found, seconds=_SECONDS + 10)
    until(lambda: ("closed", "source.unreachable", row["id"]) in events(person), seconds=_SECONDS)
    shown = person("incidents", "show", str(row["id"]), "--json").ok().json
    assert [moment["event"] for moment in shown["timeline"]] == ["opened", "acknowledged", "closed"]
    assert shown["state"] == "closed"
    print(f"opened after {took:.0f} s, closed after {time.monotonic() - begun:.0f} s")


def _rows(person: Person) -> list[dict[str, Any]]:
    rows = person("incidents", "list", "--json").ok().json
    return [row for row in rows if row["subject"] == _SUBJECT]
