"""Commands that change two files and are killed in between: the next one finishes, and `status` and `doctor` name it."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from catchment.ledger import Ledger
from catchment.ledger.admin import backup as copies
from catchment.model import Priority
from catchment.runtime import atomic_files
from catchment.runtime.home import Home
from console import session
from console.data import backup
from deployments.actions import sources
from deployments.sources.sources_file import SourcesFile

if TYPE_CHECKING:
    from tests.console.conftest import Cli

_NAMES = ("replace", "rename", "unlink", "mkdir", "fsync")


def _killed(act: Callable[[], object], number: int) -> bool:
    """Call a function in a forked process that is killed before its file operation `number`. Returns whether it was."""
    child = os.fork()
    if child == 0:
        left = [number]

        def fatal(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **named: Any) -> Any:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*arguments, **named)

            return call

        for name in _NAMES:
            setattr(os, name, fatal(getattr(os, name)))
        try:
            act()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def _state(home: Path) -> tuple[list[str], list[str]]:
    """Return the sources of the ledger and of sources.yaml."""
    with closing(Ledger.inspect(Home(home).database_url)) as ledger:
        listed = [source.name for source in ledger.sources.all()]
    return listed, [entry.name for entry in SourcesFile.load(home / "sources.yaml").entries]


def _findings(cli: Cli, probe: str) -> list[dict[str, str]]:
    return [one for one in cli("doctor", "--json").json["findings"] if one["probe"] == probe]


@pytest.fixture
def other(cli: Cli, filled: Path, tmp_path: Path) -> Path:
    """A home without the source `notes`, and its backup `kept.db` with it."""
    assert cli("backup", str(tmp_path / "kept.db")).code == 0
    assert cli("sources", "remove", "notes", "--yes").code == 0
    return filled


def _kill_a_restore(copy: Path) -> None:
    """Kill a restore when it has replaced the ledger, and not sources.yaml."""
    child = os.fork()
    if child == 0:
        copies._put_back = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        try:
            backup.restore(copy)
        finally:
            os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_killed_restore_is_named_and_finished_by_the_next_command(cli: Cli, other: Path, tmp_path: Path) -> None:
    _kill_a_restore(tmp_path / "kept.db")
    assert _state(other) == (["notes"], [])
    assert "interrupted restore" in cli("status").out
    assert [one["verdict"] for one in _findings(cli, "restore")] == ["fail"]
    edited = (other / "sources.yaml").read_text() + "# edited since\n"
    atomic_files.write(other / "sources.yaml", edited.encode())
    said = cli("sources", "resume", "notes").err
    assert "an interrupted restore was finished" in said
    assert _state(other) == (["notes"], ["notes"])
    (kept,) = other.glob("sources.yaml.replaced-*")
    assert kept.read_text() == edited and str(kept) in said
    assert _findings(cli, "restore") == []


def test_backup_of_an_unfinished_restore_holds_its_files(cli: Cli, other: Path, tmp_path: Path) -> None:
    _kill_a_restore(tmp_path / "kept.db")
    assert cli("backup", str(tmp_path / "again.db")).code == 0
    assert cli("restore", str(tmp_path / "again.db")).code == 0
    assert _state(other) == (["notes"], ["notes"])


@pytest.mark.faults
@pytest.mark.long
def test_restore_killed_anywhere_is_finished_or_has_no_effect(cli: Cli, other: Path, tmp_path: Path) -> None:
    assert cli("audit", "export", str(tmp_path / "audit.tar")).code == 0
    before = shutil.copytree(other, tmp_path / "before")
    seen = []
    is_killed = True
    while is_killed:
        shutil.rmtree(other)
        shutil.copytree(before, other)
        is_killed = _killed(lambda: backup.restore(tmp_path / "kept.db"), len(seen) + 1)
        seen.append(_state(other))
        told = cli("audit", "verify", "--json")
        assert (told.code, len(told.json["restored"])) == (0, len(seen[-1][0]))
        listed, written = seen[-1]
        if listed != written:
            assert "an interrupted restore was finished" in cli("sources", "resume", "notes").err
            assert _state(other) == (["notes"], ["notes"])
    assert seen[-1] == (["notes"], ["notes"])
    assert ([], []) in seen
    assert (["notes"], []) in seen


def _differences(cli: Cli) -> dict[str, tuple[str, str]]:
    found = cli("doctor", "--json").json["findings"]
    return {one["probe"]: (one["verdict"], one["remedy"]) for one in found if one["probe"].startswith("source ")}


def test_doctor_names_each_difference_between_file_and_library(cli: Cli, filled: Path) -> None:
    assert _differences(cli) == {}
    file = filled / "sources.yaml"
    text = file.read_text()
    file.write_text(re.sub(r"\bnotes\b", "letters", text))
    assert _differences(cli) == {
        "source notes": ("fail", "add it to sources.yaml again, or: catchment sources remove notes"),
        "source letters": ("warn", "catchment up --detach, then: catchment sync letters --wait"),
    }
    file.write_text(text)
    with closing(Ledger.inspect(Home(filled).database_url)) as ledger:
        ledger.sources.put("post", "imap", Priority.NORMAL)
        ledger.sources.begin_removal("post", "operator")
    assert _differences(cli) == {
        "source post": ("fail", "add it to sources.yaml again, or: catchment sources remove post")
    }


@pytest.mark.faults
def test_removal_killed_anywhere_is_named_and_finished(cli: Cli, filled: Path, tmp_path: Path) -> None:
    before = shutil.copytree(filled, tmp_path / "before")
    named = 0
    number, is_killed = 0, True
    while is_killed:
        number += 1
        shutil.rmtree(filled)
        shutil.copytree(before, filled)
        is_killed = _killed(lambda: sources.remove(session.desk(), "notes", "operator"), number)
        listed, written = _state(filled)
        if listed != written:
            named += 1
            assert "being removed" in cli("status").out
        if listed:
            assert cli("sources", "remove", "notes", "--yes").code == 0
        assert _state(filled) == ([], [])
    assert named > 0
