"""The names that `show`, `open`, `related` and `why` take: numbers, paths, file names and titles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console.test_open import ingest

if TYPE_CHECKING:
    from tests.console.conftest import Cli


def test_every_command_takes_a_path_on_the_disk(
    filled: Path, vault: Path, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(vault)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(vault / "Bees")
    expected = cli("show", "Bees/Swarm.md").out
    for path in (str(vault / "Bees/Swarm.md"), "~/Vault/Bees/Swarm.md", "./Swarm.md", f"{tmp_path}/link/Bees/Swarm.md"):
        assert cli("show", path).out == expected
        assert [one["item"] for one in cli("related", path, "--json").json] == ["Hive.md"]
        assert cli("open", path, "--print").out.endswith("Swarm.md\n")
        assert [item["item"] for item in cli("why", path, "--json").json["items"]] == ["Bees/Swarm.md"]


def test_ambiguous_name_is_a_list_and_bad_input(filled: Path, cli: Cli) -> None:
    ingest(filled, "papers", "local_files", "Bees/Swarm.md", {})
    for command in (("show",), ("open", "--print"), ("related", "--json")):
        response = cli(*command, "Bees/Swarm.md")
        first, *choices = response.err.splitlines()
        assert (response.code, response.out) == (2, "")
        assert first == "catchment: 'Bees/Swarm.md': 2 documents have this name; give the number of one"
        assert [line.split(maxsplit=1)[1] for line in choices] == ["papers: Bees/Swarm.md", "notes: Bees/Swarm.md"]
        number = choices[1].split()[0]
        assert cli("show", number).out == cli("show", number.removeprefix("#")).out != ""


def test_whole_path_is_shown_with_a_word_about_the_others(filled: Path, cli: Cli) -> None:
    ingest(filled, "papers", "local_files", "old/Hive.md", {})
    response = cli("show", "Hive.md")
    assert (response.code, "notes: Hive.md" in response.out) == (0, True)
    assert response.err == "Hive.md: also document 3 (papers: old/Hive.md)\n"


def test_unknown_document_is_answered_with_similar_names(filled: Path, cli: Cli) -> None:
    response = cli("show", "Bees/Swram.md")
    assert (response.code, response.out) == (4, "")
    assert response.err == "catchment: 'Bees/Swram.md': no such document; did you mean Bees/Swarm.md?\n"
    response = cli("show", "broken.pdf")
    assert (response.code, "the reason: catchment why broken.pdf" in response.err) == (4, True)
