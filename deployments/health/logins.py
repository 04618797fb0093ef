"""When the OAuth2 logins expire, for `catchment doctor`: read from the token itself, or from the last sync's record."""

from __future__ import annotations

from collections.abc import Container, Iterable
from datetime import UTC, datetime, timedelta

from catchment.errors import CatchmentError
from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.runtime.secret_references import resolve
from catchment.telemetry.incidents import ReasonCode
from catchment.views.health import Finding, Verdict
from connectors.imap.auth import MARK, TokenExpiry, expiry_of
from connectors.imap.settings import ImapSettings
from deployments.server.client import read_blocks_of
from deployments.server.running import Running
from deployments.sources.sources_file import SourceEntry

_SOON = timedelta(days=7)
_ANEW = "authorize the access again, and replace the old refresh token by the new one"
_FRESH = "check that the program that renews the token is running"


def examine(home: Home, entries: Iterable[SourceEntry], state: Running | None) -> list[Finding]:
    """Report when each OAuth2 login expires, and the remedy. `state`: the server, if it is running; it may hold tokens."""
    accounts = {entry.name: entry.settings for entry in entries if isinstance(entry.settings, ImapSettings)}
    mine = {name: settings for name, settings in accounts.items() if settings.uses_tokens}
    if not mine:
        return []
    if state is not None:
        read_blocks_of(state)
    marks = _marks(home, mine)
    return [
        _of_token(name, settings.token)
        if settings.token
        else _of_refresh_token(name, TokenExpiry.read(marks.get(name, "")))
        for name, settings in mine.items()
    ]


def _of_token(name: str, reference: str) -> Finding:
    try:
        ends = expiry_of(resolve(reference))
    except CatchmentError as error:
        problem, _, remedy = str(error).partition("; ")
        # A variable that is set for `up` may be unset here, and reading a block needs a running server.
        elsewhere = reference.startswith(("env:", "block:"))
        verdict = Verdict.OK if elsewhere else Verdict.FAIL
        text = f"{name}: cannot read the token: {problem}"
        return Finding("logins", verdict, text, "" if elsewhere else remedy, ReasonCode.LOGIN_EXPIRING, name)
    return _finding(name, ends, timedelta(), _FRESH)


def _of_refresh_token(name: str, standing: TokenExpiry) -> Finding:
    if not standing.kept:
        problem = f"{name}: the provider issued a new refresh token, which could not be stored in place of the old one"
        remedy = "store it as file: or keyring:, and make that writable"
        return Finding("logins", Verdict.WARN, problem, remedy, ReasonCode.LOGIN_EXPIRING, name)
    return _finding(name, standing.ends, _SOON, _ANEW)


def _finding(name: str, ends: datetime | None, soon: timedelta, remedy: str) -> Finding:
    # The first and the last year may have no local time.
    if ends is None or ends.year in (1, 9999):
        return Finding("logins", Verdict.OK, f"{name}: the expiry of the login is unknown")
    left = ends - datetime.now(UTC)
    moment = f"{ends.astimezone():%Y-%m-%d %H:%M}"
    if left <= timedelta():
        remedy = f"{remedy}; then catchment sources resume {name}"
        text = f"{name}: the login expired on {moment}"
        return Finding("logins", Verdict.FAIL, text, remedy, ReasonCode.LOGIN_EXPIRING, name)
    expiry = f"{name}: the login expires on {moment}"
    if left < soon:
        return Finding("logins", Verdict.WARN, expiry, remedy, ReasonCode.LOGIN_EXPIRING, name)
    return Finding("logins", Verdict.OK, expiry)


def _marks(home: Home, names: Container[str]) -> dict[str, str]:
    """The state of each source's login that its last sync recorded."""

    def read(ledger: Ledger) -> dict[str, str]:
        mine = [source for source in ledger.sources.all() if source.name in names]
        return {source.name: ledger.intake.known(source.id).marks().get(MARK, "") for source in mine}

    return Ledger.ask(home, read, {})
