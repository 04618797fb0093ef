"""Bases for connectors of everyday size: a subclass lists its entries and reads them; the contract is kept here.

`Listing` compares entries with the known items, and gives tombstones, moves and exact versions. `HostListing` adds requests to
one host, at its pace.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple
from urllib.parse import urljoin, urlsplit

from pydantic import AfterValidator

from catchment.contracts import Known, Manifest, Parse, parse_here
from catchment.errors import (
    AccessDenied,
    FailureClass,
    ItemError,
    LoginFailed,
    RateLimited,
    ResourceExhausted,
    SkipReason,
    SourceInvalid,
    SourceUnavailable,
    StillChanging,
    Vanished,
)
from catchment.model import Change, Checkpoint, Item, KnownItem, RawContent, Root, Skip, Tombstone, Upsert, count
from catchment.pacing import HostLimits, Pace, read_headers
from catchment.runtime.addresses import host_of, is_local
from catchment.settings import Policy, SourceSettings

if TYPE_CHECKING:
    import httpx

_PER_CHECKPOINT = 2_000
_SILENCE_SECONDS, _SECONDS = 60.0, 600.0


def _address(address: str) -> str:
    if host_of(address) is None or urlsplit(address).scheme not in ("https", "http") or "@" in urlsplit(address).netloc:
        raise ValueError("not a web address without a login; write it as https://example.org/path")
    if address.startswith("http:") and not is_local(address):
        raise ValueError("http is only for a server on this machine; use https://")
    return address


HostAddress = Annotated[str, AfterValidator(_address)]
"""The type of the setting `address` of a `HostListing`."""


class Entry(NamedTuple):
    """What a source has, as it lists it.

    Attributes:
        name: Unique in the source and readable, such as "2026/Plan.ics". Its ending tells the type.
        content: Its bytes, if the listing has them; or else `version` is needed, and `Listing.read`.
        version: Differs for every other content.
        identity: Survives a renaming, and is equal only for the same content; None if there is none.
        title: In place of that in the content.
        modified: Aware UTC.
        metadata: As in `RawContent`, such as `url`.
        size: Bytes, if listed without its content and known. A larger one than `limits.max_mb` is skipped.
    """

    name: str
    content: bytes | None = None
    version: str = ""
    identity: str | None = None
    title: str | None = None
    modified: datetime | None = None
    metadata: Mapping[str, Any] = {}
    size: int | None = None

    @property
    def item(self) -> Item:
        """The item for the ledger. All that its document has is part of the version."""
        facts = repr((self.version, self.title, self.modified, sorted(self.metadata.items()))).encode()
        version = hashlib.sha256(facts + (self.content or b"")).hexdigest()
        size = self.size if self.content is None else len(self.content)
        return Item(self.name, "", version, self.identity, size, self.modified)


class Listing:
    """A connector that lists all of its source each time. Subclasses define `kind`, `manifest`, `settings` and `entries`."""

    kind: ClassVar[str]
    manifest: ClassVar[Manifest]
    settings: ClassVar[type[SourceSettings]]
    policy: ClassVar[Policy] = Policy()
    fetch_in_parser: ClassVar[bool] = False
    several: ClassVar[int] = 50
    """Maximum number of entries in a call of `read_several`."""

    def __init__(self, settings: Any) -> None:
        self.configured = settings
        self.parse: Parse = parse_here
        self._lock = threading.RLock()
        self._listed: dict[str, Entry] | None = None
        self._local = threading.local()
        self.before: Mapping[str, KnownItem] | None = None
        """The known items by name, during a listing that is compared with them."""

    def entries(self) -> Iterable[Entry]:
        """Yield everything that the source has. Bytes of strangers are parsed by a function in `self.parse`.

        Raises SourceUnavailable, LoginFailed or SourceInvalid, with a remedy. An ItemError becomes one of them.
        """
        raise NotImplementedError

    def read_several(self, entries: Sequence[Entry]) -> Mapping[str, bytes | None]:
        """Return the contents by name that one request can read; None for one that has changed. In place of `read`."""
        raise NotImplementedError

    def read(self, entry: Entry) -> bytes:
        """Return the content of an entry, and read the expected next ones ahead with `read_several`."""
        ahead: dict[str, bytes | None] = self._local.__dict__.setdefault("ahead", {})
        if entry.name not in ahead:
            names = self._local.__dict__.get("expected", [])
            after = names[names.index(entry.name) + 1 :][: self.several - 1] if entry.name in names else []
            listed = self._listed or {}
            entries = [entry, *(listed[name] for name in after if name in listed and name not in ahead)]
            try:
                ahead.update(self.read_several(entries))
            except ItemError:  # of any of them
                ahead.update(self.read_several([entry]))
        if (content := ahead.pop(entry.name, None)) is None:
            raise StillChanging("gone or changed since it was listed; the next sync checks")
        return content

    def probe(self) -> str:
        return count(len(self._list()), "entry", "entries")

    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:
        del deep  # a version tells of every change
        yield Root({"": self.kind})
        self.before = before = known.within("")
        listed = self._list()
        self.before = None
        limit = self.configured.policy(self.policy).limits.max_bytes
        yield from (Tombstone(name) for name in before if name not in listed)
        for number, item in enumerate((entry.item for entry in listed.values()), 1):
            is_large = (item.size or 0) > limit
            version = f"{item.version}+{SkipReason.TOO_LARGE}" if is_large else item.version
            old = before.get(item.locator)
            if old is None or (old.version, old.identity) != (version, item.identity):
                yield Skip(replace(item, version=version), SkipReason.TOO_LARGE) if is_large else Upsert(item)
            if number % _PER_CHECKPOINT == 0:
                yield Checkpoint()
        yield Checkpoint()

    def fetch(self, item: Item) -> RawContent:
        with self._lock:
            listed = self._list() if self._listed is None else self._listed
        if (entry := listed.get(item.locator)) is None:
            raise Vanished("no longer in its source; the next sync deletes it")
        if entry.item.version != item.version:
            raise StillChanging("changed since it was listed; the next sync reads it")
        data = self.read(entry) if entry.content is None else entry.content
        name = entry.name.rpartition("/")[2]
        return RawContent(data, name, entry.title, modified=entry.modified, metadata=dict(entry.metadata))

    def expect(self, items: Sequence[Item]) -> None:
        self._local.expected, self._local.ahead = [item.locator for item in items], {}

    def close(self) -> None:
        """Forget what was listed."""
        self._listed = None

    def _list(self) -> dict[str, Entry]:
        with self._lock:
            try:
                self._listed = {entry.name: entry for entry in self.entries()}
            except ItemError as error:
                is_lasting = error.failure_class is FailureClass.PERMANENT
                raise (SourceInvalid if is_lasting else SourceUnavailable)(f"cannot be listed: {error}") from None
            return self._listed

    def __reduce__(self) -> tuple[type[Listing], tuple[Any]]:
        return type(self), (self.configured,)


class HostListing(Listing):
    """A listing over HTTP of one host, which `address` names. It needs consent as a whole."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.pace = Pace()
        self._http: httpx.Client | None = None

    @property
    def address(self) -> str:
        """The address of the host: the setting of this name."""
        return str(self.configured.address)

    def headers(self) -> Mapping[str, str]:
        """Return headers for each request, such as a login. They are sent to this host only."""
        return {}

    def limits(self) -> HostLimits:
        return HostLimits(urlsplit(self.address).netloc)

    def ask(self, address: str, method: str = "GET", body: bytes | None = None, **headers: str) -> bytes:
        """Return the content at an address of the host.

        Raises Vanished, AccessDenied or ResourceExhausted for this address, RateLimited, LoginFailed or SourceUnavailable for
        the host.
        """
        import httpx

        from connectors.tls import certificate_error

        host, content, end = self.limits().host, bytearray(), time.monotonic() + _SECONDS
        limit = self.configured.policy(self.policy).limits.max_bytes
        if not f"{address}/".startswith(urljoin(self.address, "/")):
            raise SourceUnavailable(f"{host}: refers to another host; correct the address")
        with self.pace.transfer() as transfer:
            try:
                with self._client().stream(method, address, content=body, headers=headers) as response:
                    status = response.status_code
                    transfer.report(report := read_headers(response.headers))
                    for part in response.iter_bytes():
                        content += part
                        if len(content) > limit:
                            break
                        if time.monotonic() > end:
                            raise SourceUnavailable(f"{host}: no whole answer in {_SECONDS:.0f} s; try again later")
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                reason = certificate_error(error) or type(error).__name__
                raise SourceUnavailable(f"{host}: no answer ({reason}); check address and network") from None
            if status == 401:
                raise LoginFailed(f"{host}: login refused; correct it")
            if status == 429 or (status == 503 and report.retry_after is not None):
                raise RateLimited(host, report.retry_after)
            if status not in (*range(200, 300), 403, 404, 410):
                raise SourceUnavailable(f"{host}: HTTP status {status}; check the address", report.retry_after)
        if status in (404, 410):
            raise Vanished(f"{host}: not found; the next sync checks, or correct the address")
        if status == 403:
            raise AccessDenied(f"{host}: not permitted; ask for access")
        if len(content) > limit:
            raise ResourceExhausted(f"{host}: an answer is larger than {limit:,} bytes; raise limits.max_mb")
        return bytes(content)

    def close(self) -> None:
        super().close()
        with self._lock:
            client, self._http = self._http, None
        if client is not None:
            client.close()

    def _client(self) -> httpx.Client:
        import httpx

        from connectors.tls import authorities

        with self._lock:
            if self._http is None:
                self._http = httpx.Client(
                    headers={"User-Agent": "catchment", **self.headers()},
                    timeout=_SILENCE_SECONDS,
                    verify=authorities() if self.address.startswith("https:") else False,
                    trust_env=not is_local(self.address),
                )
            return self._http
