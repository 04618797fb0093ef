"""Account settings, folder names, and requests for access tokens."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from catchment.errors import BadInput, LoginFailed, SourceUnavailable
from connectors.contract.memory_ledger import MemoryLedger
from connectors.imap import Imap
from connectors.imap.auth import Login, TokenExpiry, expiry_of
from connectors.imap.names import MessageAddress, decode_folder, encode_folder, matches, parse_locator
from connectors.imap.settings import ImapSettings
from tests.connectors.imap.dovecot import Dovecot, token


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("ada@mail.example.org", {"user": "ada", "host": "mail.example.org"}),
        (
            "ada@example.org@imap.example.org:1993",
            {"user": "ada@example.org", "host": "imap.example.org", "port": 1993},
        ),
        ("ada@[::1]:143", {"user": "ada", "host": "::1", "port": 143}),
        ("ada@[::1]", {"user": "ada", "host": "::1"}),
    ],
)
def test_location_is_user_and_host(typed: str, said: dict[str, Any]) -> None:
    assert ImapSettings.located(typed) == said


@pytest.mark.parametrize("typed", ["ada", "@host", "ada@", "ada@host:imap", "ada@host:"])
def test_invalid_location_is_rejected(typed: str) -> None:
    with pytest.raises(BadInput, match="write it as user@host"):
        ImapSettings.located(typed)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"security": "none", "password": "env:P"}, "only for a server on this machine"),
        ({}, "--secret password=env:VARIABLE"),
        ({"password": "env:P", "token": "env:T"}, "exactly one of"),
        ({"password": "hunter2"}, "pattern"),
        ({"password": "file:secrets/ada"}, "secret file: not a full path"),
        ({"password": "env:P", "ca_file": "authority.pem"}, "ca_file must be a full path"),
        ({"refresh_token": "env:R"}, "requires client_id and token_url"),
        ({"refresh_token": "env:R", "client_id": "c", "token_url": "http://example.org/t"}, "https"),
    ],
)
def test_unsafe_or_incomplete_settings_are_rejected(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        ImapSettings(host="mail.example.org", user="ada", **settings)


def test_patterns_match_folder_names() -> None:
    assert matches("[Gmail]/All Mail", ["[gmail]/all mail"])
    assert matches("Archive/2026/May", ["Archive/*"])
    assert not matches("Archive", ["Archive/*"])
    assert not matches("Archives", ["Archive"])


@given(st.text(max_size=40))
def test_encoded_folder_names_are_reversible(name: str) -> None:
    try:
        raw = encode_folder(name)
    except UnicodeEncodeError:
        return  # Half a surrogate pair cannot be sent by a server.
    assert encode_folder(decode_folder(raw)) == raw


@given(st.binary(max_size=40))
def test_decoded_folder_names_are_reversible(raw: bytes) -> None:
    text = decode_folder(raw)
    assert encode_folder(text) == raw or text == "INBOX"


@given(st.text(max_size=30), st.integers(0, 2**32), st.integers(0, 2**32), st.sampled_from(["", "1", "2.1"]))
def test_message_locators_are_reversible(folder: str, validity: int, uid: int, part: str) -> None:
    at = MessageAddress(folder, validity, uid, part)
    assert parse_locator(at.locator) == at
    assert parse_locator(f"{folder};") is None or ";UID=" in folder


class Tokens(HTTPServer):
    """An OAuth2 token server."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.status, self.body = 200, {"access_token": token(), "expires_in": 3600}
        self.asked: list[dict[str, list[str]]] = []
        self.replaces = False
        self._valid: str | None = None

    def answer(self, refresh_token: str) -> dict[str, Any] | None:
        """Return the response; None for a refresh token that was replaced."""
        if not self.replaces:
            return self.body
        if self._valid not in (None, refresh_token):
            return None
        self._valid = f"refresh token {len(self.asked)}"
        return {**self.body, "refresh_token": self._valid}


