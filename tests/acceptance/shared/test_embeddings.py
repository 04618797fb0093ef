"""Embeddings after a sync, as a user sees them in Prefect and in `status`."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.notes import generate
from catchment.ledger.library.embeddings import FEW
from deployments.server.client import api
from tests.acceptance.person import Person
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

_EMBED = {"deployments": {"name": {"any_": ["embed"]}}}


def _meaning(person: Person) -> dict[str, Any]:
    found: dict[str, Any] = person("status", "--json").ok().json["meaning"]
    return found


def _is_complete(person: Person) -> bool:
    meaning = _meaning(person)
    return bool(meaning["done"] == meaning["total"] > 0)


def _requested(person: Person) -> list[dict[str, Any]]:
    """Return the runs of `embed` except those of its schedule, newest first."""
    runs = [run for run in person.found("flow_runs", _EMBED) if not run["auto_scheduled"]]
    return sorted(runs, key=lambda run: str(run["expected_start_time"]), reverse=True)


def _active(person: Person) -> list[str]:
    return [run["name"] for run in _requested(person) if run["state_type"] in ("SCHEDULED", "PENDING", "RUNNING")]


def _write(folder: Path, count: int, text: str) -> None:
    for n in range(count):
        (folder / f"{n}.md").write_text(f"{text} {n}\n")


@pytest.fixture
def folder(person: Person, tmp_path: Path) -> Path:
    """The folder of a synced source with one note, after the runs of other tests."""
    until(lambda: _active(person) == [])
    folder = tmp_path / tmp_path.name
    folder.mkdir()
    _write(folder, 1, "The keeper trims wick")
    person("add", "local_files", folder, "--name", folder.name).ok()
    person.sync(folder.name)
    until(lambda: _is_complete(person))
    until(lambda: _active(person) == [])
    return folder


def test_sync_of_many_notes_is_followed_by_a_run_that_embeds_them(person: Person, folder: Path) -> None:
    before = _requested(person)
    _write(folder, FEW + 50, "The keeper lights lamp")
    person.sync(folder.name)
    until(lambda: _is_complete(person))
    until(lambda: _active(person) == [])
    latest = _requested(person)[0]
    assert latest not in before
    assert latest["state_name"] == "Completed"
    assert re.fullmatch(r"embed: [\d,]+ passages", latest["name"])
    assert "Search by meaning: " in person("status").ok().out


def test_saved_note_is_found_by_meaning_without_a_run(person: Person, folder: Path) -> None:
    before = _requested(person)
    (folder / "0.md").write_text("# Hive\n\nThe colony swarmed, because its box was too small.\n")
    person.sync(folder.name)
    until(lambda: _is_complete(person))
    assert _requested(person) == before
    hits = person("search", "--meaning", "insects need more room", "--source", folder.name, "--json").ok().json
    assert hits[0]["title"] == "Hive"


def test_sync_requests_no_run_while_embedding_is_paused_or_off(person: Person, folder: Path) -> None:
    with api(person.running) as client:
        deployment = client.get("/deployments/name/embed/embed").raise_for_status().json()["id"]
        client.post(f"/deployments/{deployment}/pause_deployment").raise_for_status()
        before = _requested(person)
        _write(folder, FEW + 50, "The keeper puts out lamp")
        assert person.sync(folder.name)["succeeded"] == FEW + 50
        assert _requested(person) == before
        client.post(f"/deployments/{deployment}/resume_deployment").raise_for_status()

    person("model", "off").ok()
    _write(folder, FEW + 50, "The keeper repairs lamp")
    assert person.sync(folder.name)["succeeded"] == FEW + 50
    assert _requested(person) == before
    assert "Search by meaning: off" in person("status").ok().out

    person("model", "use").ok()
    until(lambda: _is_complete(person))
    assert len(_requested(person)) == len(before) + 1


def test_cancelled_run_shows_progress_and_the_next_continues(person: Person, tmp_path: Path) -> None:
    until(lambda: _active(person) == [])
    generate(tmp_path / "vault", 400)
    person("add", "obsidian", tmp_path / "vault", "--name", "long-embed").ok()
    person.sync("long-embed")
    name = re.compile(r"embed: [\d,]+ of [\d,]+ passages, \d+ (s|min) left")
    run = until(lambda: _requested(person)[0], lambda run: name.fullmatch(run["name"]))
    with api(person.running) as client:
        state = {"state": {"type": "CANCELLING"}}
        client.post(f"/flow_runs/{run['id']}/set_state", json=state).raise_for_status()
        ended = until(
            lambda: client.get(f"/flow_runs/{run['id']}").raise_for_status().json(),
            lambda run: run["state_type"] not in ("RUNNING", "CANCELLING"),
        )
    assert (ended["state_type"], ended["name"].partition(" after ")[0]) == ("CANCELLED", "embed: stopped")
    before = _meaning(person)
    assert 0 < before["done"] < before["total"]
    person("model", "use").ok()
    until(lambda: _meaning(person)["done"] > before["done"])
    # Its remaining passages would slow down the tests that follow.
    person("sources", "remove", "long-embed", "--yes").ok()


def test_killed_embedding_process_is_followed_by_a_run_that_completes(person: Person, tmp_path: Path) -> None:
    until(lambda: _active(person) == [])
    before = len(_requested(person))
    generate(tmp_path / "vault", 150)
    person("add", "obsidian", tmp_path / "vault", "--name", "killed-embed").ok()
    person.sync("killed-embed")
    process = until(lambda: _embedding_process(person))
    until(lambda: not process.is_running() or _meaning(person)["done"] > 0)
    process.kill()
    until(lambda: _is_complete(person))
    until(lambda: _active(person) == [])
    runs = _requested(person)
    assert [run["state_name"] for run in runs[: len(runs) - before]] == ["Completed", "Crashed"]
    findings = {one["probe"]: one for one in person("health", "--json").json["findings"]}
    assert findings["embeddings"]["verdict"] == "ok"
    person("sources", "remove", "killed-embed", "--yes").ok()


def _embedding_process(person: Person) -> psutil.Process | None:
    below = psutil.Process(person.running.worker_pid).children(recursive=True)
    with suppress(psutil.NoSuchProcess):
        return next((process for process in below if "catchment.search.meaning" in process.cmdline()), None)
    return None
