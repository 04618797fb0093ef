"""`catchment throttle` over a real ledger."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from catchment.ledger import Ledger
from catchment.pacing import HostLimits, RateReport
from catchment.pacing.metered import Ask, Report
from catchment.runtime.home import Home
from catchment.runtime.process import identity
from tests.console.conftest import Cli

LIMITS = HostLimits("imap.example.org", "ada", per_hour=5_000)


@pytest.fixture
def asked(filled: Path) -> Path:
    """Return a home with a refused login, a host with a used quota, and a transfer in progress."""
    with closing(Ledger.open(Home(filled).database_url)) as ledger:
        ledger.pacing.take(Ask(LIMITS, "notes", identity(), 1, False), Report(), None)
        ledger.pacing.ask(LIMITS, "notes", identity())
        ledger.pacing.failed(LIMITS, "notes", login=True)
    return filled


def test_rules_are_set_shown_and_cleared(filled: Path, cli: Cli) -> None:
    assert cli("throttle", "set", "notes", "--per-hour", "500", "--reason", "slow line").code == 0
    assert cli("throttle", "set", "notes", "--blackout", "22:00-06:00 mon-fri", "--profile", "moderate").code == 0
    assert cli("throttle", "set", "all", "--at-once", "1").code == 0
    rules = {row["scope"]: row["rule"] for row in cli("throttle", "show", "--json").json["rules"]}
    assert rules["source:notes"]["per_hour"] == 500
    assert (rules["source:notes"]["profile"], rules["source:notes"]["blackouts"]) == (
        "moderate",
        ["22:00-06:00 mon-fri"],
    )
    assert rules["all"]["at_once"] == 1
    shown = cli("throttle", "show").out
    assert "per hour 500" in shown and "22:00-06:00 mon-fri" in shown
    assert cli("throttle", "clear", "notes").code == cli("throttle", "clear", "all").code == 0
    assert cli("throttle", "show", "--json").json["rules"] == []
    assert cli("throttle", "clear", "notes").code == 4


def test_a_kind_and_all_are_paused_and_resumed(filled: Path, cli: Cli) -> None:
    assert cli("throttle", "pause", "obsidian").code == cli("throttle", "pause", "all").code == 0
    assert [row["scope"] for row in cli("throttle", "show", "--json").json["rules"]] == ["all", "kind:obsidian"]
    assert "paused" in cli("throttle", "show").out
    assert cli("throttle", "resume", "obsidian").code == cli("throttle", "resume", "all").code == 0
    assert cli("throttle", "show", "--json").json["rules"] == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("set", "notes"), 2),
        (("set", "notes", "--per-hour", f"{2**64}"), 2),
        (("set", "notes", "--blackout", "at night"), 2),
        (("set", "notes", "--profile", "fast"), 2),
        (("set", "nots", "--at-once", "1"), 4),
        (("set", "kind:nothing", "--at-once", "1"), 4),
        (("set", "host:x", "--at-once", "1"), 2),
        (("reset-breaker", "notes"), 4),
    ],
)
def test_what_cannot_be_ruled_is_refused(filled: Path, cli: Cli, arguments: tuple[str, ...], code: int) -> None:
    assert cli("throttle", *arguments).code == code


def test_hosts_places_and_breakers_are_shown_and_a_breaker_is_reset(asked: Path, cli: Cli) -> None:
    told = cli("throttle", "show", "--json").json
    [host], [place], [breaker] = told["hosts"], told["places"], told["breakers"]
    assert (host["host"], host["rate"], host["left"]) == (LIMITS.key, 10, 4_499)
    assert 49 <= host["tokens"] <= 50
    assert place == {"host": "imap.example.org", "transferring": 1, "waiting": 0, "at_once": 2}
    assert (breaker["name"], breaker["state"], breaker["until_reset"]) == ("source:notes", "open", True)
    shown = cli("throttle", "show").out
    assert "4499 of 5000" in shown and "1 of 2, 0 waiting" in shown and "login refused" in shown
    assert "ada" not in shown
    assert cli("throttle", "reset-breaker", "notes").code == 0
    assert cli("throttle", "show", "--json").json["breakers"] == []


def test_a_paused_host_with_seconds_between_two_requests_is_shown_with_its_rate(filled: Path, cli: Cli) -> None:
    with closing(Ledger.open(Home(filled).database_url)) as ledger:
        for host, every in (("rare.example.org", 30.0), ("often.example.org", 0.5), ("well.example.org", 1.0)):
            limits, paused = HostLimits(host, every=every), RateReport(retry_after=60)
            ledger.pacing.take(Ask(limits, "notes", identity(), 1, True), Report(), None)
            if host != "well.example.org":
                ledger.pacing.report(limits, Report(rates=[paused]))
    assert [row["rate"] for row in cli("throttle", "show", "--json").json["hosts"]] == [2.0, 0.033]
    lines = cli("throttle", "show").out.splitlines()
    assert [line.split()[:2] for line in lines if "example.org" in line] == [
        ["often.example.org", "2"],
        ["rare.example.org", "0.033"],
    ]


def test_who_ruled_what_and_which_breakers_opened_is_in_the_history(asked: Path, cli: Cli) -> None:
    cli("throttle", "set", "all", "--blackout", "22:00-06:00", "--reason", "the line is slow at night")
    cli("throttle", "clear", "all")
    cli("throttle", "reset-breaker", "notes")
    told = cli("throttle", "history", "--json").json
    assert [one["event"] for one in told] == ["breaker opened", "throttle set", "throttle cleared", "breaker reset"]
    assert told[0]["reason"] == "source:notes: login refused"
    assert "22:00-06:00" in told[1]["reason"] and told[1]["reason"].endswith("the line is slow at night")
    assert told[1]["actor"] == told[3]["actor"] != told[0]["actor"]
    assert [one["event"] for one in cli("throttle", "history", "--limit", "1", "--json").json] == ["breaker reset"]
    assert "breaker opened" in cli("throttle", "history").out


def test_without_anything_to_show_it_says_so(filled: Path, cli: Cli) -> None:
    response = cli("throttle", "show")
    assert response.code == 0 and "no limits are set" in response.err
    response = cli("throttle", "history")
    assert response.code == 0 and "no limits were changed" in response.err


def test_before_there_is_a_ledger_nothing_is_throttled(state: Path, cli: Cli) -> None:
    assert cli("throttle", "show", "--json").json == {"rules": [], "hosts": [], "places": [], "breakers": []}
