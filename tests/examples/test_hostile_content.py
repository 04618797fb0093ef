"""The parsers of the example packages, with any bytes: they return entries or raise ParseError."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from catchment_browser import documents
from catchment_calendars import events, resources_of
from catchment_chat import months
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.errors import ParseError
from tests.examples.test_chat import chat, message

_CALENDAR = (
    b"BEGIN:VCALENDAR\r\nBEGIN:VTIMEZONE\r\nEND:VTIMEZONE\r\n"
    b"BEGIN:VEVENT\r\nUID:1\r\nSUMMARY;X=a:b\\n\r\n c\r\nEND:VEVENT\r\nEND:VCALENDAR"
)
_ANSWER = (
    b"<?xml version='1.0' encoding='utf-8'?><D:multistatus xmlns:D='DAV:' xmlns:C='urn:ietf:params:xml:ns:caldav'>"
    b"<D:response><D:href>http://h/a%20b/</D:href><D:propstat><D:prop><D:resourcetype><C:calendar/></D:resourcetype>"
    b"<D:getetag>1</D:getetag><C:calendar-data>x</C:calendar-data></D:prop></D:propstat></D:response></D:multistatus>"
)
_PARTS = ["a", {"text": "b", "href": "c"}]
_EXPORT = json.dumps(chat(1, "Ada", message(1, "2026-01-31T09:00:00", _PARTS, date_unixtime="1"))).encode()

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Bytes of which a part is replaced by others."""
    start, length = draw(st.integers(0, len(content))), draw(st.integers(0, 20))
    return content[:start] + draw(st.binary(max_size=8)) + content[start + length :]


@given(damaged(_CALENDAR) | st.binary(max_size=200))
def test_any_calendar(content: bytes) -> None:
    with suppress(ParseError):
        names = [entry.name for entry in events(content)]
        assert len(names) == len(set(names))


@given(
    damaged(_ANSWER)
    | st.sampled_from([b"<?xml version='1.0' encoding='no-such'?><a/>", _ANSWER.replace(b"//h", b"//[")])
)
def test_any_answer_of_a_server(content: bytes) -> None:
    with suppress(ParseError):
        resources_of(content)


@given(damaged(_EXPORT))
def test_any_export(content: bytes) -> None:
    with suppress(ParseError):
        months(content)


@given(
    st.sampled_from(["name", "type", "id", "messages", "chats"]),
    st.sampled_from(["text", "date", "date_unixtime", "from", "file", "media_type", "file_name"]),
    _JSON,
    _JSON,
)
def test_export_with_any_value(key: str, inner: str, value: Any, other: Any) -> None:
    export = chat(1, "Ada", message(1, "2026-01-31", "a") | {inner: other})
    for content in (export, export | {key: value}):
        with suppress(ParseError):
            months(json.dumps(content).encode())


@settings(max_examples=50, deadline=None)
@given(st.integers() | st.floats() | st.binary(max_size=5) | st.text(max_size=5) | st.none(), _JSON)
def test_any_value_in_a_browser(value: Any, mark: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder, "History")
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("CREATE TABLE urls (id INTEGER PRIMARY KEY, url, title, hidden)")
            connection.execute("CREATE TABLE visits (url, visit_time)")
            fits = not isinstance(value, int) or -(2**63) <= value < 2**63
            for row in [(value, "a", 0), ("https://example.org/", value, 0)] if fits else []:
                number = connection.execute("INSERT INTO urls (url, title, hidden) VALUES (?, ?, ?)", row).lastrowid
                connection.execute("INSERT INTO visits VALUES (?, 13300000000000000)", (number,))
                connection.execute("INSERT INTO visits VALUES (?, ?)", (number, value))
            connection.commit()
        child = mark if isinstance(mark, dict) else {"type": "url", "name": mark, "url": mark}
        Path(folder, "Bookmarks").write_text(json.dumps({"roots": {"a": {"name": mark, "children": [child]}}}))
        with suppress(ParseError):
            documents(str(database))
