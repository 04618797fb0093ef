"""`catchment queue`, and the options that many commands share: `--since`, `--ndjson`, `--dry-run`, `--reason`."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.sources import syncs

if TYPE_CHECKING:
    from tests.console.conftest import Cli


def test_statistics_count_jobs_by_state(filled: Path, cli: Cli) -> None:
    [row] = cli("queue", "stats", "--json").json
    source, expected = row["standing"], {"pending": 1, "running": 0, "retrying": 1, "quarantined": 1}
    assert (source["name"], source["state"]) == ("notes", "active")
    assert {name: source["jobs"][name] for name in expected} == expected
    assert row["oldest"] is not None
    assert cli("queue", "stats").out.splitlines()[-1].split()[:5] == ["all", "1", "0", "1", "1"]


def test_pause_and_resume_are_those_of_throttle(filled: Path, cli: Cli) -> None:
    assert cli("queue", "pause", "--reason", "on the train").code == 0
    assert [one["rule"]["paused"] for one in cli("throttle", "show", "--json").json["rules"]] == [True]
    assert cli("queue", "resume").code == 0
    reasons = [event["reason"] for event in cli("throttle", "history", "--json", "--since", "1h").json]
    assert any("on the train" in reason for reason in reasons)
    assert cli("throttle", "history", "--json", "--since", "2999-01-01").json == []


def test_failed_items_are_queued_again(filled: Path, cli: Cli) -> None:
    preview = cli("queue", "retry-failed", "--dry-run")
    assert "broken.pdf" in preview.out and "1 item would be queued; nothing was changed" in preview.out
    assert len(cli("quarantine", "list", "--json").json) == 1
    assert cli("queue", "retry-failed").out.startswith("1 item queued")
    assert cli("quarantine", "list", "--json").json == []


def test_drain_ends_without_progress(filled: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[str] = []

    def sync_all(reason: str, **_: object) -> int:
        rounds.append(reason)
        return 0

    monkeypatch.setattr(syncs, "sync_all", sync_all)
    assert cli("queue", "run").code == 0
    left = cli("queue", "run", "--drain", "--reason", "before leaving")
    assert (left.code, "1 job left and no progress" in left.err, rounds[1:]) == (10, True, ["before leaving"] * 2)
    job = next(one["job"] for one in cli("jobs", "list", "--json").json if one["state"] == "pending")
    assert cli("jobs", "cancel", str(job)).code == 0
    assert cli("queue", "run", "--drain").out == "no job is due\n"


@pytest.mark.parametrize(
    "words",
    [("syncs", "list"), ("jobs", "list"), ("quarantine", "list"), ("incidents", "list"), ("throttle", "history")],
)
def test_lists_are_limited_by_time_and_printed_by_line(filled: Path, cli: Cli, words: tuple[str, ...]) -> None:
    everything = cli(*words, "--json").json
    assert cli(*words, "--since", "1d", "--json").json == everything
    assert cli(*words, "--since", "2999-01-01", "--ndjson").out == ""
    assert [json.loads(line) for line in cli(*words, "--ndjson").out.splitlines()] == everything
    refused = cli(*words, "--since", "soon")
    assert (refused.code, "'soon': not a time; examples: 2h" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("quarantine", "purge", "--older-than", "0d"), "1 item would be purged"),
        (("quarantine", "retry", "--all", "--source", "notes"), "1 item would be queued"),
        (("sources", "remove", "notes"), "notes: would be removed with 2 documents"),
        (("consent", "revoke", "notes"), "notes: 2 documents found only here would be deleted"),
    ],
)
def test_dry_run_changes_nothing(filled: Path, cli: Cli, words: tuple[str, ...], shown: str) -> None:
    def history() -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(filled / "ledger.db")) as ledger:
            return ledger.execute("SELECT * FROM history").fetchall()

    before = history()
    response = cli(*words, "--dry-run")
    assert (response.code, shown in response.out, "nothing was changed" in response.out) == (0, True, True), response
    assert history() == before


@pytest.mark.parametrize(
    "words",
    [
        ("quarantine", "purge", "--older-than", "0d"),
        ("consent", "give", "notes"),
        ("consent", "revoke", "notes", "--yes"),
        ("backup",),
    ],
)
def test_reason_is_kept_in_the_history(filled: Path, cli: Cli, words: tuple[str, ...]) -> None:
    assert cli(*words, "--reason", "moving house").code == 0
    with closing(sqlite3.connect(filled / "ledger.db")) as ledger:
        reasons = [reason for (reason,) in ledger.execute("SELECT reason FROM history") if reason]
    assert any("moving house" in reason for reason in reasons)
