"""A low inotify limit, enforced by the kernel in a user namespace."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.runtime.watch_status import WatchReport
from tests.acceptance import document
from tests.acceptance.accidents import FREQUENT_CHECKS
from tests.acceptance.person import COMMAND, PROJECT, Person, upright
from tests.hits import find_hits
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

_LIMIT = Path("/proc/sys/user/max_inotify_watches")
_ALLOWED = 10
_FOLDERS = 30
_RUNBOOK = "Too many folders to watch (`watch.limited`)"


def allow(number: int) -> str:
    return f"echo {number} > {_LIMIT}"


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """A user with root rights in a user namespace that is limited to ten watched folders."""
    before = ("unshare", "--user", "--map-root-user", "sh", "-c", f'{allow(_ALLOWED)} && exec "$@"', "sh")
    with upright(Person(tmp_path_factory.mktemp("limits") / "home", before, FREQUENT_CHECKS)) as person:
        yield person
    assert person.left() == []


def test_folders_beyond_the_watch_limit_are_reported_and_watched_later(person: Person, tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    (vault / ".obsidian").mkdir(parents=True)
    for number in range(_FOLDERS):
        (vault / f"{number:02}").mkdir()
        (vault / f"{number:02}" / "note.md").write_text(f"Note {number}")
    person("add", "obsidian", vault, "--name", "papers", "--every", "1d", "--watch").ok()
    until(lambda: person.source("papers")["documents"], lambda documents: documents == _FOLDERS)

    watch = until(lambda: watched(person), lambda watch: watch["state"] == "limited")
    assert "limit of inotify watches" in watch["reason"] and "max_user_watches" in watch["remedy"]
    (vault / "top.md").write_text("zqtop is told by the kernel")
    until(lambda: found(person, "zqtop"), lambda items: items == ["top.md"])

    for number in range(_FOLDERS):
        (vault / f"{number:02}" / "note.md").write_text(f"zqeach {number}")
    person.sync_when_ready("papers")
    assert len(found(person, "zqeach")) == _FOLDERS, "what was not told is not found"

    assert document.carry_out(PROJECT / "docs" / "runbooks.md", raising(person, tmp_path), tmp_path, under=_RUNBOOK)
    (vault / f"{_FOLDERS - 1:02}" / "note.md").write_text("zqlast is watched now")
    until(lambda: found(person, "zqlast"), bool)


def raising(person: Person, folder: Path) -> dict[str, str]:
    """Return an environment with a `sudo` that raises the limit of the namespace and waits until the watcher notices."""
    (folder / "bin").mkdir()
    sudo = folder / "bin" / "sudo"
    inside = f"nsenter --user --preserve-credentials --target {person.running.pid}"
    seen = f"while grep -q limited {shlex.quote(str(WatchReport.path(Home(person.home))))}; do sleep 1; done"
    sudo.write_text(f"#!/bin/sh\n{inside} sh -c '{allow(10_000)}'\n{seen}\n")
    sudo.chmod(0o700)
    path = os.pathsep.join([str(sudo.parent), str(COMMAND.parent), os.environ["PATH"]])
    return person.environment | {"PATH": path}


def watched(person: Person) -> dict[str, Any]:
    """Return the state of the vault's watch as the watcher reports it."""
    return person.source("papers")["watch"] or {"state": "not yet"}


def found(person: Person, word: str) -> list[str]:
    with closing(Ledger.inspect(Home(person.home).database_url)) as ledger:
        return sorted(hit.item for hit in find_hits(ledger, word, limit=100))
