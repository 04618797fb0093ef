"""Bases for connectors of everyday size: a subclass lists its entries and reads one; the contract is kept here.

`Listing` compares entries with the known items, and gives checkpoints, tombstones and exact versions. `HostListing` adds
requests to one host, at its pace.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from urllib.parse import urlsplit

from catchment.contracts import Known, Parse, parse_here
from catchment.errors import AccessDenied, LoginFailed, RateLimited, SourceUnavailable, StillChanging, Vanished
from catchment.model import Change, Checkpoint, Item, RawContent, Root, Tombstone, Upsert
from catchment.pacing import HostLimits, Pace, read_headers
from catchment.runtime.addresses import is_local
from catchment.settings import Policy, SourceSettings

if TYPE_CHECKING:
    import httpx

_PER_CHECKPOINT = 2_000
_MOST_BYTES = 64_000_000
_SECONDS = 60.0


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
    """

    name: str
    content: bytes | None = None
    version: str = ""
    identity: str | None = None
    title: str | None = None
    modified: datetime | None = None
    metadata: Mapping[str, Any] = {}

    @property
    def item(self) -> Item:
        """The item for the ledger."""
        if self.content is None:
            return Item(self.name, "", self.version, self.identity, modified=self.modified)
        facts = f"{self.title}\0{sorted(self.metadata.items())}\0".encode(errors="surrogatepass")
        version = hashlib.sha256(facts + self.content).hexdigest()
        return Item(self.name, "", version, self.identity, len(self.content), self.modified)


class Listing:
    """A connector that lists all of its source each time. Subclasses define `kind`, `settings` and `entries`."""

    kind: ClassVar[str]
    settings: ClassVar[type[SourceSettings]]
    policy: ClassVar[Policy] = Policy()
    fetch_in_parser: ClassVar[bool] = False

    def __init__(self, settings: Any) -> None:
        self.configured = settings
        self.parse: Parse = parse_here
        self._listed: dict[str, Entry] = {}

    def entries(self) -> Iterable[Entry]:
        """Yield everything that the source has. Bytes of strangers are parsed by a function in `self.parse`.

        Raises SourceUnavailable, LoginFailed or SourceInvalid, with a remedy.
        """
        raise NotImplementedError

    def read(self, entry: Entry) -> bytes:
        """Return the content of an entry that was listed without it. Raises Vanished, or StillChanging for another version."""
        raise NotImplementedError

    def place(self) -> str:
        """Return an identity of the source: with another one, deletions wait for a decision."""
        return self.kind

    def probe(self) -> str:
        number = sum(1 for _ in self.entries())
        return f"{number:,} {'entry' if number == 1 else 'entries'}"

    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:
        del deep  # a version tells of every change
        yield Root({"": self.place()})
        before, self._listed = dict(known.within("")), {}
        for number, entry in enumerate(self.entries(), 1):
            old, item = before.pop(entry.name, None), entry.item
            if entry.name in self._listed:
                continue
            self._listed[entry.name] = entry
            if old is None or (old.version, old.identity) != (item.version, item.identity):
                yield Upsert(item)
            if number % _PER_CHECKPOINT == 0:
                yield Checkpoint()
        yield from map(Tombstone, before)
        yield Checkpoint()

    def fetch(self, item: Item) -> RawContent:
        entry = self._listed.get(item.locator)
        if entry is None or entry.item.version != item.version:
            self._listed = {entry.name: entry for entry in self.entries()}
            entry = self._listed.get(item.locator)
        if entry is None:
            raise Vanished("no longer in its source; the next sync deletes it")
        if entry.item.version != item.version:
            raise StillChanging("changed since it was listed; the next sync reads it")
        data = self.read(entry) if entry.content is None else entry.content
        name = entry.name.rpartition("/")[2]
        return RawContent(data, name, entry.title, modified=entry.modified, metadata=dict(entry.metadata))

    def expect(self, items: Sequence[Item]) -> None:
        """Do nothing: the listing has what there is."""

    def close(self) -> None:
        """Forget what was listed."""
        self._listed = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_listed": {}, "parse": parse_here}


class HostListing(Listing):
    """A listing over HTTP of one host, which `address` names. It needs consent as a whole."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.pace = Pace()
        self._lock = threading.Lock()
        self._http: httpx.Client | None = None

    @property
    def address(self) -> str:
        """The address of the host: the setting of this name."""
        return str(self.configured.address)

    def headers(self) -> Mapping[str, str]:
        """Return headers for each request, such as a login. They are sent to this host only."""
        return {}

    def limits(self) -> HostLimits:
        return HostLimits(urlsplit(self.address).netloc.rpartition("@")[2])

    def ask(self, address: str, method: str = "GET", body: bytes | None = None, **headers: str) -> bytes:
        """Return the content at an address of the host.

        Raises Vanished or AccessDenied for this address, RateLimited, LoginFailed or SourceUnavailable for the host.
        """
        import httpx

        from connectors.tls import certificate_error

        host, content = self.limits().host, bytearray()
        if urlsplit(address)[:2] != urlsplit(self.address)[:2]:
            raise SourceUnavailable(f"{host}: refers to another host; correct the address")
        with self.pace.transfer() as transfer:
            try:
                with self._client().stream(method, address, content=body, headers=headers) as response:
                    transfer.report(report := read_headers(response.headers))
                    for part in response.iter_bytes():
                        content += part
                        if len(content) > _MOST_BYTES:
                            raise SourceUnavailable(f"{host}: an answer is larger than {_MOST_BYTES:,} bytes")
                status = response.status_code
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                reason = certificate_error(error) or type(error).__name__
                raise SourceUnavailable(f"{host}: no answer ({reason}); check address and network") from None
            if status == 401:
                raise LoginFailed(f"{host}: login refused; correct it")
            if status in (429, 503):
                raise RateLimited(host, report.retry_after)
            if status not in (*range(200, 300), 403, 404, 410):
                raise SourceUnavailable(f"{host}: HTTP status {status}; check the address")
        if status in (404, 410):
            raise Vanished("no longer at its host; the next sync checks")
        if status == 403:
            raise AccessDenied(f"{host}: not permitted; ask for access")
        return bytes(content)

    def _client(self) -> httpx.Client:
        import httpx

        from connectors.tls import authorities

        with self._lock:
            if self._http is None:
                is_secure = self.address.startswith("https:")
                self._http = httpx.Client(
                    headers={"User-Agent": "catchment", **self.headers()},
                    timeout=_SECONDS,
                    verify=authorities() if is_secure else False,
                    trust_env=not is_local(self.address),
                )
            return self._http

    def close(self) -> None:
        super().close()
        with self._lock:
            client, self._http = self._http, None
        if client is not None:
            client.close()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name not in ("_lock", "_http", "pace")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.pace, self._lock, self._http = Pace(), threading.Lock(), None
