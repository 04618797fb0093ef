"""The life of a source from `up` and `sources add` to `remove` and `down`, through every user command in order."""

from __future__ import annotations

import shutil
import socket
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.person import PROJECT, Person, upright
from tests.waiting import until

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three notes, a damaged PDF, a file that is not valid text, and a file excluded by a rule."""
    folder = tmp_path_factory.mktemp("papers") / "papers"
    (folder / "Bees").mkdir(parents=True)
    (folder / "Bees" / "Hive 03.md").write_text("# Hive 03\n\nThe excluder stays in until August. #bees\n")
    (folder / "Water.md").write_text("# Water\n\nThe gauge stands at the weir, see [[Hive 03]].\n")
    (folder / "plan.txt").write_text("Mend the sluice before the flood.\n")
    (folder / "cut.pdf").write_bytes(b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog >>\n")
    (folder / "logger.dat").write_bytes(bytes(range(256)) * 40)
    (folder / "draft.tmp").write_text("left out")
    return folder


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[Person]:
    """A user with a running server and the folder as the source `papers`, synced every hour, without `*.tmp`."""
    with upright(Person(tmp_path_factory.mktemp("life") / "home")) as person:
        options = ["--name", "papers", "--every", "1h", "--set", 'exclude=["*.tmp"]', "--set", "retry.attempts=2"]
        person("add", "local_files", folder, *options).ok()
        person.sync("papers")
        yield person
    assert person.left() == []


def entry(person: Person) -> int:
    """The job of the only quarantined item."""
    (found,) = person("quarantine", "list", "--json").ok().json
    assert (found["source"], found["item"], found["reason"]) == ("papers", "cut.pdf", "parse_error")
    assert found["attempts"] >= 1
    job: int = found["job"]
    return job


def test_the_source_is_listed_with_its_schedule(person: Person) -> None:
    (listed,) = person("sources", "list", "--json").ok().json
    facts = {name: listed["standing"][name] for name in ("name", "kind", "state", "on")}
    assert facts == {"name": "papers", "kind": "local_files", "state": "active", "on": None}
    shown = person("sources", "show", "papers", "--json").ok().json
    assert (shown["schedule"], shown["settings"]["priority"]) == ("every 1 h", "normal")
    # The server plans runs shortly after the deployment.
    shown = until(
        lambda: person("sources", "show", "papers", "--json").ok().json,
        lambda shown: shown["line"]["standing"]["next_run"],
    )
    assert shown["settings"]["exclude"] == ["*.tmp"]
    assert [sync["outcome"] for sync in shown["syncs"]] == ["completed"]


def test_status_shows_the_state_of_the_source(person: Person) -> None:
    source = person.source("papers")
    assert (source["kind"], source["documents"]) == ("local_files", 3)
    wanted = {"succeeded": 3, "quarantined": 1, "skipped": 1, "running": 0, "pending": 0, "retrying": 0}
    assert source["jobs"].items() >= wanted.items()
    table = person("status").ok().out
    assert "papers" in table
    assert person.running.url in table


def test_search_finds_a_document_that_show_prints(person: Person) -> None:
    (hit,) = person.hits("excluder")
    assert {"document", "title", "source", "item", "snippet", "score"} <= hit.keys()
    assert (hit["title"], hit["source"], hit["item"]) == ("Hive 03", "papers", "Bees/Hive 03.md")
    assert "excluder" in hit["snippet"]
    assert "until August" in person("show", str(hit["document"])).ok().out
    assert "Water" in person("related", str(hit["document"])).ok().out
    assert person.hits("nobodywritesthis") == []


def test_jobs_are_listed_with_their_history(person: Person) -> None:
    listed = person("jobs", "list", "--source", "papers", "--json").ok().json
    assert sorted(job["item"] for job in listed) == [
        "Bees/Hive 03.md",
        "Water.md",
        "cut.pdf",
        "logger.dat",
        "plan.txt",
    ]
    (skipped,) = person("jobs", "list", "--state", "skipped", "--json").ok().json
    assert (skipped["item"], skipped["reason"]) == ("logger.dat", "unsupported")
    done = next(job["job"] for job in listed if job["item"] == "Water.md")
    shown = person("jobs", "show", str(done), "--json").ok().json
    assert [event["event"] for event in shown["history"]] == ["pending", "running", "succeeded"]


def test_quarantine_is_reviewed_noted_counted_and_retried(person: Person) -> None:
    job = str(entry(person))
    assert "parse_error" in person("quarantine", "show", job).ok().out
    person("quarantine", "note", job, "the scanner cuts them off").ok()
    assert person("quarantine", "show", job, "--json").ok().json["notes"][0].endswith("the scanner cuts them off")
    stats = person("quarantine", "stats", "--json").ok().json
    assert stats["sources"] == {"papers": {"parse_error": 1}}
    person("quarantine", "retry", job).ok()
    assert person.source("papers")["jobs"]["pending"] == 1
    person.sync("papers")
    assert entry(person) == int(job)


def test_why_explains_present_and_absent_items(person: Person, folder: Path) -> None:
    def because(path: Path) -> str:
        return person("why", path).ok().out

    assert "in the library as document" in because(folder / "Water.md")
    assert "quarantined (parse_error" in because(folder / "cut.pdf")
    assert "skipped: unsupported" in because(folder / "logger.dat")
    assert "not read (excluded by the source's settings" in because(folder / "draft.tmp")
    assert "the file does not exist" in because(folder / "never.md")
    assert "outside all sources" in because(PROJECT / "README.md")
    person("why", folder.parent / "nothing" / "never.md").refused(4)


def test_a_pause_outlives_down_and_up(person: Person) -> None:
    person("sources", "pause", "papers", "--reason", "tidying up").ok()
    person("sync", "papers", "--wait").refused(5, "paused", "tidying up", "catchment sources resume papers")
    person("down").ok()
    assert person.left() == []
    assert person.source("papers")["state"] == "paused"
    person("sync", "papers").refused(5, "paused")
    with closing(sqlite3.connect(person.home / "ledger.db")) as database:
        # As after an update from a program without search by meaning.
        database.executescript("UPDATE search_model SET space_id = NULL; DELETE FROM embeddings; DELETE FROM spaces;")
    person("up", "--detach").ok()
    assert person.source("papers")["state"] == "paused"
    assert [run for run in person.runs("SCHEDULED", "PENDING", "RUNNING") if run["auto_scheduled"]] == []
    person("sync", "papers").refused(5, "paused")
    person("sources", "resume", "papers").ok()
    assert person.source("papers")["state"] == "active"
    # Prefect plans the runs of a deployment shortly after it is resumed.
    until(lambda: person("sources", "show", "papers", "--json").ok().json["line"]["standing"]["next_run"], bool)


def test_missing_embeddings_are_made_after_up(person: Person) -> None:
    def meaning() -> dict[str, Any]:
        found: dict[str, Any] = person("status", "--json").ok().json["meaning"]
        return found

    until(meaning, lambda found: found["done"] == found["total"] > 0)


def test_blackout_defers_a_sync_until_its_end(person: Person) -> None:
    # It ends before the next run of the schedule.
    now, half_an_hour = datetime.now().astimezone(), timedelta(minutes=30)
    window = f"{now - half_an_hour:%H:%M}-{now + half_an_hour:%H:%M}"
    person("throttle", "set", "papers", "--blackout", window).ok()
    said = person("sync", "papers", "--wait")
    assert (said.code, "blackout" in said.err) == (10, True), said
    (later,) = [run for run in person.runs("SCHEDULED") if run["name"] == "papers: retries"]
    wait = datetime.fromisoformat(later["expected_start_time"]) - datetime.now(UTC)
    assert timedelta(minutes=27) < wait < timedelta(minutes=31)
    person("throttle", "clear", "papers").ok()


def test_sync_after_a_restart_finds_no_changes(person: Person) -> None:
    assert person.sync("papers")["jobs"] == 0


def test_discarded_item_is_skipped_until_it_changes(person: Person, folder: Path) -> None:
    person("quarantine", "discard", str(entry(person)), "--reason", "scanned anew").ok()
    assert person("quarantine", "list", "--json").ok().json == []
    assert person.sync("papers")["jobs"] == 0
    (folder / "cut.pdf").write_bytes((folder / "cut.pdf").read_bytes() + b"2 0 obj\n")
    person.sync("papers")
    entry(person)


def test_configuration_and_ledger_are_sound(person: Person) -> None:
    assert person("config", "validate").ok().out == "sources.yaml: valid, 1 source\n"
    person("config", "show", "--json").ok()
    person("ledger", "check", "--deep").ok()


def test_errors_have_the_documented_exit_codes(person: Person, folder: Path, tmp_path: Path) -> None:
    person("add", "mail", folder, "--name", "other").refused(2)
    person("add", "local_files", folder, "--name", "papers").refused(2, "already")
    person("sync").refused(2)
    person("sync", "paper").refused(4, "did you mean papers?")
    person("show", "no such document").refused(4)
    person("quarantine", "show", "999999").refused(4)
    person("jobs", "show", "999999").refused(4)
    person("deletions", "apply", "papers").refused(4)
    person("sources", "remove", "papers").refused(2, "--yes")
    nobody = Person(tmp_path / "nobody")
    nobody("sync", "papers").refused(4)
    nobody("search", "words").refused(4, "catchment add")
    assert not nobody.home.exists()


def test_removed_source_leaves_no_data(person: Person, folder: Path) -> None:
    person("sources", "remove", "papers", "--yes").ok()
    assert person.hits("excluder") == []
    assert person("jobs", "list", "--json").ok().json == []
    assert person("quarantine", "list", "--json").ok().json == []
    assert person("sources", "list", "--json").ok().json == []
    assert person.runs("SCHEDULED") == []
    person("sync", "papers").refused(4)
    person("ledger", "check", "--deep").ok()
    kept = b"".join(file.read_bytes() for file in person.home.glob("*.db*"))
    assert b"excluder stays in until August" not in kept
    assert (folder / "Water.md").exists()


def test_down_stops_all_processes_and_can_be_repeated(person: Person) -> None:
    port = person.running.port
    assert person("down").ok().out == "stopped\n"
    assert person.left() == []
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))
    assert person("down").ok().out == "Catchment was not running\n"


def test_all_state_is_in_the_home_and_private(person: Person) -> None:
    for path in [person.home, *person.home.rglob("*")]:
        assert path.lstat().st_mode & 0o077 == 0, path.relative_to(person.home)
    shutil.rmtree(person.home)
    assert person("status", "--json").ok().json["sources"] == []


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["status", "--json"], ["add", "--help"]])
def test_a_quick_command_loads_no_prefect(words: list[str], tmp_path: Path) -> None:
    person = Person(tmp_path / "home", before=(sys.executable, "-X", "importtime"))
    said = person(*words)
    assert said.code == 0
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in said.err.splitlines()}
    assert "console" in loaded
    assert not loaded & {"prefect", "xberg", "pydantic"}
