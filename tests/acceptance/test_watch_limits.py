"""A user who may watch only a few folders: the kernel itself refuses, in a user namespace whose limit is low."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from catchment.home import Home
from catchment.ledger import Ledger
from tests.acceptance.person import Person, upright
from tests.waiting import until

pytestmark = pytest.mark.acceptance

_LIMIT = Path("/proc/sys/user/max_inotify_watches")
_ALLOWED = 10
_FOLDERS = 30


def allow(number: int) -> str:
    return f"echo {number} > {_LIMIT}"


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """A person who is root in a world of their own, in which a user may watch ten folders."""
    before = ("unshare", "--user", "--map-root-user", "sh", "-c", f'{allow(_ALLOWED)} && exec "$@"', "sh")
    with upright(Person(tmp_path_factory.mktemp("limits") / "home", before)) as person:
        yield person
    assert person.left() == []


def test_what_is_beyond_the_limit_is_told_found_by_the_schedule_and_watched_when_the_limit_is_raised(
    person: Person, tmp_path: Path
) -> None:
    vault = tmp_path / "vault"
    (vault / ".obsidian").mkdir(parents=True)
    for number in range(_FOLDERS):
        (vault / f"{number:02}").mkdir()
        (vault / f"{number:02}" / "note.md").write_text(f"Note {number}")
    person("sources", "add", "obsidian", vault, "--name", "notes", "--every", "1d", "--watch").ok()
    until(lambda: person.source("notes")["documents"], lambda documents: documents == _FOLDERS)

    watch = until(lambda: watched(person), lambda watch: watch["state"] == "limited")
    assert "may watch no further folder" in watch["reason"] and "max_user_watches" in watch["remedy"]
    (vault / "top.md").write_text("zqtop is told by the kernel")
    until(lambda: found(person, "zqtop"), lambda items: items == ["top.md"])

    for number in range(_FOLDERS):
        (vault / f"{number:02}" / "note.md").write_text(f"zqeach {number}")
    person.sync_when_ready("notes")
    assert len(found(person, "zqeach")) == _FOLDERS, "what was not told is not found"

    inside = ("nsenter", "--user", "--preserve-credentials", "--target", str(person.running.pid))
    subprocess.run([*inside, "sh", "-c", allow(10_000)], check=True)
    until(lambda: watched(person), lambda watch: watch["state"] == "watching")
    (vault / f"{_FOLDERS - 1:02}" / "note.md").write_text("zqlast is watched now")
    until(lambda: found(person, "zqlast"), bool)


def watched(person: Person) -> dict[str, Any]:
    """How the watcher says that it watches the vault."""
    return person.source("notes")["watch"] or {"state": "not yet"}


def found(person: Person, word: str) -> list[str]:
    with closing(Ledger.inspect(Home(person.home).database_url)) as ledger:
        return sorted(hit.item for hit in ledger.library.search(word, limit=100))
