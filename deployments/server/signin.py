"""Signing in to the Prefect UI by a one-time link.

The UI keeps its login in the storage of the browser, which only a page of the same origin can write. `/signin?key=…` is such a
page: it stores the login and continues to the UI, or to the page of Catchment that led here. A browser without a login is sent
to `/signin`, which shows how to get a link. Prefect's form stays at `/login`.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse

from catchment.runtime import own_secrets

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_ITEM = "prefect-password"
"""Where both of Prefect's UIs keep the login, as of HTTP Basic authentication."""
_LAST = (
    f"<script>if (!localStorage.getItem('{_ITEM}') && !/\\/login$/.test(location.pathname)) "
    "location.replace('/signin')</script>"
).encode()
_PAGE = re.compile(r"http://(127\.0\.0\.1|localhost):\d{1,5}/")
_PRIVATE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
_FRAME = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Sign in · Prefect UI of Catchment</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<style>body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 34rem; margin: 18vh auto; padding: 0 1.5rem }}
code {{ font-size: 1rem; padding: .3rem .6rem; border: 1px solid; border-radius: 4px }}</style></head>
<body>{}</body></html>"""
_HOW = """<h1>{}</h1>
<p>This is the Prefect UI of Catchment. To sign in, get a link in a terminal on this machine:</p>
<p><code>catchment web</code></p>
<p>The link signs this browser in to the page of Catchment and to the Prefect UI, once, within five minutes.</p>
<p>Or <a href="/login">enter user and password</a>, as <code>user:password</code>; they are in the file <code>ui-login</code>
in the home folder of Catchment.</p>"""


def with_signin(app: ASGIApp, keys: Path, login: str) -> ASGIApp:
    """Add `/signin` to Prefect's application. `keys`: the folder of the one-time keys; `login`: `user:password`."""

    def answer(request: Request) -> HTMLResponse:
        key, page = request.query_params.get("key"), request.query_params.get("page", "")
        if key is None or not own_secrets.use_key(keys, key):
            how = _HOW.format("Sign in" if key is None else "This link does not work")
            return HTMLResponse(_FRAME.format(how), 401, _PRIVATE)
        stored = json.dumps(b64encode(login.encode()).decode())
        target = json.dumps(page if _PAGE.fullmatch(page) else "/dashboard")
        script = f"<script>localStorage.setItem('{_ITEM}', {stored}); location.replace({target})</script>"
        return HTMLResponse(_FRAME.format(script), headers=_PRIVATE)

    async def signing_in(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/signin":
            await answer(Request(scope))(scope, receive, send)
        elif scope["type"] == "http" and _is_page(scope):
            # Compressed, the page could not be extended.
            headers = [header for header in scope["headers"] if header[0] != b"accept-encoding"]
            await app({**scope, "headers": headers}, receive, _extending(send))
        else:
            await app(scope, receive, send)

    return signing_in


def _is_page(scope: Scope) -> bool:
    return not scope["path"].startswith("/api/") and b"text/html" in dict(scope["headers"]).get(b"accept", b"")


def _extending(send: Send) -> Send:
    """End each HTML page with the script that sends a browser without a login to `/signin`."""
    more = b""

    async def extended(message: Message) -> None:
        nonlocal more
        if message["type"] == "http.response.start" and message["status"] == 200:
            headers = MutableHeaders(raw=message["headers"])
            if headers.get("content-type", "").startswith("text/html"):
                more = _LAST
                headers["content-length"] = str(int(headers["content-length"]) + len(more))
        elif message["type"] == "http.response.body" and not message.get("more_body"):
            message["body"] = message.get("body", b"") + more
        await send(message)

    return extended
