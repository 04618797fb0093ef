"""`catchment check --objectives`, `telemetry show`, `syncs`, `backup --list`, and the retries of `quarantine stats`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.telemetry.catalogue import FAILURES, JOBS, RETRY_DELAY, SYNC_DURATION
from console import render

if TYPE_CHECKING:
    from tests.console.conftest import Cli


@pytest.fixture
def measured(filled: Path) -> Path:
    """The filled home, in which ten more syncs and four failed attempts were counted."""
    with closing(Ledger.open(Home(filled))) as ledger:
        source, tally = ledger.sources.get("notes").id, ledger.measures.tally
        tally.add(SYNC_DURATION, 3.0, source, times=10, outcome="completed")
        tally.add(SYNC_DURATION, 3.0, source, times=4, outcome="failed")
        tally.add(JOBS, 30, source, outcome="succeeded")
        tally.add(FAILURES, 4, source, reason="timeout", failure_class="transient")
        tally.add(RETRY_DELAY, 90, source, times=3, reason="timeout")
        ledger.measures.flush()
    return filled


@pytest.mark.usefixtures("measured")
def test_slo_shows_each_objective_and_its_burns(cli: Cli) -> None:
    lines = cli("slo").out.splitlines()
    assert lines[0].split()[:3] == ["OBJECTIVE", "STATE", "24"]
    assert "burning" in lines[1] and "71.43 %" in lines[1] and "28.6" in lines[1]
    assert "insufficient data" in lines[4]
    syncs, *others = cli("slo", "--json").json
    assert (syncs["status"], syncs["objective"]["name"], syncs["burns"][0]["hours"]) == ("burning", "syncs", 1)
    assert {one["objective"]["name"] for one in others} == {"duration", "backlog", "changes"}


def test_wrong_objectives_are_refused_in_one_line(cli: Cli, filled: Path) -> None:
    (filled / "alerts.yaml").write_text("objectives: {syncs: {target: 2}}\n")
    response = cli("check", "--objectives")
    assert (response.code, response.err.count("\n")) == (2, 1)
    assert response.err.startswith("catchment: alerts.yaml: objectives: syncs.target: must be from 0.5")


@pytest.mark.usefixtures("measured")
def test_telemetry_show_draws_lines_with_last_least_and_most(cli: Cli) -> None:
    lines = {line[:17].strip(): line.split()[-4:] for line in cli("telemetry", "show").out.splitlines()[1:]}
    # Two items were stored by the fixture, which may be of the step before.
    assert lines["stored"] in (["32", "0", "32", "items"], ["30", "0", "30", "items"])
    assert lines["sync time p95"][-1] == "s"
    assert lines["sync time p50"][0] == "3.5"
    hour = cli("telemetry", "show", "--hours", "1", "--source", "notes", "--json").json
    assert (hour["range"], hour["source"], len(hour["steps"])) == ("1h", "notes", 60)
    assert sum(hour["trends"][0]["values"]) == 32
    assert len(cli("telemetry", "show", "--days", "30", "--json").json["steps"]) == 30


@pytest.mark.parametrize("options", [("--hours", "5"), ("--days", "7"), ("--hours", "1", "--days", "30")])
@pytest.mark.usefixtures("filled")
def test_other_ranges_are_refused(cli: Cli, options: tuple[str, ...]) -> None:
    response = cli("telemetry", "show", *options)
    assert (response.code, "choose --hours 1, --hours 24 or --days 30" in response.err) == (2, True)


def test_spark_has_ascii_for_terminals_without_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [0.0, 1.0, None, 4.0, 8.0]
    assert render.spark(values) == "▁▂ ▅█"
    monkeypatch.setattr(render, "_is_utf8", lambda: False)
    assert render.spark(values) == "_. =#"
    assert render.spark([0.0, None]) == "_ "


@pytest.mark.usefixtures("filled")
def test_syncs_are_listed_with_their_results(cli: Cli) -> None:
    assert "completed" in (listed := cli("syncs", "list", "notes").out) and "2 added or updated" in listed
    [row] = cli("syncs", "list", "--json").json
    assert (row["id"], row["source"], row["outcome"], row["summary"]["succeeded"]) == (1, "notes", "completed", 2)
    assert cli("syncs", "list", "nope").code == 4


@pytest.mark.usefixtures("filled")
def test_sync_names_what_it_changed(cli: Cli) -> None:
    shown = cli("syncs", "show", "1").out
    assert "added   Bees/Swarm.md" in shown and "added   Hive.md" in shown
    assert "and 1 more" in cli("syncs", "show", "1", "--limit", "1").out
    found = cli("syncs", "show", "1", "--json").json
    assert [change["path"] for change in found["changes"]["added"]["rows"]] == ["Bees/Swarm.md", "Hive.md"]
    assert (found["sync"]["changes"]["added"], list(found["changes"])) == (2, ["added"])
    assert cli("syncs", "show", "99").code == 4


@pytest.mark.usefixtures("filled")
def test_backups_are_listed_with_age_and_size(cli: Cli) -> None:
    assert "no backup" in cli("backup", "--list").err
    made = cli("backup", "--json").json
    assert cli("backup", "--json").code == 0
    listed = cli("backup", "--list", "--json").json
    assert made["file"] in [one["file"] for one in listed]
    assert {one["size"] for one in listed} == {Path(one["file"]).stat().st_size for one in listed}
    assert "now" in cli("backup", "--list").out and ".db" in cli("backup", "--list").out


@pytest.mark.usefixtures("measured")
def test_quarantine_stats_show_what_retries_did(cli: Cli) -> None:
    rows = {row["reason"]: row for row in cli("quarantine", "stats", "--json").json["retries"]}
    timeout = rows["timeout"]
    assert (timeout["kind"], timeout["failed"], timeout["delay"], timeout["quarantined"]) == ("obsidian", 4, 90, 1)
    # The fixture has an item in quarantine.
    assert (rows["parse_error"]["quarantined"], rows["parse_error"]["share"]) == (1, 0)
    assert "1 min" in cli("quarantine", "stats").out
