"""Signing in to the Prefect UI: a one-time link stores the login in the browser; without one, a browser gets instructions."""

from __future__ import annotations

import re
from base64 import b64decode
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from catchment.runtime import own_secrets
from deployments.server.signin import with_signin

LOGIN = "catchment:a secret"
INDEX = f"<!doctype html><title>UI</title>{' ' * 1_000}"
AS_PAGE = {"Accept": "text/html,*/*"}


def ui(_request: Request) -> Response:
    return HTMLResponse(INDEX)


def answer(_request: Request) -> Response:
    return JSONResponse({"rows": [" " * 1_000]})


@pytest.fixture
def browser(tmp_path: Path) -> TestClient:
    """A browser before a stand-in for Prefect's application, which compresses its responses."""
    routes = [Route("/api/rows", answer), Route("/{path:path}", ui)]
    app = Starlette(routes=routes, middleware=[Middleware(GZipMiddleware)])
    return TestClient(with_signin(app, tmp_path, LOGIN))


def follow_link(browser: TestClient, keys: Path, page: str = "") -> httpx.Response:
    return browser.get("/signin", params={"key": own_secrets.one_time_key(keys), "page": page})


def test_link_stores_the_login_once_and_continues_to_the_ui(browser: TestClient, tmp_path: Path) -> None:
    key = own_secrets.one_time_key(tmp_path)
    response = browser.get("/signin", params={"key": key})
    stored = re.findall(r"setItem\('prefect-password', \"(.*?)\"\); location.replace\(\"/dashboard\"\)", response.text)
    assert [b64decode(login).decode() for login in stored] == [LOGIN]
    assert response.headers["cache-control"] == "no-store"
    again = browser.get("/signin", params={"key": key})
    assert (again.status_code, "setItem" in again.text, "This link does not work" in again.text) == (401, False, True)


def test_link_leads_back_to_a_page_of_this_machine_only(browser: TestClient, tmp_path: Path) -> None:
    assert 'replace("http://127.0.0.1:4210/")' in follow_link(browser, tmp_path, "http://127.0.0.1:4210/").text
    for other in ("http://evil.example/", "http://127.0.0.1:4210/@evil.example/", 'x"</script>', "javascript:alert(1)"):
        assert 'replace("/dashboard")' in follow_link(browser, tmp_path, other).text


def test_page_for_a_browser_without_a_login_names_the_command(browser: TestClient) -> None:
    response = browser.get("/signin")
    assert response.status_code == 401
    assert "catchment web" in response.text
    assert 'href="/login"' in response.text
    assert "secret" not in response.text


@pytest.mark.parametrize("path", ["/", "/dashboard", "/v2/runs"])
def test_pages_of_the_ui_lead_a_browser_without_a_login_to_signin(browser: TestClient, path: str) -> None:
    response = browser.get(path, headers=AS_PAGE)
    assert response.text.startswith(INDEX)
    assert response.text.endswith("location.replace('/signin')</script>")


def test_other_responses_are_unchanged(browser: TestClient) -> None:
    for path, headers in (("/api/rows", AS_PAGE), ("/assets/index.js", {"Accept": "*/*"})):
        response = browser.get(path, headers=headers)
        assert response.headers["content-encoding"] == "gzip"
        assert "/signin" not in response.text
