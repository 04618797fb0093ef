"""Problems on the user's machine: one line with the remedy, the documented exit code, and no data loss."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.notes import generate
from tests.acceptance.accidents import UNHURRIED
from tests.acceptance.person import Person, upright, without_meaning
from tests.acceptance.small_disk import small_disk, within
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

_NOTES = 1_500


@pytest.fixture
def alone(tmp_path: Path) -> Person:
    """A user without running processes."""
    return Person(tmp_path / "home")


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    (folder / ".obsidian").mkdir(parents=True)
    (folder / "bees.md").write_text("# Bees\n\nThe excluder stays in.\n")
    return folder


def fill(person: Person, folder: str = ".", free: str = "0") -> None:
    """Fill the disk of a folder in the home except for the size `free`."""
    file = f"{person.home}/{folder}/fill"
    within(person, "dd", "if=/dev/zero", f"of={file}", "bs=4k", check=False)
    within(person, "truncate", f"--size=-{free}", file)


def nothing_was_added(person: Person) -> None:
    assert person("sources", "list", "--json").ok().json == []


def test_missing_path(alone: Person, tmp_path: Path) -> None:
    alone("add", "local_files", tmp_path / "notthere", "--name", "papers").refused(2, "notthere")
    nothing_was_added(alone)


def test_file_in_place_of_a_folder(alone: Person, vault: Path) -> None:
    alone("add", "local_files", vault / "bees.md", "--name", "papers").refused(2, "bees.md", "folder")
    nothing_was_added(alone)


def test_unreadable_folder(alone: Person, vault: Path) -> None:
    # Without capabilities root is subject to the folder's permissions.
    person = Person(alone.home, before=powerless())
    vault.chmod(0)
    try:
        person("add", "local_files", vault, "--name", "papers").refused(3, "permission denied")
        nothing_was_added(person)
    finally:
        vault.chmod(0o700)


def test_read_only_home(alone: Person, vault: Path, tmp_path: Path) -> None:
    person = Person(tmp_path / "locked" / "home", before=powerless())
    (tmp_path / "locked").mkdir(mode=0o500)
    person("add", "obsidian", vault, "--name", "notes").refused(3)
    person("status").ok()


def test_a_vault_without_its_obsidian_folder(alone: Person, vault: Path) -> None:
    (vault / ".obsidian").rmdir()
    alone("add", "obsidian", vault, "--name", "notes").refused(2, ".obsidian", "local_files")
    nothing_was_added(alone)


def test_duplicate_source_name(alone: Person, vault: Path) -> None:
    alone("add", "obsidian", vault, "--name", "notes").ok()
    alone("add", "local_files", vault, "--name", "notes").refused(2, "already")
    (listed,) = alone("sources", "list", "--json").ok().json
    assert listed["standing"]["kind"] == "obsidian"


def test_a_setting_that_does_not_exist(alone: Person, vault: Path) -> None:
    alone("add", "obsidian", vault, "--name", "notes", "--set", "exclud=x").refused(2, "exclude")
    nothing_was_added(alone)


def test_an_unknown_key_in_the_file_of_the_sources(alone: Person, vault: Path) -> None:
    alone("add", "obsidian", vault, "--name", "notes").ok()
    file = alone.home / "sources.yaml"
    written = file.read_text()
    wrong = written.replace("root:", "rot:")
    file.write_text(wrong)
    line = next(number for number, text in enumerate(wrong.splitlines(), 1) if "rot:" in text)
    for words in (["config", "validate"], ["sources", "list"], ["sync", "notes"]):
        alone(*words).refused(2, "sources.yaml", f"line {line}", "root")
    assert file.read_text() == wrong
    file.write_text(written)
    alone("config", "validate").ok()


def test_server_that_is_down(alone: Person, vault: Path) -> None:
    alone("add", "obsidian", vault, "--name", "notes").ok()
    alone("sync", "notes", "--wait").refused(10, "catchment up")
    alone("status").ok()
    alone("sources", "pause", "notes").ok()


@pytest.mark.parametrize("options", [[], ["--detach"]])
def test_port_in_use(alone: Person, options: list[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        alone("up", *options, "--port", str(port)).refused(10, str(port), "--port")
    assert alone.left() == []


@pytest.mark.parametrize("damage", ["header", "middle", "cut", "text"])
def test_a_damaged_ledger_is_left_as_it_is(alone: Person, vault: Path, damage: str) -> None:
    alone("add", "obsidian", vault, "--name", "notes").ok()
    file = alone.home / "ledger.db"
    data = bytearray(file.read_bytes())
    match damage:
        case "header":
            data[:100] = os.urandom(100)
        case "middle":
            data[4096:] = os.urandom(len(data) - 4096)
        case "cut":
            del data[len(data) // 2 :]
        case "text":
            data[:] = b"this was a ledger\n" * 1000
    for rest in alone.home.glob("ledger.db-*"):
        rest.unlink()
    file.write_bytes(data)
    for words in (["status"], ["search", "bees"], ["sources", "pause", "notes"], ["ledger", "check"]):
        alone(*words).refused(1, "ledger", "backup")
    assert file.read_bytes() == data


def test_a_full_disk_when_a_source_is_added(small: Person, vault: Path) -> None:
    small("sources", "list").ok()
    fill(small)
    small("add", "obsidian", vault, "--name", "notes").refused(10, "disk is full", "try again")
    within(small, "rm", f"{small.home}/fill")
    nothing_was_added(small)
    small("add", "obsidian", vault, "--name", "notes").ok()
    small("ledger", "check", "--deep").ok()


def test_full_disk_permits_read_only_commands(small: Person, vault: Path) -> None:
    small("add", "obsidian", vault, "--name", "notes").ok()
    fill(small)
    small("sources", "pause", "notes").refused(10, "disk is full", "try again")
    assert small.source("notes")["documents"] == 0
    small("search", "bees").ok()


@pytest.fixture(scope="module")
def filling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """A user with a running system on a disk of 100 MB."""
    home = tmp_path_factory.mktemp("filling") / "home"
    with (
        small_disk(home, megabytes=100) as disk,
        upright(without_meaning(replace(disk, variables=UNHURRIED))) as person,
    ):
        yield person


def test_temporarily_full_disk_under_a_running_system(filling: Person, tmp_path: Path) -> None:
    notes = 100
    generate(tmp_path / "papers", notes)
    filling("add", "obsidian", tmp_path / "papers", "--name", "papers", "--set", "preset=local").ok()
    filling("sync", "papers").ok()
    until(lambda: filling.source("papers")["documents"])
    fill(filling)
    time.sleep(10)
    assert filling.source("papers")["documents"] < notes
    within(filling, "rm", f"{filling.home}/fill")
    until(lambda: filling.source("papers")["documents"], lambda found: found == notes)
    filling("ledger", "check", "--deep").ok()


def test_a_disk_that_fills_while_a_sync_writes(filling: Person, tmp_path: Path) -> None:
    generate(tmp_path / "big", _NOTES)
    filling("add", "obsidian", tmp_path / "big", "--name", "notes").ok()
    fill(filling, free="3M")
    said = filling("sync", "notes", "--wait")
    assert filling.source("notes")["documents"] < _NOTES
    filling("ledger", "check", "--deep").ok()

    within(filling, "rm", f"{filling.home}/fill")
    filling("up", "--detach").ok()
    filling.sync_when_ready("notes")
    assert filling.source("notes")["documents"] == _NOTES
    filling("ledger", "check", "--deep").ok()
    filling("down").ok()
    assert filling.left() == []
    assert said.code in (1, 10), said
    assert "full" in said.err.splitlines()[-1], said


def test_full_backup_disk_leaves_no_partial_backup(tmp_path: Path, vault: Path) -> None:
    with small_disk(tmp_path / "home", folder="backups", megabytes=1) as person:
        person("add", "obsidian", vault, "--name", "notes").ok()
        fill(person, "backups")
        person("backup").refused(10, "disk is full", "try again")
        person("ledger", "check", "--deep").ok()
        within(person, "sh", "-c", f'test "$(ls -A {person.home}/backups)" = fill')
        within(person, "rm", f"{person.home}/backups/fill")
        person("backup").ok()


def test_read_only_disk_permits_read_only_commands(tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "gauge.md").write_text("# Gauge\n\nThe barometer falls.\n")
    with small_disk(tmp_path / "100 % mine") as person:
        with upright(person):
            person("add", "local_files", tmp_path / "papers", "--name", "papers").ok()
            person.sync("papers")
        within(person, "mount", "-o", "remount,ro", str(person.home))
        person("sources", "pause", "papers").refused(10, "read-only", "mount it for writing")
        assert person.source("papers")["documents"] == 1
        (hit,) = person.hits("barometer")
        assert "The barometer falls." in person("show", hit["item"]).ok().out
        within(person, "mount", "-o", "remount,rw", str(person.home))
        person("sources", "pause", "papers").ok()


def test_home_path_that_no_url_can_represent_is_refused(tmp_path: Path) -> None:
    Person(tmp_path / "what?")("sources", "list").refused(2, "question mark", "rename")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Person]:
    with small_disk(tmp_path / "home") as person:
        yield person


def powerless() -> tuple[str, ...]:
    """Return the command prefix that makes root subject to file permissions; empty for other users."""
    if os.getuid() != 0:
        return ()
    setpriv = shutil.which("setpriv")
    assert setpriv, "setpriv is missing; on Debian: apt install util-linux"
    return (setpriv, "--bounding-set=-all", "--inh-caps=-all", "--")
