"""Access to the page: one-time links, sessions, forms, and the restrictions that each response gives the browser."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from catchment.runtime import own_secrets
from catchment.runtime.home import Home
from tests.web.conftest import answering
from web.__main__ import desk_of
from web.app import Web, application
from web.guard import Guard
from web.readiness import Readiness
from web.sessions import Sessions
from web.warm_library import WarmLibrary

PORT = 8000
HOST = f"http://127.0.0.1:{PORT}"
TOKEN = "the token of the interface"


def built(home: Home, library: WarmLibrary | None = None) -> Web:
    library = library or WarmLibrary(home, lambda _reason: None)
    return application(library, Readiness(library, None), desk_of(home), TOKEN)


def browser(home: Home, library: WarmLibrary | None = None) -> TestClient:
    """Return a browser before a new process of the home, which is not signed in."""
    web = built(home, library)
    return TestClient(Guard(web.app, web.check, PORT), base_url=HOST, follow_redirects=False)


def sign_in(client: TestClient, home: Home, **headers: str) -> httpx.Response:
    key = own_secrets.one_time_key(home.signin_keys)
    return client.get("/signin", params={"key": key}, headers=headers)


def form_token(client: TestClient) -> str:
    return client.get("/health").text.partition('name="form" value="')[2].partition('"')[0]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").make()


@pytest.fixture
def client(home: Home) -> Iterator[TestClient]:
    """A browser that is signed in."""
    client = browser(home)
    assert sign_in(client, home).status_code == 303
    yield client


@pytest.mark.parametrize(
    "path", ["/", "/search?q=x", "/documents/1", "/events?view=/", "/count", "/nope", "/api", "//api/v1/search"]
)
def test_page_without_a_session_shows_how_to_sign_in(home: Home, path: str) -> None:
    response = browser(home).get(path)
    assert response.status_code == 401
    assert "catchment web" in response.text


def test_token_of_the_interface_opens_no_page(home: Home) -> None:
    response = browser(home).get("/", headers={"Authorization": f"Bearer {TOKEN}"})
    assert response.status_code == 401


def test_session_opens_no_interface(client: TestClient) -> None:
    assert client.get("/api/v1/search", params={"text": "x"}).status_code == 401


def test_link_signs_in_once(home: Home) -> None:
    key = own_secrets.one_time_key(home.signin_keys)
    first, second = browser(home), browser(home)
    response = first.get("/signin", params={"key": key})
    assert (response.status_code, response.headers["location"]) == (303, "/")
    assert first.get("/").status_code == 200
    assert second.get("/signin", params={"key": key}).status_code == 403
    assert second.get("/").status_code == 401


def test_link_ends_after_five_minutes(home: Home) -> None:
    key = own_secrets.one_time_key(home.signin_keys)
    (file,) = home.signin_keys.iterdir()
    old = file.stat().st_mtime - own_secrets.KEY_SECONDS - 1
    os.utime(file, (old, old))
    assert browser(home).get("/signin", params={"key": key}).status_code == 403


def test_old_keys_are_removed(home: Home) -> None:
    own_secrets.one_time_key(home.signin_keys)
    (file,) = home.signin_keys.iterdir()
    os.utime(file, (0, 0))
    own_secrets.one_time_key(home.signin_keys)
    assert file not in home.signin_keys.iterdir()


def test_key_is_kept_where_other_users_cannot_use_it(home: Home) -> None:
    key = own_secrets.one_time_key(home.signin_keys)
    assert stat.S_IMODE(home.signin_keys.stat().st_mode) == 0o700
    key_files = "".join(file.name + file.read_text() for file in home.signin_keys.iterdir())
    assert key not in key_files


def test_key_cannot_name_a_file_elsewhere(home: Home) -> None:
    victim = home.run / "victim"
    victim.touch()
    assert browser(home).get("/signin", params={"key": "../victim"}).status_code == 403
    assert victim.exists()


def test_cookie_is_hidden_and_of_this_site_only(home: Home) -> None:
    cookie = sign_in(browser(home), home).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))


def test_each_home_has_its_own_name_of_the_cookie(tmp_path: Path) -> None:
    names = {Sessions(Home(tmp_path / name).make()).cookie for name in "ab"}
    assert len(names) == 2


def test_session_survives_a_restart(home: Home, client: TestClient) -> None:
    after = browser(home)
    after.cookies = client.cookies
    assert after.get("/").status_code == 200


def test_file_of_sessions_is_worth_nothing(home: Home, client: TestClient) -> None:
    file = home.path / "web-sessions"
    (value,) = client.cookies.values()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert value not in file.read_text()
    thief = browser(home)
    name = Sessions(home).cookie
    thief.cookies.set(name, own_secrets.digest(value))
    assert thief.get("/").status_code == 401


def test_session_ends_after_thirty_days(home: Home) -> None:
    now = [1_000.0]
    sessions = Sessions(home, lambda: now[0])
    sender = {"state": {"peer": "user 1000"}}
    session = sessions.sign_in(own_secrets.one_time_key(home.signin_keys), sender)
    assert session is not None
    scope = {**sender, "headers": [(b"cookie", f"other=1; {sessions.cookie}={session.secret}".encode())]}
    assert sessions.of(scope) == session
    assert sessions.of({**scope, "state": {"peer": "user 1001"}}) is None
    now[0] += 31 * 86_400
    assert sessions.of(scope) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"cookie": "x"}', '{"cookie": "x", "ends": {"a": "b"}}'])
def test_damaged_file_of_sessions_signs_everybody_out(home: Home, client: TestClient, content: str) -> None:
    (home.path / "web-sessions").write_text(content)
    after = browser(home)
    after.cookies = client.cookies
    assert after.get("/").status_code == 401
    assert sign_in(after, home).status_code == 303


def test_wrong_links_lock_out_nobody(home: Home) -> None:
    """Any page can send them, as the addresses of pictures."""
    client = browser(home)
    assert {client.get("/signin", params={"key": str(number)}).status_code for number in range(50)} == {403}
    assert sign_in(client, home).status_code == 303


def test_link_followed_from_another_site_signs_in_too(home: Home) -> None:
    """After a redirect, a browser would not send a strict cookie that the first response has set."""
    client = browser(home)
    response = sign_in(client, home, **{"Sec-Fetch-Site": "cross-site"})
    assert response.status_code == 200
    assert '<meta http-equiv="refresh" content="0; url=/">' in response.text
    assert client.get("/").status_code == 200


def test_signing_in_passes_through_the_prefect_ui_if_it_responds(home: Home) -> None:
    with answering(respond) as port:
        library = WarmLibrary(home, lambda _reason: None)
        server = f"http://127.0.0.1:{port}"
        web = application(library, Readiness(library, {"server": lambda: None}, server), desk_of(home), TOKEN)
        client = TestClient(Guard(web.app, web.check, PORT), base_url=HOST, follow_redirects=False)
        response = sign_in(client, home)
    address = httpx.URL(response.headers["location"])
    assert (response.status_code, str(address.copy_with(query=None))) == (303, f"{server}/signin")
    assert address.params["page"] == f"{HOST}/"
    assert own_secrets.use_key(home.signin_keys, address.params["key"])
    assert client.get("/").status_code == 200


def respond(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()


def test_signed_out_browser_is_a_stranger(client: TestClient) -> None:
    response = client.post("/signout", data={"form": form_token(client)}, headers={"Origin": HOST})
    assert (response.status_code, response.headers["location"]) == (303, "/signin")
    assert client.get("/").status_code == 401


def test_form_of_another_session_is_refused(home: Home, client: TestClient) -> None:
    other = browser(home)
    other.cookies = client.cookies
    stranger = browser(home)
    sign_in(stranger, home)
    response = client.post("/signout", data={"form": form_token(stranger)}, headers={"Origin": HOST})
    assert response.status_code == 403


def _posts(web: Web) -> list[str]:
    assert isinstance(web.app, Starlette)
    return [route.path for route in web.app.routes if isinstance(route, Route) and "POST" in (route.methods or ())]


def test_every_form_needs_its_token_and_an_origin(home: Home, client: TestClient) -> None:
    paths = _posts(built(home))
    assert "/signout" in paths
    token = form_token(client)
    assert token
    for path in paths:
        for headers, data in (
            ({"Origin": HOST}, {}),
            ({"Origin": HOST}, {"form": "x"}),
            ({}, {"form": token}),
            ({"Origin": "null"}, {"form": token}),
            ({"Origin": "http://127.0.0.1:9"}, {"form": token}),
        ):
            assert client.post(path, data=data, headers=headers).status_code == 403, (path, headers, data)
    assert client.get("/").status_code == 200


@pytest.mark.parametrize("path", ["/", "/signin", "/live", "/static/page.css", "/nope", "/api/v1/search"])
def test_every_response_limits_what_the_browser_may_do(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = dict(part.partition(" ")[::2] for part in headers["content-security-policy"].split("; "))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "frame-src": "'self'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
    }
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "server" not in headers


def test_pages_are_not_cached(client: TestClient) -> None:
    assert client.get("/").headers["cache-control"] == "no-store"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", f"127.0.0.1:{PORT + 1}"])
def test_probes_answer_under_their_own_host_only(home: Home, host: str) -> None:
    client = browser(home)
    assert client.get("/live").status_code == 200
    assert client.get("/live", headers={"Host": host}).status_code == 421


def test_readiness_names_nothing_private(home: Home) -> None:
    (home.path / "ledger.db").write_bytes(b"not a database " * 1_000)
    response = browser(home).get("/ready")
    assert response.status_code == 503
    assert not response.json()["parts"]["ledger"]["ok"]
    assert str(home.path) not in response.text
    assert "ledger.db" not in response.text


def test_templates_have_no_script_or_style_of_their_own() -> None:
    for file in (Path(__file__).parents[2] / "web" / "templates").iterdir():
        assert re.findall(r"<style|<script(?! src)|\s(?:style|on[a-z]+)=", file.read_text()) == [], file


class TestBeyondThisMachine:
    """The page under a name that `up --allow-host` permits, and under all others."""

    NAME = "nas.lan:4210"

    @pytest.fixture
    def visitor(self, home: Home) -> TestClient:
        library = WarmLibrary(home, lambda _reason: None)
        web = application(library, Readiness(library, None), desk_of(home), TOKEN)
        guard = Guard(web.app, web.check, PORT, self.NAME)
        return TestClient(guard, base_url=f"http://{self.NAME}", follow_redirects=False)

    def test_link_signs_in_without_the_prefect_ui(self, home: Home, visitor: TestClient) -> None:
        response = sign_in(visitor, home)
        assert (response.status_code, response.headers["location"]) == (303, "/")
        cookie = response.headers["set-cookie"].lower()
        assert "httponly" in cookie and "samesite=strict" in cookie and "domain=" not in cookie
        page = visitor.get("/")
        assert page.status_code == 200
        assert "connect-src 'self'" in page.headers["content-security-policy"]

    def test_forms_need_the_permitted_origin(self, home: Home, visitor: TestClient) -> None:
        sign_in(visitor, home)
        for origin in ("http://evil.example", "http://nas.lan", f"https://{self.NAME}", "null"):
            fields = {"form": form_token(visitor)}
            assert visitor.post("/signout", data=fields, headers={"Origin": origin}).status_code == 403, origin
        fields = {"form": form_token(visitor)}
        assert visitor.post("/signout", data=fields, headers={"Origin": f"http://{self.NAME}"}).status_code == 303

    @pytest.mark.parametrize("host", ["evil.example", "nas.lan", "nas.lan:8000", "evil.example:4210", "192.0.2.7:4210"])
    def test_name_that_resolves_to_this_machine_is_refused(self, home: Home, visitor: TestClient, host: str) -> None:
        sign_in(visitor, home)
        for path in ("/", "/live", "/api/v1/overview", "/signin"):
            assert visitor.get(path, headers={"Host": host}).status_code == 421

    def test_loopback_still_works(self, visitor: TestClient) -> None:
        assert visitor.get("/live", headers={"Host": f"127.0.0.1:{PORT}"}).status_code == 200
