"""`catchment prove`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catchment.runtime.home import Home
from catchment.runtime.membership import Membership
from console import session
from deployments.actions.desk import Desk

if TYPE_CHECKING:
    from tests.console.conftest import Cli


def test_a_source_is_proved_and_what_differs_is_queued(
    cli: Cli, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    assert cli("add", "local_files", str(folder), "--name", "papers").code == 0
    response = cli("prove", "papers")
    assert (response.code, response.out.splitlines()[-1]) == (
        0,
        "papers: the library matches the source",
    )
    assert "0 texts compared with a fresh parse" in cli("prove", "papers", "--deep").out
    (folder / "weir.md").write_text("The weir")
    response = cli("prove", "papers")
    assert response.code == 1 and "prove papers --repair" in response.err
    assert ["missing", "weir.md"] in [line.split()[:2] for line in response.out.splitlines()]
    told = cli("prove", "papers", "--json")
    assert told.code == 1 and told.json["holds"] is False
    [folder_proof] = told.json["folders"]
    assert folder_proof == {
        "name": "",
        "source": 1,
        "ledger": 0,
        "library": 0,
        "set_apart": 0,
        "flaws": {"missing": 1},
        "digest": "",
        "unknown": False,
    }
    response = cli("prove", "papers", "--repair")
    assert response.code == 0 and "differing items queued; process them with `catchment sync papers`" in response.out
    assert cli("prove", "papers", "--json").json["findings"] == [
        {"flaw": "waiting", "item": "weir.md", "why": "queued"}
    ]
    asked: list[object] = []
    monkeypatch.setattr("console.session.running", object)
    monkeypatch.setattr(Desk, "start", lambda _, *words, **__: asked.append(words))
    assert "sync requested" in cli("prove", "papers", "--repair").out
    assert asked == [("local_files", "papers")]
    assert cli("prove", "paper").code == 4


@pytest.mark.parametrize("words", [("prove", "papers", "--repair"), ("plan", "papers"), ("sources", "test", "papers")])
def test_source_of_another_host_is_not_compared_with_the_same_path_here(
    cli: Cli, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    assert cli("add", "local_files", str(tmp_path), "--name", "papers").code == 0
    Membership("attic", "https://library.lan", "file:/login").record(Home(state))
    entry = replace(session.desk().entry("papers"), queue="host-barn")
    monkeypatch.setattr(Desk, "entry", lambda *_: entry)
    refused = cli(*words)
    assert (refused.code, refused.err) == (5, "catchment: papers: runs on barn; run the command there\n")
