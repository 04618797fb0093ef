"""Settings of a web source, and which hosts it may ask."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, field_validator

from catchment.errors import BadInput, ParseError
from catchment.settings import SourceSettings, expanded
from connectors.web.address import MOST_BYTES, AllowedHosts, host_of, name_of, normalized
from connectors.web.seeds import SeedAddresses, SeedKind, addresses_in, kind_of_seed

_HOST = re.compile(r"(?P<name>\[[^/@]+\]|[^:/@]+)(:(?P<port>[0-9]{1,5}))?")


class WebSettings(SourceSettings):
    """Settings of a `web` source."""

    identity: ClassVar[tuple[str, ...]] = ("addresses",)
    addresses: tuple[str, ...] = Field(
        title="Addresses",
        description="Addresses of feeds, pages, sitemaps or lists (http or https), or full paths of files with such a list",
        min_length=1,
    )
    hosts: tuple[str, ...] = Field(
        (),
        title="Hosts",
        description="Hosts to ask besides those of the addresses: example.org (public), or nas.local:8080 (also at home)",
    )
    depth: int = Field(
        0,
        title="Depth",
        description="Links to follow from a page within its own host; 0 reads only the page",
        ge=0,
        le=5,
    )
    most_pages: int = Field(
        1_000, title="Most pages", description="Pages to read at most from the links of one page", ge=1, le=50_000
    )
    full_text: bool = Field(
        True, title="Full text", description="Read the page of a feed entry that has only a summary"
    )
    contact: str | None = Field(
        None,
        title="Contact",
        description="E-mail or web address that hosts are told, to complain to; none tells only the program's name",
        pattern=r"^[!-'*-~]{3,200}$",
    )
    every_seconds: float = Field(
        1.0,
        title="Pace, seconds",
        description="Seconds between two requests to a host; a longer crawl-delay of its robots.txt takes precedence",
        ge=0.01,
        le=3_600,
    )

    @classmethod
    def located(cls, location: str) -> Mapping[str, Any]:
        """Return the settings for an address, or for a file and the hosts of the addresses in it. Raises BadInput."""
        if "://" in location:
            return {"addresses": (normalized(location),)}
        path = expanded(Path(location)).absolute()
        if not path.is_file():
            remedy = "write an address as https://example.org, or correct the path of the file"
            raise BadInput(f"{path.name!r}: not an address, and no such file; {remedy}")
        listing = read_addresses(path)
        if not listing.addresses and path.stat().st_size:
            problem = f" ({listing.refusal})" if listing.refused else ""
            raise BadInput(
                f"{path.name!r}: names no address{problem}; write one such as https://example.org on each line"
            )
        hosts = dict.fromkeys(name_of(host_of(entry.address)) for entry in listing.addresses)
        return {"addresses": (str(path),), "hosts": tuple(hosts)}

    @field_validator("addresses")
    @classmethod
    def _are_addresses(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        with _explained():
            return tuple(dict.fromkeys(map(_address, addresses)))

    @field_validator("hosts")
    @classmethod
    def _are_hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        with _explained():
            return tuple(dict.fromkeys(map(_host, hosts)))

    def locator_of_address(self, address: str) -> str | None:
        with suppress(BadInput):
            return normalized(address)
        return None

    def seed_of(self, name: str) -> str:
        """Return the file with this name, by which its entries know it; else the name, which is an address."""
        return {Path(address).name: address for address in self.addresses if "://" not in address}.get(name, name)

    @cached_property
    def allowed(self) -> AllowedHosts:
        """The allowed hosts: the listed hosts and the hosts of the addresses. Each is a scope of the consent."""
        own_hosts = (name_of(host_of(address)) for address in self.addresses if "://" in address)
        return AllowedHosts((*self.hosts, *own_hosts))


def read_addresses(path: Path) -> SeedAddresses:
    """Return the addresses in a file: a sitemap, OPML or another list. Raises BadInput."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise BadInput(f"{path.name!r}: cannot be read ({error.strerror}); correct its mode or the path") from None
    if len(data) > MOST_BYTES:
        raise BadInput(f"{path.name!r}: larger than 20 MB; split it")
    try:
        kind = kind_of_seed(data, None, path.name)
        if kind in (SeedKind.FEED, SeedKind.PAGE):
            return SeedAddresses([])
        return addresses_in(data, kind, "")
    except ParseError as error:
        raise BadInput(f"{path.name!r}: {error}") from None


@contextmanager
def _explained() -> Iterator[None]:
    """Raise the exception that a validator may raise, in place of BadInput."""
    try:
        yield
    except BadInput as error:
        raise ValueError(str(error)) from error


def _address(text: str) -> str:
    if "://" in text:
        return normalized(text)
    path = expanded(Path(text))
    if not path.is_absolute():
        raise ValueError(f"{path.name!r}: write an address as https://example.org, or the full path of a file")
    return str(path)


def _host(text: str) -> str:
    """Return a host in its normal form. An explicit port stays, also a default one."""
    match = _HOST.fullmatch(text.strip())
    if match is None or not 0 < int(match["port"] or 80) < 65_536:
        raise ValueError(f"{text!r}: not a host; write it as example.org or nas.local:8080")
    host = host_of(normalized(f"http://{match['name']}/"))
    return f"{host}:{int(match['port'])}" if match["port"] else name_of(host)
