"""`catchment undo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.console.conftest import Cli


def test_a_sync_is_undone_by_its_number_and_the_undo_by_its_own(cli: Cli, filled: Path) -> None:
    [sync] = cli("sources", "show", "notes", "--json").json["syncs"]
    number = str(sync["id"])
    response = cli("undo", number, "--dry-run")
    assert response.code == 0 and f"2 removed; undoing sync {number} would do this" in response.out
    assert cli("search", "swarm", "--json").json != []
    response = cli("undo", number, "--reason", "a mistake", "--json")
    assert response.json["actions"] == dict.fromkeys(("Bees/Swarm.md", "Hive.md"), "take out")
    assert cli("search", "swarm", "--json").json == []
    assert "a mistake" in cli("why", "Bees/Swarm.md").out
    again = cli("undo", number)
    assert (again.code, f"undone already; `catchment undo {response.json['number']}` brings" in again.out) == (0, True)
    response = cli("undo", str(response.json["number"]))
    assert response.code == 0 and "2 restored; to revert: `catchment undo" in response.out
    assert [hit["item"] for hit in cli("search", "swarm", "--json").json] == ["Bees/Swarm.md"]
    assert cli("ledger", "check", "--deep").code == 0


def test_an_undo_of_what_is_not_kept_says_so(cli: Cli, filled: Path) -> None:
    response = cli("undo", "99")
    assert (response.code, "catchment sources show" in response.err) == (4, True)
