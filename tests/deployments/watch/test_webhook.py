"""Webhook deliveries: signatures, repetitions, bursts and limits."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytest

from catchment.errors import Refused
from catchment.runtime.home import Home
from catchment.runtime.watch_status import Watching
from connectors.github.settings import GitHubSettings
from deployments.sources.sources_file import SourceEntry, SourcesFile
from deployments.watch import webhook
from deployments.watch.webhook import Gate, Receiver, is_served
from tests.deployments.watch.conftest import StandinServer, state_of, watching
from tests.waiting import until

SECRET = "a secret of the webhook"


def body(repository: str = "ada/weir", **more: Any) -> bytes:
    return json.dumps({"repository": {"full_name": repository}, **more}).encode()


def signed(data: bytes, delivery: str, event: str = "issues", secret: str = SECRET) -> dict[str, str]:
    signature = hmac.new(secret.encode(), data, hashlib.sha256).hexdigest()
    return {"X-GitHub-Event": event, "X-GitHub-Delivery": delivery, "X-Hub-Signature-256": f"sha256={signature}"}


def deliver(receiver: Receiver, data: bytes, headers: dict[str, str], path: str = "/github") -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=10)) as connection:
        connection.request("POST", path, data, headers)
        return connection.getresponse().status


def add_repositories(home: Home, name: str, *repositories: str) -> None:
    file = SourcesFile.load(home.sources_file)
    file.add(SourceEntry(name, "github", GitHubSettings(repositories=repositories), watch=True))
    file.save()


@contextmanager
def serving(home: Home) -> Iterator[Receiver]:
    receiver = Receiver(home, SECRET, 0, lambda _: None)
    thread = threading.Thread(target=receiver.serve, daemon=True)
    thread.start()
    try:
        until(lambda: is_served(home))
        yield receiver
    finally:
        receiver.stop()
        thread.join(10)
    assert not is_served(home)


@pytest.fixture
def receiver(home: Home, standin: StandinServer, swift: None) -> Iterator[Receiver]:
    """A receiver with two sources, one with all repositories of an owner."""
    add_repositories(home, "weir", "ada/weir", "ada/dam")
    add_repositories(home, "all", "Ada/*")
    with serving(home) as receiver:
        yield receiver


def test_delivery_starts_syncs_of_its_repository(receiver: Receiver, standin: StandinServer) -> None:
    assert deliver(receiver, body("Ada/Weir"), signed(body("Ada/Weir"), "1")) == 202
    until(lambda: sorted(standin.events) == ["all", "weir"])
    assert deliver(receiver, body("ada/mill"), signed(body("ada/mill"), "2")) == 202
    until(lambda: sorted(standin.events) == ["all", "all", "weir"])


def test_burst_of_deliveries_starts_few_syncs(receiver: Receiver, standin: StandinServer) -> None:
    for number in range(60):
        data = body(action=number)
        assert deliver(receiver, data, signed(data, str(number), "push")) == 202
    until(lambda: {"all", "weir"} <= set(standin.events))
    until(receiver._deliveries.empty)
    assert len(standin.events) <= 30


def test_wrong_signature_is_rejected(receiver: Receiver, standin: StandinServer) -> None:
    data = body()
    good = signed(data, "1")
    for bad in (
        {},
        {**good, "X-Hub-Signature-256": ""},
        {**good, "X-Hub-Signature-256": good["X-Hub-Signature-256"].upper()},
        {**good, "X-Hub-Signature-256": "sha256=é"},
        signed(data, "1", secret="another"),
        signed(body("ada/dam"), "1"),
    ):
        assert deliver(receiver, data, bad) == 401
    assert standin.events == []
    assert deliver(receiver, data, good) == 202, "and none of them has used up the delivery"


def test_repeated_delivery_is_rejected_under_any_id(receiver: Receiver) -> None:
    data = body()
    assert deliver(receiver, data, signed(data, "1")) == 202
    assert deliver(receiver, data, signed(data, "1")) == 409
    assert deliver(receiver, data, signed(data, "another id")) == 409, "the signature does not cover the id"
    other = body(action="edited")
    assert deliver(receiver, other, signed(other, "1")) == 409
    assert deliver(receiver, other, signed(other, "2")) == 202


def test_memory_of_deliveries_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_REMEMBERED", 3)
    gate = Gate(SECRET)

    def status(number: int) -> int:
        headers = {name.lower(): value for name, value in signed(body(n=number), f"id-{number}").items()}
        return gate.status(headers, body(n=number))

    assert [status(number) for number in range(4)] == [202] * 4
    assert [status(number) for number in range(1, 4)] == [409] * 3
    assert status(0) == 202, "it was forgotten"


def test_irrelevant_event_starts_no_sync(receiver: Receiver, standin: StandinServer) -> None:
    for number, event in enumerate(("ping", "star", "workflow_run", "")):
        data = body(n=number)
        assert deliver(receiver, data, signed(data, str(number), event)) == 204
    for number, odd in enumerate((b"", b"[]", b"{}", b'{"repository": {"full_name": 5}}', b"\xff", b"[" * 100_000)):
        assert deliver(receiver, odd, signed(odd, f"odd {number}")) == 400
    assert deliver(receiver, body(), signed(body(), "1"), path="/elsewhere") == 404
    assert standin.events == []


def test_delivery_without_or_above_a_length_is_rejected(receiver: Receiver) -> None:
    assert deliver(receiver, b"", {**signed(b"", "1"), "Content-Length": "5000001"}) == 413
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=10) as raw:
        raw.sendall(b"POST /github HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert b" 411 " in raw.recv(1_000)


def test_silent_connection_does_not_block_deliveries(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    idle = [socket.create_connection(("127.0.0.1", receiver.port), timeout=10) for _ in range(7)]
    try:
        assert deliver(receiver, body(), signed(body(), "1")) == 202
    finally:
        for one in idle:
            one.close()


def test_full_queue_rejects_deliveries_without_remembering_them(home: Home, standin: StandinServer) -> None:
    receiver = Receiver(home, SECRET, 0, lambda _: None)

    def take(number: int) -> int:
        data = body(n=number)
        return receiver.deliver({name.lower(): value for name, value in signed(data, str(number)).items()}, data)

    assert {take(number) for number in range(1_000)} == {202}
    assert take(1_000) == 503
    receiver._deliveries.get()
    assert take(1_000) == 202
    receiver._http.server_close()


def test_receiver_is_loopback_only_and_reports_a_used_port(receiver: Receiver, home: Home) -> None:
    assert receiver._http.server_address[0] == "127.0.0.1"
    with pytest.raises(Refused, match="--port"):
        Receiver(home, SECRET, receiver.port, lambda _: None)


def test_github_source_reports_whether_a_receiver_runs(
    home: Home, standin: StandinServer, swift: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployments.watch.watcher._CHECK", 0.05)
    add_repositories(home, "weir", "ada/weir")
    with watching(home):
        until(lambda: state_of(home, "weir") is not None)
        state = state_of(home, "weir")
        assert state is not None
        assert (state.state, "catchment webhook serve" in state.remedy) == (Watching.LIMITED, True)
        until(lambda: len(standin.automations) == 1)
        with serving(home):
            until(lambda: (one := state_of(home, "weir")) and one.state is Watching.WATCHING)
        until(lambda: (one := state_of(home, "weir")) and one.state is Watching.LIMITED)


def test_slow_connection_does_not_block_deliveries(
    home: Home, standin: StandinServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "_SECONDS", 0.5)
    stopped = threading.Event()
    with serving(home) as receiver:
        slow: list[socket.socket] = []

        def trickle() -> None:
            while not stopped.wait(0.05):
                for one in list(slow):
                    with suppress(OSError):
                        one.sendall(b"P")

        thread = threading.Thread(target=trickle)
        thread.start()

        def delivers() -> bool:
            with suppress(OSError, http.client.HTTPException):
                return deliver(receiver, body(), signed(body(), "1")) in (202, 409)
            return False

        try:
            for _ in range(8):
                slow.append(socket.create_connection(("127.0.0.1", receiver.port), timeout=10))
            until(delivers)
        finally:
            stopped.set()
            thread.join()
            for one in slow:
                one.close()


def test_invalid_sources_file_is_reported_once(home: Home) -> None:
    said: list[str] = []
    receiver = Receiver(home, SECRET, 0, said.append)
    with receiver._http:
        home.sources_file.write_text("deploments: []\n")
        for now in (0.0, 5.0, 10.0):
            receiver._reload(now)
        assert len(said) == 1
        home.sources_file.write_text("deployments: []\n")
        receiver._reload(15.0)
        home.sources_file.write_text("deploments: []\n")
        receiver._reload(20.0)
        assert len(said) == 2


def test_second_receiver_is_known_after_the_first_stops(home: Home, standin: StandinServer) -> None:
    with serving(home):
        other = Receiver(home, SECRET, 0, lambda _: None)
        thread = threading.Thread(target=other.serve, daemon=True)
        thread.start()
        assert deliver(other, body(), signed(body(), "1")) == 202
        other.stop()
        thread.join(10)
        assert is_served(home)


def test_reserved_port_has_its_own_message(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(webhook, "_Listener", refuse)
    with pytest.raises(Refused, match="from 1024"):
        Receiver(home, SECRET, 80, lambda _: None)
