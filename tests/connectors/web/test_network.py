"""Where connections lead: names are resolved once, all their addresses are checked, and the checked one is used."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import httpcore
import pytest

from connectors.web.address import AllowedHosts
from connectors.web.network import CheckedNetwork, HostNotAllowed, is_public, resolved

PUBLIC = "93.184.216.34"


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",  # the carrier's network (CGNAT)
        "127.0.0.1",
        "169.254.169.254",  # metadata of virtual machines
        "172.16.0.1",
        "192.168.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "64:ff9b::127.0.0.1",  # NAT64 of loopback
        "64:ff9b:1::1",
        "2001:db8::1",
        "2001::1",
        "2002:7f00:1::",  # 6to4 of loopback
        "192.88.99.1",
        "::ffff:192.88.99.1",
        "192.31.196.1",  # AS112
        "192.175.48.1",
        "2620:4f:8000::1",
        "192.52.193.1",
        "3fff::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
    ],
)
def test_private_and_special_addresses_are_refused(address: str) -> None:
    assert not is_public(address)
    network = CheckedNetwork(AllowedHosts(["example.org"]), lambda *_: [PUBLIC, address])
    network.set_deadline(5)
    with pytest.raises(HostNotAllowed):
        network.connect_tcp("example.org", 80)


@pytest.mark.parametrize(
    "address", [PUBLIC, "2606:2800:220:1::1", f"::ffff:{PUBLIC}", f"64:ff9b::{PUBLIC}", "2a00:1450::1"]
)
def test_public_addresses_are_accepted(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("spelling", ["2130706433", "0177.0.0.1", "0x7f.1", "127.1", "localhost", "[::ffff:7f00:1]"])
def test_other_spellings_of_loopback_are_refused(spelling: str) -> None:
    host = spelling.strip("[]")
    network = CheckedNetwork(AllowedHosts([host]), resolved)
    network.set_deadline(5)
    with pytest.raises(HostNotAllowed):
        network.connect_tcp(host, 80)


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that a connection was tried to: the internet cannot be reached from a test."""
    tried: list[str] = []

    def connect(address: tuple[str, int], *_: object, **__: object) -> socket.socket:
        tried.append(address[0])
        raise OSError

    monkeypatch.setattr(socket, "create_connection", connect)
    return tried


def _answers(*answers: list[str]) -> Callable[[str, int], list[str]]:
    remaining: Iterator[list[str]] = iter(answers)
    return lambda *_: next(remaining)


def test_connection_goes_to_the_address_that_was_checked(attempts: list[str]) -> None:
    network = CheckedNetwork(AllowedHosts(["example.org"]), _answers([PUBLIC], ["127.0.0.1"]))
    network.set_deadline(5)
    with pytest.raises(httpcore.ConnectError):
        network.connect_tcp("example.org", 80)
    assert attempts == [PUBLIC]
    with pytest.raises(HostNotAllowed):
        network.connect_tcp("example.org", 80)
    assert attempts == [PUBLIC]


def test_some_addresses_of_a_host_are_tried_in_turn(attempts: list[str]) -> None:
    addresses = [f"93.184.216.{number}" for number in (1, 1, 2, 3, 4, 5)]
    network = CheckedNetwork(AllowedHosts(["example.org"]), lambda *_: addresses)
    network.set_deadline(5)
    with pytest.raises(httpcore.ConnectError):
        network.connect_tcp("example.org", 80)
    assert attempts == [f"93.184.216.{number}" for number in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        ("https://example.org/a?b", True),
        ("http://example.org", True),
        ("https://www.example.org/", True),
        ("https://example.org:443/", True),
        ("https://example.org:80/", False),
        ("https://example.org:8443/", False),
        ("https://blog.example.org/", False),
        ("https://example.org.evil.net/", False),
        ("https://example.org@evil.net/", False),
        ("https://evil.net\\@example.org/", False),
        ("https://evil.net#@example.org/", False),
        ("https://user@example.org/", False),
        ("ftp://example.org/", False),
        ("file:///etc/hosts", False),
        ("//example.org/", False),
        ("http://nas.local:8080/", True),
        ("http://nas.local/", False),
        ("http://[::1]:8080/", True),
        ("http://[::1]/", False),
        ("https://b\u00fccher.example/", True),
        ("https://xn--bcher-kva.example/", True),
        ("http://[bad", False),
        ("", False),
    ],
)
def test_consent_names_hosts_or_exact_services(address: str, is_allowed: bool) -> None:
    hosts = AllowedHosts(["Example.org", "nas.local:8080", "[::1]:8080", "xn--bcher-kva.example"])
    assert bool(hosts.host_for(address)) is is_allowed
