"""The port of the page, which a home keeps so that links last."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from catchment.errors import BadInput, CatchmentError, TryAgain
from catchment.runtime.home import Home
from deployments.server.ports import Exposure, listen_for_page


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").make()


def listened(home: Home) -> tuple[int, str]:
    """Start and stop listening; return the port and the line to show."""
    [listening], line = listen_for_page(home)
    with listening:
        return listening.getsockname()[1], line


def test_port_is_kept(home: Home) -> None:
    assert listened(home) == listened(home)
    assert listened(home)[1] == ""


def test_port_in_use_is_replaced_for_this_time_and_reported(home: Home) -> None:
    [taken], _ = listen_for_page(home)
    port = taken.getsockname()[1]
    with taken:
        other, line = listened(home)
        assert other != port
        assert line == f"port {port} of the page: in use by another program; the page is at port {other} for now"
    assert listened(home) == (port, "")


def test_homes_have_different_ports(home: Home, tmp_path: Path) -> None:
    [first], _ = listen_for_page(home)
    with first:
        assert listened(Home(tmp_path / "other").make())[0] != first.getsockname()[1]


@pytest.mark.parametrize(
    ("given", "host"),
    [("NAS.lan", "nas.lan:4210"), ("nas.lan:80", "nas.lan"), ("10.0.0.7:8080", "10.0.0.7:8080")],
)
def test_allowed_host_is_what_browsers_send(given: str, host: str) -> None:
    exposure = Exposure.parse("0.0.0.0", given)
    assert exposure is not None
    assert exposure.host_at(4210) == host


@pytest.mark.parametrize(
    ("address", "host", "code"),
    [
        (None, "nas.lan", 5),
        ("0.0.0.0", None, 5),
        ("0.0.0.0", "*", 2),
        ("0.0.0.0", "http://nas.lan", 2),
        ("0.0.0.0", "nas.lan, evil.example", 2),
        ("127.0.0.1", "nas.lan", 2),
        ("::", "nas.lan", 2),
    ],
)
def test_page_leaves_this_machine_only_for_one_name(address: str | None, host: str | None, code: int) -> None:
    with pytest.raises(CatchmentError) as refused:
        Exposure.parse(address, host)
    assert refused.value.exit_code == code


@pytest.mark.parametrize(
    ("address", "host", "reason"),
    [
        ("127.0.0.2", "nas.lan", "--listen: only this machine"),
        ("::", "nas.lan", "--listen: not an IPv4 address"),
        ("0.0.0.0", "nas.lan:99999", "--allow-host: not the name"),
        ("0.0.0.0", f"{'n' * 250}.lan", "--allow-host: not the name"),
    ],
)
def test_refused_exposure_names_its_option(address: str, host: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        Exposure.parse(address, host)


def test_all_addresses_include_the_loopback_interface(home: Home) -> None:
    [listening], line = listen_for_page(home, Exposure("0.0.0.0", "nas.lan"))
    with listening, socket.create_connection(("127.0.0.1", listening.getsockname()[1])):
        assert (listening.getsockname()[0], line) == ("0.0.0.0", "")


def test_other_address_is_added_to_the_loopback_interface(home: Home) -> None:
    both, _ = listen_for_page(home, Exposure("127.0.0.2", "nas.lan"))
    assert [each.getsockname()[0] for each in both] == ["127.0.0.1", "127.0.0.2"]
    assert len({each.getsockname()[1] for each in both}) == 1
    for each in both:
        each.close()
    with pytest.raises(TryAgain, match="not an address of this machine"):
        listen_for_page(home, Exposure("192.0.2.7", "nas.lan"))
