"""An odd date in content of strangers costs no other content, wherever it is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from html import escape
from typing import Any

import orjson
import pytest

from catchment.content.normalize import normalize
from catchment.model import RawContent, time_of
from catchment.pacing import read_headers
from connectors.github.api.entries import parse_time
from connectors.imap.responses import parse_messages
from connectors.web import looks
from connectors.web.client import WebResponse
from connectors.web.feeds import read_feed
from connectors.web.seeds import SeedKind, addresses_in
from tests.normalize import samples

_PAGE = "https://river.example/1"
_GOOD = datetime(2024, 5, 6, 12, tzinfo=UTC)
_EASTERNMOST, _WESTERNMOST = timezone(timedelta(hours=14)), timezone(-timedelta(hours=12))
ODD = (
    "",
    "-1",
    "0",
    "1e99",
    "1e999",
    "nan",
    "\ud83d",
    "\x0b",
    "99999999999999999999",
    "9" * 5_000,
    "0000-00-00T00:00:00Z",
    "0001-01-01",
    "0001-01-01T00:00:00+01:00",
    "9999-12-31",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-01:00",
    "9999-12-31T23:59:59-23:59",
    "2024-01-01T00:00:00+99:99",
    "2024-02-30T25:61:61Z",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Fri, 31 Dec 9999 23:59:59 -0100",
    "31 Dec 9999 23:59:59 -2359",
    "Mon, 01 Jan 0001 00:00:00 +0100",
    "Mon, 99 Foo 99999",
    "Mon, 01 Jan 99999999999999 00:00:00 GMT",
    "Thu, 01 Jan 1970 00:00:00 +9999",
    "9999:12:31 23:59:59",
    "99991231235959-01'00'",
)


def _of_response(text: str) -> datetime | None:
    return looks.after_new_content(None, _GOOD, WebResponse(modified=text)).dated


def _of_rss(text: str) -> datetime | None:
    item = f"<item><guid>1</guid><pubDate>{escape(text)}</pubDate></item>"
    return _in_feed(f"<rss><channel>{item}<item><guid>2</guid></item></channel></rss>")


def _of_atom(text: str) -> datetime | None:
    entry = f"<entry><id>1</id><published>{escape(text)}</published></entry><entry><id>2</id></entry>"
    return _in_feed(f'<feed xmlns="http://www.w3.org/2005/Atom">{entry}</feed>')


def _of_json_feed(text: str) -> datetime | None:
    items = [{"id": "1", "date_published": text.encode(errors="replace").decode()}, {"id": "2"}]
    return _in_feed(orjson.dumps({"version": "https://jsonfeed.org/version/1.1", "items": items}).decode())


def _in_feed(text: str) -> datetime | None:
    first, second = read_feed(text.encode(errors="replace"), _PAGE).entries
    assert second.id == "2"
    return first.published


def _of_sitemap(text: str) -> datetime | None:
    url = f"<url><loc>{_PAGE}</loc><lastmod>{escape(text)}</lastmod></url>"
    [found] = addresses_in(f"<urlset>{url}</urlset>".encode(errors="replace"), SeedKind.SITEMAP, _PAGE).addresses
    return found.modified


def _of_retry(text: str) -> datetime | None:
    report = read_headers({"Retry-After": text, "Date": text, "X-RateLimit-Reset": text}, _GOOD)
    assert report.retry_after is None or 0 <= report.retry_after <= 86_400
    return None


def _of_message(text: str) -> datetime | None:
    head = f"From: a@river.example\nDate: {text}\nReceived: from a by b; {text}\n\nThe weir\n"
    return _read(head.encode(errors="replace"), "a.eml")


def _of_internal_date(text: str) -> datetime | None:
    received = (
        datetime.max.replace(tzinfo=_WESTERNMOST) if "9999" in text else datetime.min.replace(tzinfo=_EASTERNMOST)
    )
    [message] = parse_messages({1: {b"RFC822.SIZE": 1, b"INTERNALDATE": received}}, [1])
    return message.received


def _of_note(text: str) -> datetime | None:
    return _read(f"---\ncreated: '{text}'\n---\nThe weir\n".encode(errors="replace"), "a.md")


def _of_page(text: str, address: str = "") -> datetime | None:
    meta = f'<meta property="article:published_time" content="{escape(text)}">'
    page = f"<html><head>{meta}</head><body><p>The weir</p></body></html>"
    return normalize(RawContent(page.encode(errors="replace"), "a.html", address=address)).created


def _of_photo(text: str) -> datetime | None:
    data = text.encode(errors="replace")
    return _read(samples.photograph("<", (0x9003, data[:19]), (0x9011, b"-01:00\x00")), "a.jpg")


def _of_office(text: str) -> datetime | None:
    return _read(samples.docx(created=escape(text.encode(errors="replace").decode().replace("\0", ""))), "a.docx")


def _of_pdf(text: str) -> datetime | None:
    return _read(samples.pdf(created=text.encode(errors="replace").decode()), "a.pdf")


def _of_api(text: str) -> datetime | None:
    try:
        return parse_time(text)
    except ValueError:  # The page of a listing with it is refused as malformed.
        return None


def _read(data: bytes, name: str) -> datetime | None:
    return normalize(RawContent(data, name)).created


PLACES: dict[str, Callable[[str], datetime | None]] = {
    "Last-Modified": _of_response,
    "RSS": _of_rss,
    "Atom": _of_atom,
    "JSON Feed": _of_json_feed,
    "sitemap": _of_sitemap,
    "Retry-After": _of_retry,
    "message": _of_message,
    "INTERNALDATE": _of_internal_date,
    "note": _of_note,
    "HTML": _of_page,
    "web page": lambda text: _of_page(text, _PAGE),
    "EXIF": _of_photo,
    "office": _of_office,
    "PDF": _of_pdf,
    "API": _of_api,
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("text", ODD, ids=lambda text: ascii(text[:32]))
def test_odd_date_costs_no_more_than_itself(place: str, text: str) -> None:
    found = PLACES[place](text)
    if found is not None:
        assert found.tzinfo is UTC
        assert found.astimezone(_EASTERNMOST) == found.astimezone(_WESTERNMOST)


@pytest.mark.parametrize(
    "given", ["2024-05-06T12:00:00", "2024-05-06T14:00:00+02:00", "2024-05-06 12:00Z", 5, None, [], 1e300]
)
def test_time_is_read_in_its_zone_or_not_at_all(given: Any) -> None:
    assert time_of(given) == (_GOOD if isinstance(given, str) else None)
