"""When the OAuth2 logins expire, for `catchment check`: read from the token itself, or from the last sync's record."""

from __future__ import annotations

from collections.abc import Container, Iterable
from datetime import UTC, datetime, timedelta

from catchment.errors import CatchmentError, split_remedy
from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.runtime.secret_references import resolve
from catchment.telemetry.incidents import FAIL, OK, WARN, Condition, ReasonCode, Verdict
from connectors.imap.auth import MARK, TokenExpiry, expiry_of
from connectors.imap.settings import ImapSettings
from deployments.server.client import read_blocks_of
from deployments.server.running import Running
from deployments.sources.sources_file import SourceEntry

_SOON = timedelta(days=7)
_ANEW = "authorize the access again, and replace the old refresh token by the new one"
_FRESH = "check that the program that renews the token is running"


def examine(home: Home, entries: Iterable[SourceEntry], state: Running | None) -> list[Condition]:
    """Report when each OAuth2 login expires, and the remedy. `state`: the server, if it is running; it may hold tokens."""
    accounts = {entry.name: entry.settings for entry in entries if isinstance(entry.settings, ImapSettings)}
    accounts_with_tokens = {name: settings for name, settings in accounts.items() if settings.uses_tokens}
    if not accounts_with_tokens:
        return []
    if state is not None:
        read_blocks_of(state)
    marks = _marks(home, accounts_with_tokens)
    return [
        _of_token(name, settings.token)
        if settings.token
        else _of_refresh_token(name, TokenExpiry.read(marks.get(name, "")))
        for name, settings in accounts_with_tokens.items()
    ]


def _of_token(name: str, reference: str) -> Condition:
    try:
        ends = expiry_of(resolve(reference))
    except CatchmentError as error:
        problem, remedy = split_remedy(str(error))
        text = f"cannot read the token: {problem}"
        # A variable that is set for `up` may be unset here, and reading a block needs a running server.
        is_elsewhere = reference.startswith(("env:", "block:"))
        return _login(name, OK, text) if is_elsewhere else _login(name, FAIL, text, remedy)
    return _until(name, ends, timedelta(), _FRESH)


def _of_refresh_token(name: str, standing: TokenExpiry) -> Condition:
    if not standing.kept:
        text = "the provider issued a new refresh token, which could not be stored in place of the old one"
        return _login(name, WARN, text, "store it as file: or keyring:, and make that writable")
    return _until(name, standing.ends, _SOON, _ANEW)


def _until(name: str, ends: datetime | None, soon: timedelta, remedy: str) -> Condition:
    # The first and the last year may have no local time.
    if ends is None or ends.year in (1, 9999):
        return _login(name, OK, "the expiry of the login is unknown")
    left = ends - datetime.now(UTC)
    moment = f"{ends.astimezone():%Y-%m-%d %H:%M}"
    if left <= timedelta():
        return _login(name, FAIL, f"the login expired on {moment}", f"{remedy}; then catchment sources resume {name}")
    is_soon = left < soon
    return _login(name, WARN if is_soon else OK, f"the login expires on {moment}", remedy if is_soon else "")


def _login(name: str, verdict: Verdict, text: str, remedy: str = "") -> Condition:
    return Condition("logins", verdict, f"{name}: {text}", remedy, ReasonCode.LOGIN_EXPIRING, f"source:{name}")


def _marks(home: Home, names: Container[str]) -> dict[str, str]:
    """The state of each source's login that its last sync recorded."""

    def read(ledger: Ledger) -> dict[str, str]:
        sources = [source for source in ledger.sources.all() if source.name in names]
        return {source.name: ledger.intake.known(source.id).marks().get(MARK, "") for source in sources}

    return Ledger.ask(home, read, {})
