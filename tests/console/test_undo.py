"""`catchment undo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.console.conftest import Cli


def test_a_sync_is_undone_by_its_number_and_the_undo_by_its_own(cli: Cli, filled: Path) -> None:
    [sync] = cli("sources", "show", "notes", "--json").json["syncs"]
    number = str(sync["sync"])
    response = cli("undo", number, "--dry-run")
    assert response.code == 0 and "would change: 2 removed" in response.out
    assert cli("search", "swarm", "--json").json != []
    response = cli("undo", number, "--reason", "a mistake", "--json")
    assert response.json["deeds"] == [{"do": "take out", "item": item} for item in ("Bees/Swarm.md", "Hive.md")]
    assert cli("search", "swarm", "--json").json == []
    assert "a mistake" in cli("why", "Bees/Swarm.md").out
    again = cli("undo", number)
    assert (again.code, f"undone already; `catchment undo {response.json['undo']}` brings" in again.out) == (0, True)
    response = cli("undo", str(response.json["undo"]))
    assert response.code == 0 and "2 restored; to revert: `catchment undo" in response.out
    assert [hit["item"] for hit in cli("search", "swarm", "--json").json] == ["Bees/Swarm.md"]
    assert cli("ledger", "check", "--deep").code == 0


def test_an_undo_of_what_is_not_kept_says_so(cli: Cli, filled: Path) -> None:
    response = cli("undo", "99")
    assert (response.code, "catchment sources show" in response.err) == (4, True)
