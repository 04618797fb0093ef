"""What a login needs: a password or an access token, from where it is kept; an access token may be asked for anew."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request

from catchment.errors import LoginFailed, SourceUnavailable
from catchment.secrets import resolve
from connectors.imap.settings import ImapSettings

_SECONDS = 20.0
_LONGEST = 1_000_000


def secret(settings: ImapSettings) -> str:
    """The password, or an access token that is valid now. Raises LoginFailed with the remedy, and SourceUnavailable."""
    if settings.password is not None:
        return resolve(settings.password)
    if settings.token is not None:
        return resolve(settings.token)
    return _new_token(settings)


def _new_token(settings: ImapSettings) -> str:
    """An access token for the refresh token (RFC 6749, 6)."""
    form = {
        "grant_type": "refresh_token",
        "refresh_token": resolve(settings.refresh_token or ""),
        "client_id": settings.client_id or "",
    }
    if settings.client_secret:
        form["client_secret"] = resolve(settings.client_secret)
    address = settings.token_url or ""
    host = urllib.parse.urlsplit(address).hostname
    request = urllib.request.Request(address, urllib.parse.urlencode(form).encode(), {"Accept": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            token = json.loads(answer.read(_LONGEST))["access_token"]
    except urllib.error.HTTPError as error:
        error.close()
        if error.code >= 500 or error.code == 429:
            raise SourceUnavailable(f"{host} gives no token now ({error.code}); the next sync asks again") from None
        raise LoginFailed(f"{host} refused the refresh token ({error.code}); allow the access anew") from None
    except OSError as error:
        raise SourceUnavailable(f"{host}, which gives tokens, cannot be reached; check token_url") from error
    except (ValueError, KeyError, TypeError):
        raise LoginFailed(f"{host} answered without an access token; check token_url") from None
    return str(token)
