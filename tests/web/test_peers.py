"""A session belongs to one user: a cookie collected by another user of the machine is useless."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from catchment.runtime.home import Home
from tests.web.conftest import signed_in
from web import peers

ANOTHER = 65_534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


@contextmanager
def connection(user: int | None = None) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield both ends of a connection by this or another user: first the server's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        with as_user(user):
            client = socket.create_connection(server.getsockname())
        with client, server.accept()[0] as accepted:
            yield accepted, client


@contextmanager
def as_user(user: int | None) -> Iterator[None]:
    """Act as another user for a while."""
    before = os.geteuid()
    os.seteuid(before if user is None else user)
    try:
        yield
    finally:
        os.seteuid(before)


def test_peer_is_the_user_who_connected() -> None:
    with connection() as (accepted, _):
        assert peers.peer_of(accepted) == f"user {os.geteuid()}"


@needs_root
def test_peer_is_another_user() -> None:
    with connection(ANOTHER) as (accepted, _):
        assert peers.peer_of(accepted) == f"user {ANOTHER}"


@needs_root
def test_peer_that_has_gone_is_nobody() -> None:
    """The kernel names root for a socket without a process."""
    with connection(ANOTHER) as (accepted, client):
        client.close()
        assert peers.peer_of(accepted) == "nobody"


def test_system_that_names_no_users_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError

    with connection() as (accepted, _):
        monkeypatch.setattr(peers, "user_of_socket", refuse)
        assert peers.peer_of(accepted) == "this machine"
        monkeypatch.setattr(peers, "user_of_socket", lambda *_: None)
        assert peers.peer_of(accepted) == "this machine"


@pytest.mark.parametrize("user", [None, pytest.param(ANOTHER, marks=needs_root)])
@pytest.mark.parametrize("number", [64, 200])
def test_idle_connections_keep_nobody_out(port: int, user: int | None, number: int) -> None:
    with ExitStack() as stack:
        connections = deque[socket.socket]()
        for turn in range(number + 40):
            with as_user(user):
                connections.append(stack.enter_context(socket.create_connection(("127.0.0.1", port))))
            if len(connections) > number:
                connections.popleft().close()
            if turn >= number:
                response = httpx.get(f"http://127.0.0.1:{port}/live", trust_env=False)
                assert response.status_code == 200


@needs_root
def test_connection_of_another_user_is_closed_first(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as own, ExitStack() as stack:
        with as_user(ANOTHER):
            for _ in range(200):
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        own.sendall(f"GET /live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        assert own.recv(4096).split()[1] == b"200"


@needs_root
@pytest.mark.parametrize(("user", "status"), [(None, b"200"), (ANOTHER, b"401")])
def test_session_works_only_for_the_user_who_signed_in(
    library_home: Home, port: int, user: int | None, status: bytes
) -> None:
    with signed_in(library_home, port) as browser:
        ((name, value),) = browser.cookies.items()
    with as_user(user):
        stolen = socket.create_connection(("127.0.0.1", port))
    with stolen:
        lines = ("GET / HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Cookie: {name}={value}", "X-Forwarded-For: 127.0.0.1")
        stolen.sendall("\r\n".join([*lines, "", ""]).encode())
        assert stolen.recv(4096).split()[1] == status
