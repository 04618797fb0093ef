"""Login by a code that a person types into a browser (OAuth 2.0 device flow, RFC 8628, as GitHub documents it).

No password is asked for here, and no token has to be copied: the host gives one when the person has agreed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import orjson

from catchment.errors import LoginFailed, SourceUnavailable
from connectors.github.api.client import authorities, body_of
from connectors.github.api.errors import lost, unreadable

_SECONDS = 20.0
_INTERVAL = 5
_SHORTEST = 1.0
_LONGEST_WAIT = 1_800
_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_REFUSALS = {
    "access_denied": "it was refused in the browser; begin again if that was a mistake",
    "expired_token": "nobody typed the code in time; begin again",
    "device_flow_disabled": "the app does not allow it; tick `Enable Device Flow` in its settings at the host",
    "incorrect_client_credentials": "there is no such app; check --client-id",
    "unsupported_grant_type": "the host does not know this login; make a token by hand instead",
}


class DeviceCode(NamedTuple):
    """What the person types (`user`), and where; `device` is our side of it. Ends after `seconds`."""

    user: str
    address: str
    device: str
    seconds: float
    interval: float


class Given(NamedTuple):
    """A token. `seconds`: when it ends, if it does."""

    token: str
    seconds: float | None

    def __repr__(self) -> str:
        return "Given(…)"


def begin(address: str, client: str, scope: str) -> DeviceCode:
    """A code for an app of the host (`client` is its id). Raises LoginFailed and SourceUnavailable with the remedy."""
    told = _asked(f"{address}/login/device/code", {"client_id": client, "scope": scope})
    _refuse(told)
    try:
        seconds, interval = float(told["expires_in"]), float(told.get("interval", _INTERVAL))
        return DeviceCode(
            str(told["user_code"]), str(told["verification_uri"]), str(told["device_code"]), seconds, interval
        )
    except (KeyError, TypeError, ValueError):
        raise unreadable(urlsplit(address).netloc) from None


def wait(address: str, client: str, code: DeviceCode, sleep: Callable[[float], None] = time.sleep) -> Given:
    """The token, once the person has agreed; asks as often as the host wants. Raises LoginFailed where nobody did."""
    form = {"client_id": client, "device_code": code.device, "grant_type": _GRANT}
    interval, left = max(code.interval, _SHORTEST), min(code.seconds, _LONGEST_WAIT)
    while left > 0:
        sleep(interval)
        left -= interval
        told = _asked(f"{address}/login/oauth/access_token", form)
        if token := told.get("access_token"):
            ends = told.get("expires_in")
            return Given(str(token), float(ends) if ends else None)
        if told.get("error") == "slow_down":
            interval += _INTERVAL
        elif told.get("error") != "authorization_pending":
            _refuse(told)
            raise unreadable(urlsplit(address).netloc)
    raise LoginFailed(f"the login did not succeed: {_REFUSALS['expired_token']}")


def _refuse(told: Mapping[str, Any]) -> None:
    if error := told.get("error"):
        why = _REFUSALS.get(str(error), "the host refused it; see docs/github.md")
        raise LoginFailed(f"the login did not succeed: {why}")


def _asked(address: str, form: Mapping[str, str]) -> Mapping[str, Any]:
    host = urlsplit(address).netloc
    try:
        with httpx.stream(
            "POST",
            address,
            data=dict(form),
            headers={"Accept": "application/json"},
            timeout=_SECONDS,
            verify=authorities() if address.startswith("https:") else False,
        ) as answer:
            told = orjson.loads(body_of(host, answer))
    except httpx.HTTPError as error:
        raise lost(host, error) from None
    except orjson.JSONDecodeError:
        raise unreadable(host) from None
    if answer.status_code >= 500 or not isinstance(told, Mapping):
        raise SourceUnavailable(f"{host} gives no token now ({answer.status_code}); try again later")
    if answer.status_code == 404:
        raise LoginFailed(f"the login did not succeed: {_REFUSALS['incorrect_client_credentials']}")
    return told
