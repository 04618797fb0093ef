"""Calendars: the events and tasks of a CalDAV server, or of an address with an .ics file."""

from __future__ import annotations

import re
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit
from xml.etree import ElementTree

from pydantic import Field

from catchment.contracts import Manifest
from catchment.errors import ParseError, SourceInvalid
from catchment.runtime.secret_references import resolve
from catchment.settings import SecretReference, SourceSettings
from connectors.listing import Entry, HostAddress, HostListing

_DAV, _CALDAV = "{DAV:}", "{urn:ietf:params:xml:ns:caldav}"
_LIST = "<D:propfind xmlns:D='DAV:'><D:prop><D:resourcetype/><D:getetag/></D:prop></D:propfind>"
_READ = (
    "<C:calendar-multiget xmlns:D='DAV:' xmlns:C='urn:ietf:params:xml:ns:caldav'>"
    "<D:prop><D:getetag/><C:calendar-data/></D:prop>{}</C:calendar-multiget>"
)
_HEADERS = {"Content-Type": "application/xml; charset=utf-8", "Depth": "1"}
_KINDS = "VEVENT|VTODO|VJOURNAL|VTIMEZONE"
_PART = re.compile(rf"^BEGIN:({_KINDS})\n(?:(?!(?:BEGIN|END):\1\n).*\n)*END:\1\n", re.MULTILINE)  # in linear time


class CalendarSettings(SourceSettings):
    """Settings of a `calendar` source."""

    identity: ClassVar[tuple[str, ...]] = ("address",)
    address: HostAddress = Field(
        title="Address",
        description="Address of an .ics file, or of a calendar or all calendars of a CalDAV server, which ends with /",
    )
    user: str = Field("", title="User", description="Login name, if the address needs a login")
    password: SecretReference | None = Field(
        None,
        title="Password",
        description="Reference to the password: env:VARIABLE, file:PATH, keyring:S/U, block:NAME",
    )
    assistants: bool = Field(
        False, title="Assistants", description="Let assistants (`catchment mcp`) search and read these calendars"
    )

    @classmethod
    def located(cls, location: str) -> Mapping[str, Any]:
        """Return the settings for an address. Providers offer some as webcal://."""
        return {"address": re.sub("^webcals?:", "https:", location)}


class Calendar(HostListing):
    """The connector for calendars. A CalDAV resource has its ETag as its version; an .ics file is read at each sync."""

    kind: ClassVar[str] = "calendar"
    manifest: ClassVar[Manifest] = Manifest(
        "Calendar",
        "a calendar",
        place="Address: of CalDAV calendars, with / at the end, or of an .ics file",
        example="https://cloud.example.org/dav/calendars/ada/",
        level="silver",
        exempt={"moves": "an entry is known by its address"},
    )
    settings: ClassVar[type[SourceSettings]] = CalendarSettings

    def headers(self) -> Mapping[str, str]:
        if self.configured.password is None:
            return {}
        login = f"{self.configured.user}:{resolve(self.configured.password)}"
        return {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}

    def entries(self) -> Iterator[Entry]:
        if not self.address.endswith("/"):
            yield from self.parse(events, self.ask(self.address))
            return
        resources = self._request("PROPFIND", unquote(urlsplit(self.address).path), _LIST)
        calendars = [resource.path for resource in resources if resource.is_calendar]
        if not calendars:
            raise SourceInvalid("no calendar at this address; copy the address of a calendar from its settings")
        for calendar in calendars:
            for resource in self._request("PROPFIND", calendar, _LIST):
                if resource.etag and not resource.path.endswith("/"):
                    yield Entry(resource.path.removeprefix("/"), version=resource.etag)

    def read_several(self, entries: Sequence[Entry]) -> Mapping[str, bytes]:
        calendar = entries[0].name.rpartition("/")[0]
        versions = {f"/{entry.name}": entry.version for entry in entries if entry.name.rpartition("/")[0] == calendar}
        hrefs = "".join(f"<D:href>{quote(path)}</D:href>" for path in versions)
        return {
            resource.path.removeprefix("/"): resource.content.encode()
            for resource in self._request("REPORT", f"/{calendar}/", _READ.format(hrefs))
            if resource.content and resource.etag == versions.get(resource.path)
        }

    def _request(self, method: str, path: str, body: str) -> list[Resource]:
        address = urljoin(self.address, quote(path))
        return self.parse(resources_of, self.ask(address, method, body.encode(), **_HEADERS))


class Resource(NamedTuple):
    """A resource of a CalDAV server. `path`: without escapes."""

    path: str
    etag: str
    is_calendar: bool
    content: str


def resources_of(answer: bytes) -> list[Resource]:
    """Return the resources in an answer of a server (RFC 4918, 13). Raises ParseError."""
    try:
        return [
            Resource(
                unquote(urlsplit(response.findtext(f"{_DAV}href", "").strip()).path),
                response.findtext(f".//{_DAV}getetag", ""),
                response.find(f".//{_DAV}resourcetype/{_CALDAV}calendar") is not None,
                response.findtext(f".//{_CALDAV}calendar-data", ""),
            )
            for response in ElementTree.fromstring(answer).iter(f"{_DAV}response")
        ]
    except (ElementTree.ParseError, LookupError, ValueError):
        raise ParseError("no answer of a CalDAV server; copy the address of a calendar from its settings") from None


def events(calendar: bytes) -> list[Entry]:
    """Return the entries of a calendar (RFC 5545). Those with one UID are one. Raises ParseError."""
    # Unfolded, and without the time of the export.
    text = re.sub(rb"\r?\n[ \t]", b"", calendar).decode("utf-8-sig", "replace").replace("\r\n", "\n").strip()
    text = re.sub(r"^DTSTAMP[:;].*\n", "", text, flags=re.MULTILINE)
    if not (text.startswith("BEGIN:VCALENDAR") and text.endswith("END:VCALENDAR")):
        raise ParseError("no whole calendar at this address; copy that of an .ics file, or end one of CalDAV with /")
    parts = [(match[1], match[0]) for match in _PART.finditer(text)]
    zones = "".join(part for kind, part in parts if kind == "VTIMEZONE")
    by_id: defaultdict[str, list[str]] = defaultdict(list)
    for kind, part in parts:
        if kind != "VTIMEZONE":
            uid = _field("UID", part)
            by_id[quote(uid, "@ ") if 0 < len(uid) < 200 else sha256(part.encode()).hexdigest()].append(part)
    head, end = f"BEGIN:VCALENDAR\nVERSION:2.0\n{zones}", "END:VCALENDAR\n"
    return [
        Entry(f"{uid}.ics", "".join([head, *same, end]).encode(), title=_field("SUMMARY", same[0]) or None)
        for uid, same in by_id.items()
    ]


def _field(name: str, part: str) -> str:
    match = re.search(rf"^{name}(?:;[^:\n]*)?:(.*)$", part, re.MULTILINE)
    return re.sub(r"\\(.)", lambda escape: " " if escape[1] in "nN" else escape[1], match[1]).strip() if match else ""