class _Answers(BaseHTTPRequestHandler):
    server: Tokens

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        asked = parse_qs(self.rfile.read(length).decode())
        self.server.asked.append(asked)
        body = self.server.answer(asked["refresh_token"][0])
        self.send_response(400 if body is None else self.server.status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def tokens() -> Iterator[Tokens]:
    made = Tokens()
    serving = threading.Thread(target=made.serve_forever, args=(0.01,))
    serving.start()
    yield made
    made.shutdown()
    serving.join()
    made.server_close()


@pytest.fixture
def refreshing(server: Dovecot, tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> Iterator[Imap]:
    """An account with a refresh token."""
    monkeypatch.setenv("REFRESH", "the refresh token")
    monkeypatch.setenv("CLIENT_SECRET", "the secret of the client")
    settings = ImapSettings(
        host="127.0.0.1", port=server.port, user="ada", security="none", refresh_token="env:REFRESH", client_id="mine",
        client_secret="env:CLIENT_SECRET", token_url=f"http://127.0.0.1:{tokens.server_port}/token",
    )  # fmt: skip
    mail = Imap(settings)
    yield mail
    mail.close()


@pytest.mark.full
def test_refresh_token_is_exchanged_for_an_access_token(refreshing: Imap, tokens: Tokens) -> None:
    assert "messages in INBOX" in refreshing.probe()
    assert tokens.asked == [
        {
            "grant_type": ["refresh_token"],
            "refresh_token": ["the refresh token"],
            "client_id": ["mine"],
            "client_secret": ["the secret of the client"],
        }
    ]


@pytest.mark.parametrize(
    ("status", "body", "error", "said"),
    [
        (400, {"error": "invalid_grant"}, LoginFailed, "refresh token rejected .HTTP 400.; authorise Catchment again"),
        (503, {}, SourceUnavailable, "no token available"),
        (200, {"error": "no"}, LoginFailed, "without an access token"),
        (200, {"access_token": token(seconds=-10)}, LoginFailed, "renew the token"),
    ],
)
@pytest.mark.full
def test_failed_token_request_gives_the_reason(
    refreshing: Imap, tokens: Tokens, status: int, body: dict[str, Any], error: type[Exception], said: str
) -> None:
    tokens.status, tokens.body = status, body
    with pytest.raises(error, match=said) as told:
        refreshing.probe()
    assert "the secret of the client" not in str(told.value)


@pytest.mark.parametrize(
    "answer", [b"this is no HTTP\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"]
)
def test_token_server_without_valid_http_is_unavailable(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFRESH", "the refresh token")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            line, _ = listening.accept()
            with line:
                line.recv(10_000)
                line.sendall(answer)

        (serving := threading.Thread(target=serve)).start()
        settings = ImapSettings(
            host="127.0.0.1", user="ada", security="none", refresh_token="env:REFRESH", client_id="mine",
            token_url=f"http://127.0.0.1:{listening.getsockname()[1]}/token",
        )  # fmt: skip
        with pytest.raises(SourceUnavailable, match="check token_url"):
            Login(settings).secret()
        serving.join()


@pytest.fixture
def kept(server: Dovecot, tokens: Tokens, tmp_path: Path) -> ImapSettings:
    """An account with a refresh token in the file `refresh`; the server replaces it whenever it is used."""
    tokens.replaces = True
    (tmp_path / "refresh").write_text("the refresh token")
    (tmp_path / "refresh").chmod(0o600)
    return ImapSettings(
        host="127.0.0.1", port=server.port, user="ada", security="none", refresh_token=f"file:{tmp_path}/refresh",
        client_id="mine", token_url=f"http://127.0.0.1:{tokens.server_port}/token",
    )  # fmt: skip


@pytest.mark.full
def test_replaced_refresh_token_is_saved_to_its_reference(kept: ImapSettings, tokens: Tokens, tmp_path: Path) -> None:
    for _ in range(2):
        assert "messages in INBOX" in Imap(kept).probe()
    assert [asked["refresh_token"] for asked in tokens.asked] == [["the refresh token"], ["refresh token 1"]]
    assert (tmp_path / "refresh").read_text() == "refresh token 2"


@pytest.mark.full
def test_concurrent_logins_replace_a_refresh_token_in_turn(kept: ImapSettings, tokens: Tokens) -> None:
    with ThreadPoolExecutor(4) as threads:
        given = list(threads.map(lambda _: Login(kept).secret(), range(8)))
    assert len(given) == len(tokens.asked) == 8, "no request was rejected"


@pytest.mark.full
def test_unsaved_refresh_token_lasts_for_the_process(refreshing: Imap, tokens: Tokens, ledger: MemoryLedger) -> None:
    tokens.replaces = True
    for _ in range(2):
        ledger.sync(refreshing)
        refreshing.close()
    assert [asked["refresh_token"] for asked in tokens.asked] == [["the refresh token"], ["refresh token 1"]]
    assert TokenExpiry.read(ledger.marks["login"]) == TokenExpiry(None, kept=False)
    with pytest.raises(LoginFailed, match="use file: or keyring: if tokens are replaced, env: cannot store them"):
        type(refreshing)(refreshing._settings).probe()


@pytest.mark.full
def test_login_expiry_is_marked_while_it_is_reported(refreshing: Imap, tokens: Tokens, ledger: MemoryLedger) -> None:
    tokens.body |= {"refresh_token_expires_in": 604_800}
    ledger.sync(refreshing)
    ends = TokenExpiry.read(ledger.marks["login"]).ends
    assert ends is not None
    assert timedelta(days=6) < ends - datetime.now(UTC) < timedelta(days=8)
    del tokens.body["refresh_token_expires_in"]
    refreshing.close()
    ledger.sync(refreshing)
    assert "login" not in ledger.marks


def test_expiry_is_read_from_a_json_web_token() -> None:
    ends = expiry_of(token(seconds=600))
    assert ends is not None
    assert timedelta(minutes=9) < ends - datetime.now(UTC) < timedelta(minutes=11)
    for opaque in ("", "ya29.a0AfH6", "a.b.c", "..", "a.e30.c", "a.bnVsbA.c"):
        assert expiry_of(opaque) is None
