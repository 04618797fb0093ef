"""The findings of `doctor` on the expiry of OAuth2 logins."""

from __future__ import annotations

import base64
import json
import os
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.runtime import secret_references
from catchment.runtime.home import Home
from catchment.telemetry.incidents import Condition, Verdict
from connectors.imap.auth import MARK, TokenExpiry
from connectors.imap.settings import ImapSettings
from deployments.health import doctor, logins
from deployments.server.running import Running
from deployments.sources.sources_file import SourceEntry, SourcesFile
from tests.connectors.imap.dovecot import token

OK, WARN, FAIL = Verdict.OK, Verdict.WARN, Verdict.FAIL
REFRESHED = {"refresh_token": "env:REFRESH", "client_id": "mine", "token_url": "https://example.org/token"}


def examined(home: Home, **login: str) -> list[Condition]:
    settings = ImapSettings(host="mail.example.org", user="ada", **login)  # type: ignore[arg-type]
    return logins.examine(home, [SourceEntry("mail", "imap", settings)], None)


def test_password_login_has_no_expiry(home: Home) -> None:
    assert examined(home, password="env:MAIL_PASSWORD") == []


def marked(home: Home, standing: TokenExpiry) -> None:
    """Record the token expiry as a sync does."""
    with closing(Ledger.open(home.database_url)) as ledger:
        source = ledger.sources.put("mail", "imap", Priority.NORMAL)
        sync = ledger.syncs.begin(source.id, run=None, owner="test", code_version="1", alive=lambda _: False)
        ledger.intake.record(sync.id, [], {MARK: standing.mark()})


@pytest.mark.parametrize(
    ("days", "verdict", "message", "remedy"),
    [
        (30, OK, "mail: the login expires on 20", ""),
        (3, WARN, "mail: the login expires on 20", "authorize the access again"),
        (-3, FAIL, "mail: the login expired on 20", "then catchment sources resume mail"),
    ],
)
def test_refresh_token_expiry_is_taken_from_the_last_sync(
    home: Home, days: int, verdict: Verdict, message: str, remedy: str
) -> None:
    marked(home, TokenExpiry(datetime.now(UTC) + timedelta(days=days)))
    [found] = examined(home, **REFRESHED)
    assert (found.probe, found.verdict) == ("logins", verdict)
    assert message in found.message
    assert remedy in found.remedy


def test_unknown_refresh_token_expiry_is_ok(home: Home) -> None:
    for _ in range(2):
        [found] = examined(home, **REFRESHED)
        assert (found.verdict, found.message) == (OK, "mail: the expiry of the login is unknown")
        marked(home, TokenExpiry(None))


def test_unstored_refresh_token_is_a_warning(home: Home) -> None:
    marked(home, TokenExpiry(None, kept=False))
    [found] = examined(home, **REFRESHED)
    assert (found.verdict, found.remedy[:30]) == (WARN, "store it as file: or keyring:,")


def test_access_token_expiry_is_read_from_the_token(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    for seconds, verdict, message in ((600, OK, "expires on 20"), (-600, FAIL, "expired on 20")):
        file.write_text(token(seconds=seconds))
        [found] = examined(home, token=f"file:{file}")
        assert found.verdict is verdict
        assert message in found.message
    assert "renews the token" in found.remedy
    file.unlink()
    [found] = examined(home, token=f"file:{file}")
    assert (found.verdict, found.remedy) == (FAIL, "correct its path or mode")
    assert str(tmp_path) not in found.message
    [found] = examined(home, token="env:NOT_SET_HERE")
    assert (found.verdict, found.remedy) == (OK, "")


@pytest.mark.parametrize(
    "ends", [253_402_300_799, -62_135_596_800, 10**18, 2**100, -1, 0.5, None, "soon", [], {}, True]
)
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Lima"])
def test_any_expiry_claim_of_an_access_token_is_accepted(
    home: Home, monkeypatch: pytest.MonkeyPatch, ends: object, zone: str
) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": ends}).encode()).decode().rstrip("=")
    monkeypatch.setenv("TOKEN", f"e30.{claims}.signed")
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        [found] = examined(home, token="env:TOKEN")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found.message == "mail: the expiry of the login is unknown" or found.verdict is FAIL


def test_doctor_reports_expired_logins(home: Home) -> None:
    file = SourcesFile.load(home.sources_file)
    settings = ImapSettings(host="mail.example.org", user="ada", **REFRESHED)  # type: ignore[arg-type]
    file.add(SourceEntry("mail", "imap", settings))
    file.save()
    marked(home, TokenExpiry(datetime.now(UTC) - timedelta(days=1)))
    [found] = [finding for finding in doctor.examine(home) if finding.probe == "logins"]
    assert found.verdict is FAIL


def test_unreadable_token_block_is_no_failure(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_references, "_READERS", dict(secret_references._READERS))
    settings = ImapSettings(host="mail.example.org", user="ada", token="block:mail")
    nobody = Running(1, os.getpid(), datetime.now(UTC), 0, 0, "ada:")
    [found] = logins.examine(home, [SourceEntry("mail", "imap", settings)], nobody)
    assert (found.verdict, found.remedy) == (OK, "")
    assert "does not respond" in found.message
