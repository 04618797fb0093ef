"""What a login needs: a password or an access token, from where it is kept; an access token may be asked for anew."""

from __future__ import annotations

import base64
import hashlib
import json
import urllib.error
import urllib.parse
import urllib.request
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from typing import Any, NamedTuple

from catchment.errors import LoginFailed, SourceUnavailable
from catchment.runtime import secret_references
from connectors.imap.settings import ImapSettings

MARK = "login"
"""The mark of the cursor that says how long the login lasts, where the provider told that."""
_SECONDS = 20.0
_LONGEST = 1_000_000


class TokenExpiry(NamedTuple):
    """How long a login by OAuth2 `ends`, None where nobody says so; and whether the token of the next one is `kept`."""

    ends: datetime | None
    kept: bool = True

    @classmethod
    def read(cls, mark: str) -> TokenExpiry:
        """What `mark` wrote."""
        ends, _, lost = mark.partition(";")
        return cls(datetime.fromisoformat(ends) if ends else None, not lost)

    def mark(self) -> str | None:
        """What is to be remembered of it; None where there is nothing to be said."""
        return f"{self.ends.isoformat() if self.ends else ''}{'' if self.kept else ';lost'}" or None


class Login:
    """The login to one account. Safe for threads and, where refresh tokens are replaced, for processes."""

    def __init__(self, settings: ImapSettings) -> None:
        self.settings = settings
        self.standing = TokenExpiry(None)
        self._unkept: str | None = None

    def secret(self) -> str:
        """The password, or an access token that is valid now. Raises LoginFailed with the remedy, and SourceUnavailable."""
        if reference := self.settings.password or self.settings.token:
            return secret_references.resolve(reference)
        reference = self.settings.refresh_token or ""
        # Who takes a refresh token may get another in its place, and then nobody may use the first one any more.
        with secret_references.alone(reference):
            old = self._unkept or secret_references.resolve(reference)
            answer = self._ask(old)
            new = answer.get("refresh_token") or old
            kept = (new == old and self._unkept is None) or secret_references.replace(reference, str(new))
            self._unkept = None if kept else str(new)
        self.standing = TokenExpiry(_after(answer.get("refresh_token_expires_in")), kept)
        return str(answer["access_token"])

    def fingerprint(self) -> str:
        """What the secret as it is kept now is told from another one by; "" where none can be read."""
        reference = self.settings.password or self.settings.token or self.settings.refresh_token or ""
        try:
            return hashlib.sha256(secret_references.resolve(reference).encode()).hexdigest()
        except LoginFailed:
            return ""

    def _ask(self, refresh_token: str) -> dict[str, Any]:
        """What is given for a refresh token (RFC 6749, 6), an access token at least."""
        settings = self.settings
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": settings.client_id or ""}
        if settings.client_secret:
            form["client_secret"] = secret_references.resolve(settings.client_secret)
        address = settings.token_url or ""
        host = urllib.parse.urlsplit(address).hostname
        request = urllib.request.Request(address, urllib.parse.urlencode(form).encode(), {"Accept": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as said:
                answer = json.loads(said.read(_LONGEST))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code >= 500 or error.code == 429:
                raise SourceUnavailable(f"{host} gives no token now ({error.code}); the next sync asks again") from None
            raise LoginFailed(f"{host} refused the refresh token ({error.code}); {self._remedy}") from None
        except (OSError, HTTPException) as error:
            raise SourceUnavailable(f"{host}, which gives tokens, cannot be reached; check token_url") from error
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or not isinstance(answer.get("access_token"), str):
            raise LoginFailed(f"{host} answered without an access token; check token_url")
        return answer

    @property
    def _remedy(self) -> str:
        scheme = (self.settings.refresh_token or "").partition(":")[0]
        if scheme in ("file", "keyring"):
            return "allow the access anew, and put the new refresh token where the old one was"
        return f"allow the access anew; if tokens are replaced at each use, {scheme}: cannot keep them: use file: or keyring:"


def ends_of(access_token: str) -> datetime | None:
    """When an access token ends, if it is a JSON Web Token and says so; nothing is verified."""
    part = access_token.split(".")[1:2]
    try:
        ends = json.loads(base64.urlsafe_b64decode(part[0] + "=="))["exp"]
        return datetime.fromtimestamp(ends, UTC)
    except (ValueError, LookupError, TypeError, OverflowError, OSError, RecursionError):
        return None


def _after(seconds: object) -> datetime | None:
    if not isinstance(seconds, (int, float)):
        return None
    try:
        return datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return None
