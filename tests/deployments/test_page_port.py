"""The port of the page, which a home keeps so that links last."""

from __future__ import annotations

from pathlib import Path

import pytest

from catchment.runtime.home import Home
from deployments.server.ports import listen_for_page


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").make()


def listened(home: Home) -> tuple[int, str]:
    """Start and stop listening; return the port and the line to show."""
    listening, line = listen_for_page(home)
    with listening:
        return listening.getsockname()[1], line


def test_port_is_kept(home: Home) -> None:
    assert listened(home) == listened(home)
    assert listened(home)[1] == ""


def test_port_in_use_is_replaced_for_this_time_and_reported(home: Home) -> None:
    taken, _ = listen_for_page(home)
    port = taken.getsockname()[1]
    with taken:
        other, line = listened(home)
        assert other != port
        assert line == f"port {port} of the page: in use by another program; the page is at port {other} for now"
    assert listened(home) == (port, "")


def test_homes_have_different_ports(home: Home, tmp_path: Path) -> None:
    first, _ = listen_for_page(home)
    with first:
        assert listened(Home(tmp_path / "other").make())[0] != first.getsockname()[1]
