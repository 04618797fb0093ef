"""The example package for calendars, with Radicale and with .ics files behind an address."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from catchment_calendars import Calendar, CalendarSettings, events
from pydantic import ValidationError

from catchment.content.normalize.exchange.calendars import calendar
from catchment.errors import (
    ItemError,
    LoginFailed,
    ParseError,
    SourceError,
    SourceInvalid,
    SourceUnavailable,
    StillChanging,
)
from connectors.contract.memory_ledger import MemoryLedger
from tests.connectors.web.server import Page, SmallWeb
from tests.examples.example_contract import ExampleContract

radicale = pytest.importorskip("radicale")

from tests.examples.calendar_server import PASSWORD, USER, CalendarServer  # noqa: E402 - needs Radicale


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CalendarServer]:
    """A server with the calendars `garden` and `town` of one user."""
    monkeypatch.setenv("CALENDAR_PASSWORD", PASSWORD)
    with closing(CalendarServer(tmp_path / "radicale")) as server:
        server.add_calendar("garden")
        server.add_calendar("town")
        yield server


def settings_of(server: CalendarServer, path: str = "") -> dict[str, Any]:
    return {"address": f"{server.address}{path}", "user": USER, "password": "env:CALENDAR_PASSWORD"}


@pytest.fixture
def connector(server: CalendarServer) -> Iterator[Calendar]:
    with closing(Calendar(CalendarSettings(**settings_of(server)))) as connector:
        yield connector


class TestCalendarsOfServer(ExampleContract):
    package, kind = "catchment-calendars", "calendar"
    keeps_versions = False

    @pytest.fixture
    def place(self, server: CalendarServer) -> CalendarServer:
        return server

    def fill(self, place: CalendarServer) -> None:
        place.put("garden/eggs.ics", "eggs", "Fetch eggs")
        place.put("garden/tar.ics", "tar", "Tar the boat", "VTODO")
        place.put("town/fair.ics", "fair", "Summer fair")
        place.put("town/a%20b%26c.ics", "odd", "Odd name")

    def settings(self, place: CalendarServer) -> dict[str, Any]:
        return settings_of(place)

    def change(self, place: CalendarServer) -> None:
        place.put("town/oak.ics", "oak", "Plant an oak")
        place.put("garden/eggs.ics", "eggs", "Fetch more eggs")
        place.delete("garden/tar.ics")

    def lose(self, place: CalendarServer) -> None:
        place.close()


class TestIcsFile(ExampleContract):
    package, kind = "catchment-calendars", "calendar"

    @pytest.fixture
    def place(self) -> Iterator[SmallWeb]:
        with SmallWeb() as web:
            yield web

    def fill(self, place: SmallWeb) -> None:
        self._write(place, one="Eggs", two="Tar", three="Fair", four="Oak")

    def settings(self, place: SmallWeb) -> dict[str, Any]:
        return {"address": place.hosts[0].address("/holidays.ics?key=1")}

    def change(self, place: SmallWeb) -> None:
        self._write(place, one="Eggs", two="Pitch", three="Fair", five="Ash")

    def lose(self, place: SmallWeb) -> None:
        place.hosts[0].always = Page(status=500)

    def _write(self, web: SmallWeb, **titles: str) -> None:
        entries = "".join(
            f"BEGIN:VEVENT\r\nUID:{uid}\r\nSUMMARY:{title}\r\nEND:VEVENT\r\n" for uid, title in titles.items()
        )
        web.hosts[0].put("/holidays.ics?key=1", f"BEGIN:VCALENDAR\r\n{entries}END:VCALENDAR\r\n", "text/calendar")


def test_events_and_tasks_are_read_with_their_titles(
    server: CalendarServer, connector: Calendar, ledger: MemoryLedger
) -> None:
    server.put("garden/eggs.ics", "eggs", "Fetch eggs")
    server.put("town/äb c&d.ics", "tar", "Tar the boat", "VTODO")
    ledger.sync(connector)
    titles = {name: calendar(data, "text/calendar").title for name, data in ledger.documents().items()}
    assert titles == {"ada/garden/eggs.ics": "Fetch eggs", "ada/town/äb c&d.ics": "Tar the boat"}


def test_address_of_one_calendar_reads_that_one(server: CalendarServer, ledger: MemoryLedger) -> None:
    server.put("garden/eggs.ics", "eggs", "Fetch eggs")
    server.put("town/fair.ics", "fair", "Summer fair")
    with closing(Calendar(CalendarSettings(**settings_of(server, "garden/")))) as connector:
        ledger.sync(connector)
    assert list(ledger.documents()) == ["ada/garden/eggs.ics"]


def test_entries_are_read_fifty_at_a_time_and_unchanged_ones_not_again(
    server: CalendarServer, connector: Calendar, ledger: MemoryLedger
) -> None:
    for number in range(60):
        server.put(f"garden/{number}.ics", f"uid-{number}", f"Event {number}")
    server.put("town/fair.ics", "fair", "Summer fair")
    items = [change.item for change in ledger.sync(connector, fetch=False).item_changes]
    assert sorted(server.requests) == ["PROPFIND /ada/", "PROPFIND /ada/garden/", "PROPFIND /ada/town/"]
    server.requests.clear()
    connector.expect(items)
    assert len({connector.fetch(item).data for item in items}) == 61
    assert sorted(server.requests) == [*["REPORT /ada/garden/"] * 2, "REPORT /ada/town/"]
    server.put("garden/7.ics", "uid-7", "Moved")
    assert ledger.sync(connector).fetched == {*ledger.present()}
    server.put("garden/7.ics", "uid-7", "Moved again")
    assert ledger.sync(connector).fetched == {"ada/garden/7.ics"}


def test_entry_that_changes_while_others_are_read_is_left_for_the_next_sync(
    server: CalendarServer, connector: Calendar, ledger: MemoryLedger
) -> None:
    server.put("garden/eggs.ics", "eggs", "Fetch eggs")
    server.put("garden/tar.ics", "tar", "Tar the boat")
    items = {change.item.locator: change.item for change in ledger.sync(connector, fetch=False).item_changes}
    server.put("garden/eggs.ics", "eggs", "Fetch more eggs")
    connector.expect(list(items.values()))
    assert b"Tar the boat" in connector.fetch(items["ada/garden/tar.ics"]).data
    with pytest.raises(StillChanging, match="; the next sync"):
        connector.fetch(items["ada/garden/eggs.ics"])


def test_wrong_password_is_named_without_it(
    server: CalendarServer, connector: Calendar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALENDAR_PASSWORD", "dam")
    with pytest.raises(LoginFailed, match=r"login refused; correct it$"):
        connector.probe()
    monkeypatch.delenv("CALENDAR_PASSWORD")
    connector.close()
    with pytest.raises(LoginFailed, match="secret env:CALENDAR_PASSWORD: variable not set; set it"):
        connector.probe()


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        ("404 Not Found", b"", SourceUnavailable, "not found"),
        ("403 Forbidden", b"", SourceInvalid, "not permitted; ask for access"),
        ("207 Multi-Status", b"<html>", SourceInvalid, "no answer of a CalDAV server; copy the address"),
        ("207 Multi-Status", b"<x/>", SourceInvalid, "no calendar at this address; copy the address"),
        ("405 Method Not Allowed", b"", SourceUnavailable, "HTTP status 405; check the address"),
        ("503 Service Unavailable", b"", SourceUnavailable, "HTTP status 503"),
    ],
)
def test_server_that_does_not_list_keeps_all_documents(
    server: CalendarServer,
    connector: Calendar,
    ledger: MemoryLedger,
    status: str,
    body: bytes,
    error: type[SourceError],
    words: str,
) -> None:
    server.put("garden/eggs.ics", "eggs", "Fetch eggs")
    ledger.sync(connector)
    server.harm = lambda _method, _path: (status, body)
    with pytest.raises(error, match=words):
        ledger.sync(connector)
    assert len(ledger.documents()) == 1


def test_one_calendar_that_cannot_be_listed_keeps_its_documents(
    server: CalendarServer, connector: Calendar, ledger: MemoryLedger
) -> None:
    server.put("garden/eggs.ics", "eggs", "Fetch eggs")
    server.put("town/fair.ics", "fair", "Summer fair")
    ledger.sync(connector)
    server.harm = lambda _method, path: ("404 Not Found", b"") if path == "/ada/town/" else None
    with pytest.raises(SourceUnavailable):
        ledger.sync(connector)
    assert len(ledger.documents()) == 2


def test_damaged_answer_about_entries_fails_those_alone(
    server: CalendarServer, connector: Calendar, ledger: MemoryLedger
) -> None:
    server.put("garden/eggs.ics", "eggs", "Fetch eggs")
    items = [change.item for change in ledger.sync(connector, fetch=False).item_changes]
    server.harm = lambda method, _path: ("207 Multi-Status", b"<broken") if method == "REPORT" else None
    with pytest.raises(ItemError):
        connector.fetch(items[0])
    server.harm = lambda _method, _path: None
    assert connector.fetch(items[0]).name == "eggs.ics"


def test_entries_of_a_file_are_cut_by_their_uid() -> None:
    text = (
        "\ufeffBEGIN:VCALENDAR\r\nVERSION:2.0\r\nX-WR-CALNAME:Town\r\n"
        "BEGIN:VTIMEZONE\r\nTZID:Town\r\nEND:VTIMEZONE\r\n"
        "BEGIN:VEVENT\r\nUID:a/b@example.org\r\nDTSTAMP:20261130T000000Z\r\nSUMMARY;LANGUAGE=en:Fair\\, with \r\n bees\r\n"
        "RRULE:FREQ=DAILY\r\nBEGIN:VALARM\r\nEND:VALARM\r\nEND:VEVENT\r\n"
        "BEGIN:VTODO\r\nSUMMARY:Without an ID\r\nEND:VTODO\r\n"
        "BEGIN:VEVENT\r\nUID:a/b@example.org\r\nRECURRENCE-ID:20261201\r\nSUMMARY:Fair\\, moved\r\nEND:VEVENT\r\n"
        "END:VCALENDAR\r\n"
    )
    series, task = events(text.encode())
    assert (series.name, series.title) == ("a%2Fb@example.org.ics", "Fair, with bees")
    assert series.content and series.content.count(b"BEGIN:VEVENT") == 2
    assert b"DTSTAMP" not in series.content and b"TZID:Town" in series.content
    assert task.title == "Without an ID"
    later = text.replace("20261130T000000Z", "20261201T000000Z")
    assert events(later.encode()) == [series, task]


@pytest.mark.parametrize(
    "line", ["BEGIN:VEVENT\n", "BEGIN:VEVENT\nBEGIN:VTODO\n", "UID:1\n", "END:VTODO\n", "\n", "SUMMARY;a\n"]
)
def test_file_that_never_ends_its_entries_takes_no_longer(line: str) -> None:
    began = time.process_time()
    assert events(f"BEGIN:VCALENDAR\nBEGIN:VEVENT\n{line * 100_000}END:VCALENDAR".encode()) == []
    assert time.process_time() - began < 10  # 0.1 s; in quadratic time it would be minutes


@pytest.mark.parametrize("content", [b"", b"<html>", b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:1\r\nEND:VEVENT\r\n"])
def test_file_that_is_cut_off_or_no_calendar_is_refused(content: bytes) -> None:
    with pytest.raises(ParseError, match=r"no whole calendar at this address; copy that of an \.ics"):
        events(content)


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("webcal://example.org/a.ics", "https://example.org/a.ics"),
        ("webcals://example.org/a.ics", "https://example.org/a.ics"),
        ("http://127.0.0.1:5232/ada/", "http://127.0.0.1:5232/ada/"),
    ],
)
def test_location_is_an_address(location: str, address: str) -> None:
    assert CalendarSettings(**CalendarSettings.located(location)).address == address


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("http://example.org/ada/", "http is only for a server on this machine; use https://"),
        (
            "https://ada:weir@example.org/ada/",
            "not a web address without a login; write it as https://example.org/path",
        ),
        ("garden.ics", "not a web address"),
        ("file:///etc/passwd", "not a web address"),
        ("https://exa mple.org\\@other.example/", "not a web address"),
        ("https://[::1/", "not a web address"),
    ],
)
def test_location_that_is_no_safe_address_is_refused(location: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        CalendarSettings(**CalendarSettings.located(location))
