"""Logins: passwords and OAuth2 access tokens, read from secret references; access tokens are refreshed when needed."""

from __future__ import annotations

import base64
import hashlib
import urllib.error
import urllib.parse
import urllib.request
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from typing import Any, NamedTuple

from catchment.content.foreign_json import read_json
from catchment.errors import LoginFailed, SourceUnavailable
from catchment.runtime import secret_references
from catchment.runtime.addresses import is_local
from connectors.imap.settings import ImapSettings

MARK = "login"
"""The cursor mark with the expiry of the login, if the provider reports one."""
_SECONDS = 20.0
_MAX_BYTES = 1_000_000


class TokenExpiry(NamedTuple):
    """When an OAuth2 login expires (`ends`, None if unknown), and whether the latest refresh token was saved (`kept`)."""

    ends: datetime | None
    kept: bool = True

    @classmethod
    def read(cls, mark: str) -> TokenExpiry:
        """Parse a mark."""
        ends, _, lost = mark.partition(";")
        return cls(datetime.fromisoformat(ends) if ends else None, not lost)

    def mark(self) -> str | None:
        """Return the mark to store, or None."""
        return f"{self.ends.isoformat() if self.ends else ''}{'' if self.kept else ';lost'}" or None


class Login:
    """The login to one account. Thread-safe; refresh tokens are also replaced safely by several processes."""

    def __init__(self, settings: ImapSettings) -> None:
        self.settings = settings
        self.expiry = TokenExpiry(None)
        self._unsaved: str | None = None

    def secret(self) -> str:
        """Return the password or a valid access token. Raises LoginFailed with the remedy, or SourceUnavailable."""
        if reference := self.settings.password or self.settings.token:
            return secret_references.resolve(reference)
        reference = self.settings.refresh_token or ""
        # A provider may replace a refresh token when it is used and reject the old one afterwards.
        with secret_references.alone(reference):
            old = self._unsaved or secret_references.resolve(reference)
            response = self._refresh(old)
            new = response.get("refresh_token") or old
            is_saved = (new == old and self._unsaved is None) or secret_references.replace(reference, str(new))
            self._unsaved = None if is_saved else str(new)
        self.expiry = TokenExpiry(_after(response.get("refresh_token_expires_in")), is_saved)
        return str(response["access_token"])

    def digest(self) -> str:
        """Return a hash of the stored secret, to detect a changed one; "" if it cannot be read."""
        reference = self.settings.password or self.settings.token or self.settings.refresh_token or ""
        try:
            return hashlib.sha256(secret_references.resolve(reference).encode()).hexdigest()
        except LoginFailed:
            return ""

    def _refresh(self, refresh_token: str) -> dict[str, Any]:
        """Exchange a refresh token for an access token (RFC 6749, section 6)."""
        settings = self.settings
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": settings.client_id or ""}
        if settings.client_secret:
            form["client_secret"] = secret_references.resolve(settings.client_secret)
        address = settings.token_url or ""
        host = urllib.parse.urlsplit(address).hostname
        request = urllib.request.Request(address, urllib.parse.urlencode(form).encode(), {"Accept": "application/json"})
        try:
            with _opener(address).open(request, timeout=_SECONDS) as reply:
                response = read_json(reply.read(_MAX_BYTES))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code >= 500 or error.code == 429:
                raise SourceUnavailable(
                    f"{host}: no token available (HTTP {error.code}); the next sync tries again"
                ) from None
            raise LoginFailed(f"{host}: refresh token rejected (HTTP {error.code}); {self._remedy}") from None
        except (OSError, HTTPException) as error:
            raise SourceUnavailable(f"{host}: cannot connect to the token server; check token_url") from error
        except ValueError:
            response = None
        if not isinstance(response, dict) or not isinstance(response.get("access_token"), str):
            raise LoginFailed(f"{host}: response without an access token; check token_url")
        return response

    @property
    def _remedy(self) -> str:
        scheme = (self.settings.refresh_token or "").partition(":")[0]
        if scheme in ("file", "keyring"):
            return "authorise Catchment again and replace the stored refresh token"
        return f"authorise Catchment again; use file: or keyring: if tokens are replaced, {scheme}: cannot store them"


def expiry_of(access_token: str) -> datetime | None:
    """Return when an access token expires, if it is a JSON Web Token with an `exp` claim.

    The signature is not verified.
    """
    part = access_token.split(".")[1:2]
    try:
        ends = read_json(base64.urlsafe_b64decode(part[0] + "=="))["exp"]
        return datetime.fromtimestamp(ends, UTC)
    except (ValueError, LookupError, TypeError, OverflowError, OSError):
        return None


def _after(seconds: object) -> datetime | None:
    if not isinstance(seconds, (int, float)):
        return None
    try:
        return datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return None


def _opener(address: str) -> urllib.request.OpenerDirector:
    """Return the opener for an address. It bypasses proxies if the address is on this machine."""
    return urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if is_local(address) else []))
