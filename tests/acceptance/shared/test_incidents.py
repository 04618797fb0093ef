"""Incidents in a running system: command, page and event report a stopped mail server until it is back."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TypeVar

import pytest

from catchment.runtime import web_process
from catchment.runtime.home import Home
from catchment.views.telemetry.incidents import IncidentsView
from catchment.views.trouble import TroubleView
from tests.acceptance.incidents import events, letters, rows
from tests.acceptance.person import Person
from tests.waiting import until

pytestmark = pytest.mark.acceptance

_SUBJECT = "source:letters"
T = TypeVar("T")


def test_stopped_mail_server_is_an_incident_until_it_is_back(person: Person) -> None:
    home = Home(person.home)
    with letters(person) as server:
        server.stop()
        # Two failures may pass by themselves.
        for _ in range(3):
            assert person("sync", "letters", "--wait").code != 0
        begun = time.monotonic()
        (on_page,) = until(lambda: _of_letters(web_process.fetch(home, "/incidents", IncidentsView).open))
        took = time.monotonic() - begun
        (row,) = (row for row in rows(person, _SUBJECT) if row["id"] == on_page.id)
        assert (row["reason"], row["state"]) == ("source.unreachable", "open")
        assert row["affects"] == {"source": "letters", "syncs": [], "runs": [], "items": []}
        shown = person("incidents", "show", str(row["id"]), "--json").ok().json
        assert shown["affects"]["runs"]
        status = person("status", "--exit-code")
        assert (status.code, "letters: " in status.out) == (1, True)
        (trouble,) = _of_letters(web_process.fetch(home, "/trouble", TroubleView).troubles)
        assert (trouble.incident, trouble.reason) == (row["id"], "source.unreachable")
        until(lambda: ("opened", "source.unreachable", row["id"]) in events(person))

        server.start()
        person("incidents", "ack", str(row["id"]), "--note", "the provider works on it").ok()
        # On a busy machine its own looks may have opened the breaker of the host, which the other mail tests share.
        until(lambda: person("sync", "letters", "--wait").code == 0)
        begun = time.monotonic()
        until(lambda: ("closed", "source.unreachable", row["id"]) in events(person))
        shown = person("incidents", "show", str(row["id"]), "--json").ok().json
        assert [moment["event"] for moment in shown["timeline"]] == ["opened", "acknowledged", "closed"]
        assert shown["state"] == "closed"
        print(f"opened after {took:.0f} s, closed after {time.monotonic() - begun:.0f} s")


def _of_letters(rows: Iterable[T]) -> list[T]:
    """Return the rows that are about the source."""
    return [row for row in rows if "letters" in str(row)]
