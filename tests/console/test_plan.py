"""`catchment plan`, and the parts of `sync --plan` that need no server."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deployments.actions.desk import Desk

if TYPE_CHECKING:
    from tests.console.conftest import Cli


@pytest.fixture
def papers(cli: Cli, tmp_path: Path) -> Path:
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "weir.md").write_text("The weir")
    (folder / "huge.bin").touch()
    with (folder / "huge.bin").open("wb") as file:
        file.truncate(200_000_000)
    assert cli("add", "local_files", str(folder), "--name", "papers").code == 0
    return folder


def test_a_plan_is_told_to_a_person_and_to_a_script(cli: Cli, papers: Path) -> None:
    response = cli("plan", "papers")
    assert response.code == 0
    lines = [line.split() for line in response.out.splitlines()]
    assert ["add", "1", "8", "B"] in lines and ["add", "weir.md"] in lines
    assert ["skip", "huge.bin", "too_large"] in lines
    assert "first sync" in response.out
    told = cli("plan", "papers", "--json").json
    assert told["totals"] == [
        {"action": "add", "number": 1, "size": 8},
        {"action": "skip", "number": 1, "size": 0},
    ]
    assert cli("status", "--json").json["sources"][0]["documents"] == 0
    assert cli("plan", "paper").code == 4


def test_a_plan_of_a_root_that_is_gone_says_so(cli: Cli, papers: Path) -> None:
    papers.rename(papers.with_name("moved"))
    response = cli("plan", "papers")
    assert (response.code, len(response.err.splitlines())) == (10, 1)


def test_a_sync_is_asked_to_follow_a_plan_that_is_kept_for_it(
    cli: Cli, papers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    file = tmp_path / "plan.json"
    response = cli("plan", "papers", "--deep", "--out", str(file))
    assert f"catchment sync papers --plan {file}" in response.out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    asked: dict[str, object] = {}
    monkeypatch.setattr("console.session.needs_server", lambda: type("Server", (), {"url": "http://here"}))
    monkeypatch.setattr(Desk, "start", lambda *_words, **named: asked.update(named) or "run")
    assert cli("sync", "papers", "--plan", str(file)).code == 0
    [kept] = (state / "plans").iterdir()
    assert asked == {"deep": True, "plan": kept.stem}
    assert json.loads(kept.read_text()) == json.loads(file.read_text())
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    file.write_text("[]")
    assert cli("sync", "papers", "--plan", str(file)).code == 2
    file.unlink()
    assert cli("sync", "papers", "--plan", str(file)).code == 4


def test_a_plan_is_for_its_owner_alone_whatever_was_there_and_may_have_any_name(
    cli: Cli, papers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "my plan"
    file.touch()
    file.chmod(0o644)
    link = tmp_path / "link"
    link.symlink_to(file)
    with file.open() as opened_before:
        response = cli("plan", "papers", "--out", "~/my plan")
        assert opened_before.read() == "", "who may read what was there may not read the plan"
        assert cli("plan", "papers", "--out", str(link)).code == 0
        assert link.is_symlink()
    nowhere = cli("plan", "papers", "--out", str(tmp_path / "none" / "plan"))
    assert (nowhere.code, "none: no such folder" in nowhere.err) == (2, True)
    assert "catchment sync papers --plan '~/my plan'`" in response.out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["source"] == "papers"
    assert cli("sync", "papers", "--plan", "~/my plan").code == 10, "it was found, and no server runs"
