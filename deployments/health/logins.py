"""How long the logins by OAuth2 last, for `catchment doctor`: by the token itself, or by what the last sync was told."""

from __future__ import annotations

from collections.abc import Container, Iterable
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta

from catchment.errors import CatchmentError
from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.runtime.secret_references import resolve
from catchment.status import Finding, Verdict
from connectors.imap.auth import MARK, TokenExpiry, expiry_of
from connectors.imap.settings import ImapSettings
from deployments.server.blocks import read_blocks_of
from deployments.server.running import Running
from deployments.sources.sources_file import SourceEntry

_SOON = timedelta(days=7)
_ANEW = "allow the access anew, and put the new refresh token where the old one was"
_FRESH = "see that the program which keeps the token fresh is running"


def examine(home: Home, entries: Iterable[SourceEntry], state: Running | None) -> list[Finding]:
    """When each login by OAuth2 ends, and what to do about it. `state`: the server, which may keep tokens, if it is up."""
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
        said, _, remedy = str(error).partition("; ")
        # What is set for `up` need not be set here, and blocks are known to a server that is up and answers.
        elsewhere = reference.startswith(("env:", "block:"))
        verdict = Verdict.OK if elsewhere else Verdict.FAIL
        return Finding(
            "logins", verdict, f"the token of {name} cannot be looked at: {said}", "" if elsewhere else remedy
        )
    return _finding(name, ends, timedelta(), _FRESH)


def _of_refresh_token(name: str, standing: TokenExpiry) -> Finding:
    if not standing.kept:
        said = f"the provider of {name} gave a new refresh token, which cannot be kept where the old one is"
        return Finding("logins", Verdict.WARN, said, "keep it by file: or keyring:, and see that it may be written")
    return _finding(name, standing.ends, _SOON, _ANEW)


def _finding(name: str, ends: datetime | None, soon: timedelta, remedy: str) -> Finding:
    # The first and the last year may have no local time.
    if ends is None or ends.year in (1, 9999):
        return Finding("logins", Verdict.OK, f"nobody says when the login of {name} ends")
    left = ends - datetime.now(UTC)
    moment = f"{ends.astimezone():%Y-%m-%d %H:%M}"
    if left <= timedelta():
        remedy = f"{remedy}; then catchment sources resume {name}"
        return Finding("logins", Verdict.FAIL, f"the login of {name} ended on {moment}", remedy)
    said = f"the login of {name} ends on {moment}"
    return Finding("logins", Verdict.WARN, said, remedy) if left < soon else Finding("logins", Verdict.OK, said)


def _marks(home: Home, names: Container[str]) -> dict[str, str]:
    """What the last sync of each source was told of its login."""
    found = {}
    # `catchment health` says what is wrong with a ledger; without one, nothing was synced yet.
    with suppress(CatchmentError), closing(Ledger.inspect(home.database_url)) as ledger:
        for source in ledger.sources.all():
            if source.name in names:
                found[source.name] = ledger.intake.known(source.id).marks().get(MARK, "")
    return found
