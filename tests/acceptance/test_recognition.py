"""Text on pictures, as a user finds it who installs Tesseract, removes it and installs it again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from deployments.server.client import api
from tests.acceptance.person import Person, upright, without_meaning
from tests.pictures.scans import Programs, png, scan, scanned
from tests.waiting import until

pytestmark = [pytest.mark.acceptance]

_RECOGNIZE = {"deployments": {"name": {"any_": ["recognize"]}}}
_PACKAGE = "Tesseract is not installed; on Debian: sudo apt install tesseract-ocr"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(tmp_path_factory.mktemp("recognition") / "programs")


@pytest.fixture(scope="module")
def folder(programs: Programs) -> Path:
    """A folder with a scan of two pages, a photograph with text, and a note."""
    folder = programs.folder.with_name("papers")
    folder.mkdir()
    (folder / "receipt.pdf").write_bytes(scanned("Receipt for seven quinces", "Paid by the keeper"))
    (folder / "photo.png").write_bytes(png(scan("Harbour regulations")))
    (folder / "note.md").write_text("# Quinces\n\nThe receipt is typed here.\n")
    return folder


@pytest.fixture(scope="module")
def person(programs: Programs, folder: Path) -> Iterator[Person]:
    """A user who has no other program than the substitute of Tesseract, with the folder as the source `papers`."""
    home = programs.folder.with_name("home")
    with upright(without_meaning(Person(home, variables={"PATH": str(programs.folder)}))) as person:
        person("add", "local_files", folder, "--name", "papers").ok()
        person.sync("papers")
        yield person
    assert person.left() == []


def _status(person: Person) -> dict[str, Any]:
    found: dict[str, Any] = person("status", "--json").ok().json["recognition"]
    return found


def _is_found(person: Person, phrase: str) -> bool:
    return bool(person.hits(f'"{phrase}"'))


def _runs(person: Person) -> list[dict[str, Any]]:
    """Return the runs of `recognize` except those of its schedule, newest first."""
    runs = [run for run in person.found("flow_runs", _RECOGNIZE) if not run["auto_scheduled"]]
    return sorted(runs, key=lambda run: str(run["expected_start_time"]), reverse=True)


def _is_idle(person: Person) -> bool:
    return not any(run["state_type"] in ("SCHEDULED", "PENDING", "RUNNING") for run in _runs(person))


def _add(person: Person, folder: Path, name: str, *pages: str) -> None:
    until(lambda: _is_idle(person))
    (folder / name).write_bytes(scanned(*pages))
    person.sync("papers")


def _finding(person: Person, command: str = "health") -> dict[str, Any]:
    (found,) = [one for one in person(command, "--json").json["findings"] if one["probe"] == "recognition"]
    return dict(found)


def _pages(person: Person) -> set[str]:
    """Return the lines of `/metrics` about pages."""
    token = (person.home / "metrics-token").read_text().strip()
    url, headers = f"{person.running.page_url}/metrics", {"Authorization": f"Bearer {token}"}
    text = httpx.get(url, headers=headers, trust_env=False).raise_for_status().text
    return {line for line in text.splitlines() if line.startswith("catchment_pages{")}


def test_scan_in_a_folder_is_found_by_its_text_without_a_command(person: Person) -> None:
    until(lambda: _is_found(person, "seven quinces") and _is_found(person, "harbour regulations"))
    assert {hit["item"] for hit in person.hits("receipt")} == {"note.md", "receipt.pdf"}
    assert [hit["item"] for hit in person.hits("receipt has:recognized")] == ["receipt.pdf"]
    until(lambda: _is_idle(person))
    first = _runs(person)[-1]
    assert (first["state_name"], first["name"]) == ("Completed", "recognize: 3 pages")
    assert _status(person) == {"setting": "auto", "done": 3, "total": 3, "languages": [], "reason": ""}
    assert "text recognition: 3 of 3 pages" in person("status").ok().out.lower()
    finding = _finding(person)
    assert (finding["verdict"], finding["message"]) == ("ok", "text recognition: 3 of 3 pages")
    until(
        lambda: _pages(person),
        lambda lines: lines == {'catchment_pages{state="recognized"} 3.0', 'catchment_pages{state="waiting"} 0.0'},
    )
    assert person("ledger", "check").ok()


def test_no_page_is_read_while_recognition_is_off(person: Person, folder: Path, programs: Programs) -> None:
    person("recognition", "off").ok()
    before, calls = _runs(person), programs.calls()
    _add(person, folder, "off.pdf", "Written while it was off")
    assert (_runs(person), programs.calls()) == (before, calls)
    status = _status(person)
    assert (status["setting"], status["done"], status["total"]) == ("off", 3, 4)
    assert "catchment recognition auto" in status["reason"]
    person("recognition", "auto").ok()
    until(lambda: _is_found(person, "while it was off"))


def test_no_run_is_requested_while_the_deployment_is_paused(person: Person, folder: Path) -> None:
    until(lambda: _is_idle(person))
    with api(person.running) as client:
        deployment = client.get("/deployments/name/recognize/recognize").raise_for_status().json()["id"]
        client.post(f"/deployments/{deployment}/pause_deployment").raise_for_status()
        before = _runs(person)
        _add(person, folder, "paused.pdf", "Written while it was paused")
        assert "is paused" in person("recognition", "auto").ok().err
        assert _runs(person) == before
        client.post(f"/deployments/{deployment}/resume_deployment").raise_for_status()
    person("recognition", "auto").ok()
    until(lambda: _is_found(person, "while it was paused"))


def test_without_tesseract_the_package_is_named_and_all_else_works(
    person: Person, folder: Path, programs: Programs
) -> None:
    until(lambda: _is_idle(person))
    programs.remove()
    _add(person, folder, "missing.pdf", "Written while it was missing")
    until(lambda: _is_idle(person))
    latest = _runs(person)[0]
    assert (latest["state_name"], latest["name"]) == ("Skipped", "recognize: off")
    assert _status(person)["reason"] == _PACKAGE
    for command in ("health", "check"):
        finding = _finding(person, command)
        assert (finding["verdict"], finding["message"].partition("; ")[2]) == ("ok", _PACKAGE)
    assert _is_found(person, "seven quinces")
    assert person("quarantine", "list", "--json").ok().json == []
    programs.install()
    person("recognition", "auto").ok()
    until(lambda: _is_found(person, "while it was missing"))


def test_killed_processes_lose_no_page_and_repeat_at_most_one(person: Person, folder: Path, programs: Programs) -> None:
    for number, kill in enumerate((_kill_process, _kill_runner)):
        until(lambda: _is_idle(person))
        before = len(programs.calls())
        pages = [f"!slow Page {page} of life {number}" for page in range(4)]
        _add(person, folder, f"killed {number}.pdf", *pages)
        until(lambda before=before: len(programs.calls()) >= before + 2)
        kill(person)
        phrases = [f"page {page} of life {number}" for page in range(len(pages))]
        until(lambda phrases=phrases: all(_is_found(person, phrase) for phrase in phrases), seconds=120)
        assert len(programs.calls()) - before <= len(pages) + 1
    until(lambda: _is_idle(person))
    assert {"Crashed", "Completed"} <= {run["state_name"] for run in _runs(person)}
    status = _status(person)
    assert status["done"] == status["total"]
    person("ledger", "check", "--deep").ok()


def _below(person: Person, words: str) -> psutil.Process:
    for process in psutil.Process(person.running.worker_pid).children(recursive=True):
        with suppress(psutil.Error):
            if words in " ".join(process.cmdline()):
                return process
    raise AssertionError(f"no process of {words}")


def _kill_process(person: Person) -> None:
    _below(person, "deployments.ocr").kill()


def _kill_runner(person: Person) -> None:
    _below(person, "deployments.ocr").parent().kill()  # type: ignore[union-attr]


def test_withdrawn_consent_leaves_no_byte_of_the_recognized_text(person: Person, folder: Path) -> None:
    _add(person, folder, "secret.pdf", "Chrysanthemum", "!slow Rhododendron")
    person("consent", "revoke", "papers", "--yes").ok()
    until(lambda: _is_idle(person))
    left = [
        str(path)
        for path, data in person.files()
        for word in (b"Chrysanthemum", b"Rhododendron", b"quinces")
        if word in data
    ]
    assert left == []
