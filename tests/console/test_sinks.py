"""The commands for sinks, without a running system: their output is true when they return."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.sync import supply
from deployments.health import page
from sinks import opened
from tests.console.conftest import Cli


def _deliver(home: Path) -> None:
    with closing(Ledger.open(Home(home))) as ledger:
        supply.deliver(ledger, "copy", opened, lambda: True, supply.DeliveryCounts())


def test_adopted_place_is_shown_by_the_former_home_with_the_remedy(
    cli: Cli, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, one, two = str(tmp_path / "copy"), state, tmp_path / "two"
    cli("sinks", "add", "jsonl", place, "--name", "copy")
    _deliver(one)
    first = cli("sinks", "list", "--json").json[0]
    assert (first["state"], first["error"]) == ("active", None)
    monkeypatch.setenv("CATCHMENT_HOME", str(two))
    with closing(Ledger.open(Home(two).make())) as ledger:
        ledger.outbox.add("copy", "jsonl", place, None, "operator:anna")
    said = cli("sinks", "adopt", "copy").out
    assert "refused from now on" in said and "next delivery" in said and "catchment up --detach" in said
    monkeypatch.setenv("CATCHMENT_HOME", str(one))
    page._look_at_sinks(Home(one))
    shown = cli("sinks", "list")
    assert "failing" in shown.out and "catchment sinks adopt copy" in shown.err
    finding = {each["probe"]: each for each in cli("health", "--json").json["findings"]}["sink copy"]
    assert "another home or sink writes to its place" in finding["message"] and "up to date" not in finding["message"]
    assert "catchment sinks adopt copy" in str(finding)


def test_adopted_place_that_is_away_is_refused_in_one_line(cli: Cli, state: Path, tmp_path: Path) -> None:
    place = tmp_path / "copy"
    cli("sinks", "add", "jsonl", str(place), "--name", "copy")
    _deliver(state)
    before = cli("sinks", "list", "--json").json
    place.rename(tmp_path / "away")
    said = cli("sinks", "adopt", "copy")
    assert said.code == 10
    assert said.err == "catchment: the folder or its disk is missing; connect it, or remove the sink\n"
    assert cli("sinks", "list", "--json").json == before


@pytest.mark.parametrize("command", ["add", "resume", "rebuild"])
def test_command_says_what_its_delivery_waits_for(cli: Cli, tmp_path: Path, command: str) -> None:
    said = cli("sinks", "add", "jsonl", str(tmp_path / "copy"), "--name", "copy").out
    if command != "add":
        said = cli("sinks", command, "copy").out
    assert "Catchment does not run; to start deliveries: `catchment up --detach`" in said
