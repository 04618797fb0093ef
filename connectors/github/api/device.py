"""Login with a code that the user types into a browser (OAuth 2.0 device flow, RFC 8628, as documented by GitHub).

No password is requested and no token copied: the host issues a token once the user has agreed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx

from catchment.content.foreign_json import read_json
from catchment.errors import LoginFailed, SourceUnavailable
from connectors.github.api.api_client import body_of
from connectors.github.api.errors import connection_error, malformed_response
from connectors.tls import authorities

_SECONDS = 20.0
_INTERVAL = 5
_MIN_INTERVAL = 1.0
_MAX_WAIT_SECONDS = 1_800
_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_REFUSALS = {
    "access_denied": "refused in the browser; start again if that was a mistake",
    "expired_token": "code not entered in time; start again",
    "device_flow_disabled": "device flow not enabled; tick `Enable Device Flow` in the app's settings at the host",
    "incorrect_client_credentials": "unknown app; check --client-id",
    "unsupported_grant_type": "device flow not supported by the host; create a token by hand",
}


class DeviceCode(NamedTuple):
    """A code to type (`user`) at `address`. `device` is our half; it expires after `seconds`."""

    user: str
    address: str
    device: str
    seconds: float
    interval: float


class DeviceToken(NamedTuple):
    """An access token. `seconds`: its lifetime, if limited."""

    token: str
    seconds: float | None

    def __repr__(self) -> str:
        return "DeviceToken(…)"


def begin(address: str, client: str, scope: str) -> DeviceCode:
    """Request a code for the app with the ID `client`. Raises LoginFailed and SourceUnavailable with the remedy."""
    response = _post(f"{address}/login/device/code", {"client_id": client, "scope": scope})
    _raise_if_refused(response)
    try:
        seconds, interval = float(response["expires_in"]), float(response.get("interval", _INTERVAL))
        return DeviceCode(
            str(response["user_code"]),
            str(response["verification_uri"]),
            str(response["device_code"]),
            seconds,
            interval,
        )
    except (KeyError, TypeError, ValueError):
        raise malformed_response(urlsplit(address).netloc) from None


def wait(address: str, client: str, code: DeviceCode, sleep: Callable[[float], None] = time.sleep) -> DeviceToken:
    """Poll for the token until the user has agreed. Raises LoginFailed if that does not happen."""
    form = {"client_id": client, "device_code": code.device, "grant_type": _GRANT}
    interval, left = max(code.interval, _MIN_INTERVAL), min(code.seconds, _MAX_WAIT_SECONDS)
    while left > 0:
        sleep(interval)
        left -= interval
        response = _post(f"{address}/login/oauth/access_token", form)
        if token := response.get("access_token"):
            lifetime = response.get("expires_in")
            return DeviceToken(str(token), float(lifetime) if lifetime else None)
        if response.get("error") == "slow_down":
            interval += _INTERVAL
        elif response.get("error") != "authorization_pending":
            _raise_if_refused(response)
            raise malformed_response(urlsplit(address).netloc)
    raise LoginFailed(f"login failed: {_REFUSALS['expired_token']}")


def _raise_if_refused(response: Mapping[str, Any]) -> None:
    if error := response.get("error"):
        why = _REFUSALS.get(str(error), "refused by the host; see docs/github.md")
        raise LoginFailed(f"login failed: {why}")


def _post(address: str, form: Mapping[str, str]) -> Mapping[str, Any]:
    host = urlsplit(address).netloc
    try:
        with httpx.stream(
            "POST",
            address,
            data=dict(form),
            headers={"Accept": "application/json"},
            timeout=_SECONDS,
            verify=authorities() if address.startswith("https:") else False,
        ) as http_response:
            response = read_json(body_of(host, http_response))
    except httpx.HTTPError as error:
        raise connection_error(host, error) from None
    except ValueError:
        raise malformed_response(host) from None
    if http_response.status_code >= 500 or not isinstance(response, Mapping):
        raise SourceUnavailable(f"{host}: no token available (HTTP {http_response.status_code}); try again later")
    if http_response.status_code == 404:
        raise LoginFailed(f"login failed: {_REFUSALS['incorrect_client_credentials']}")
    return response
