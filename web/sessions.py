"""Sign-in to the page: one-time keys become sessions, and a form of the page proves its session."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Scope

from catchment.runtime import atomic_files, own_secrets
from catchment.runtime.home import Home
from web.guard import PEER, Check, bearer
from web.push.door import PushDoor

_SECONDS = 30 * 86_400
"""Longest session. The browser forgets its cookie when it closes."""
_MOST = 50
_OPEN = ("/live", "/ready", "/signin")
_FORM_FIELD = "form"


@dataclass(frozen=True, slots=True)
class WebSession:
    """A browser that is signed in. Each of its forms contains `form_token`."""

    secret: str

    @property
    def form_token(self) -> str:
        """A value that only pages of this session contain. The cookie cannot be derived from it."""
        return own_secrets.digest(f"form {self.secret}")


class Sessions:
    """The sessions of a home. They survive a restart: the file `web-sessions` has the digest and the end of each.

    The file also has the random name of the cookie. A browser sends its cookies to every port of this machine, but a server
    that collects one there cannot use it: a session is valid only for the user of the machine that has signed in.
    """

    def __init__(self, home: Home, clock: Callable[[], float] = time.time) -> None:
        self._file = home.path / "web-sessions"
        self._keys = home.signin_keys
        self._clock = clock
        self._ends: dict[str, float] = {}
        self.cookie = f"s{secrets.token_hex(8)}"
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            data = json.loads(self._file.read_bytes())
            self.cookie, self._ends = str(data["cookie"]), {str(k): float(v) for k, v in data["ends"].items()}

    def sign_in(self, key: str, scope: Scope) -> WebSession | None:
        """Exchange a one-time key for a session of its sender; None if the key is wrong, used or too old.

        Keys cannot be guessed. A limit of wrong ones would let any page lock out the user.
        """
        if not own_secrets.use_key(self._keys, key):
            return None
        session = WebSession(secrets.token_urlsafe(32))
        self._ends[_name(session, scope)] = self._clock() + _SECONDS
        self._store()
        return session

    def sign_out(self, scope: Scope) -> None:
        """End the session of a request."""
        self._ends.pop(_name(scope["session"], scope), None)
        self._store()

    def of(self, scope: Scope) -> WebSession | None:
        """Return the session whose cookie a request has, if the same user of the machine has signed in."""
        header = dict(scope["headers"]).get(b"cookie", b"").decode("latin-1")
        cookies = dict(part.strip().partition("=")[::2] for part in header.split(";"))
        session = WebSession(cookies.get(self.cookie, ""))
        ends = self._ends.get(_name(session, scope), 0)
        return session if ends > self._clock() else None

    def set_cookie(self, response: Response, session: WebSession) -> None:
        """Give the browser the cookie of a session."""
        response.set_cookie(self.cookie, session.secret, path="/", httponly=True, samesite="strict")

    def check(
        self, token: str, signin_page: Callable[[Scope], ASGIApp], others: Mapping[str, Check], door: PushDoor
    ) -> Check:
        """Return the check of all requests: `/api/` needs a token, sign-in and probes are open, the rest needs a session.

        `others`: paths with a separate check. `door`: for programs that push.
        """
        by_token = bearer(token)

        def refusal(scope: Scope) -> ASGIApp | None:
            path = scope["path"]
            if door.concerns(scope):
                return door.check(scope)
            if path.startswith("/api/"):
                return by_token(scope)
            if path in others:
                return others[path](scope)
            scope["session"] = self.of(scope)
            if scope["session"] or path in _OPEN or path.startswith("/static/"):
                return None
            return signin_page(scope)

        return refusal

    def _store(self) -> None:
        now = self._clock()
        latest = sorted(((ends, name) for name, ends in self._ends.items() if ends > now), reverse=True)[:_MOST]
        self._ends = {name: ends for ends, name in latest}
        # With a full disk, the session lasts as long as this process.
        with suppress(OSError):
            atomic_files.write(self._file, json.dumps({"cookie": self.cookie, "ends": self._ends}).encode())


def _name(session: WebSession, scope: Scope) -> str:
    """Return the name of a session in the file, which holds for one sender."""
    return own_secrets.digest(f"{scope.get('state', {}).get(PEER)} {session.secret}")


async def form_fields(request: Request) -> Mapping[str, str]:
    """Return the fields of a form that a page of this session has sent. Raises HTTPException for any other sender."""
    session: WebSession | None = request.scope.get("session")
    # `Guard` has checked the value of the origin.
    if session is None or "origin" not in request.headers:
        raise HTTPException(403, "not sent by a page of this session")
    fields = dict(parse_qsl((await request.body()).decode("utf-8", "replace"), keep_blank_values=True))
    if not secrets.compare_digest(fields.pop(_FORM_FIELD, "").encode(), session.form_token.encode()):
        raise HTTPException(403, "not sent by a page of this session")
    return fields
