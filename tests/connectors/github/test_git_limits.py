"""Git on an unresponsive repository: every call ends within its time limit and leaves no process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from catchment.errors import SourceUnavailable
from connectors.contract.memory_ledger import MemoryLedger
from connectors.github import GitHub
from connectors.github.git.git import Stalled
from connectors.github.git.objects import Objects
from connectors.github.settings import GitHubSettings
from tests.connectors.github.repository import Repository

_SECONDS = 0.5


def _pipe(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _included(work: Repository) -> None:
    _pipe(work.path / ".git/pipe")
    work.git("config", "include.path", "pipe")


PIPES: dict[str, Callable[[Repository], None]] = {
    "HEAD": lambda work: _pipe(work.path / ".git/HEAD"),
    "packed-refs": lambda work: (work.git("pack-refs", "--all"), _pipe(work.path / ".git/packed-refs"))[1],
    "alternates": lambda work: _pipe(work.path / ".git/objects/info/alternates"),
    "include.path": _included,
}


def _processes() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


@pytest.fixture
def no_git_left() -> Iterator[None]:
    """Check that the test leaves no git process behind."""
    before = _processes()
    yield
    assert not [child for child in _processes() - before if "git" in child.name()]


@pytest.fixture
def work(root: Path) -> Repository:
    work = Repository.made(root / "project")
    work.write(one="# One\n")
    work.commit()
    return work


@pytest.mark.usefixtures("no_git_left")
@pytest.mark.parametrize("pipe", PIPES)
def test_clone_with_a_pipe_times_out_and_leaves_no_git(work: Repository, ledger: MemoryLedger, pipe: str) -> None:
    github = GitHub(GitHubSettings(clone=work.path, limits={"stall_seconds": _SECONDS}))
    PIPES[pipe](work)
    before = time.monotonic()
    for call in (github.probe, lambda: ledger.sync(github)):
        with pytest.raises(SourceUnavailable, match=r"git: no response .*; check that its disk responds"):
            call()
    github.close()
    assert time.monotonic() - before < 20 * _SECONDS


@pytest.mark.usefixtures("no_git_left")
def test_object_reader_and_listing_end_when_git_stalls(work: Repository, root: Path) -> None:
    objects = Objects(work.path / ".git/objects", root / "empty", _SECONDS)
    commit = work.git("rev-parse", "HEAD")
    assert objects.has(commit)
    objects.close()
    _pipe(work.path / ".git/objects/info/alternates")
    with pytest.raises(Stalled):
        objects.has(commit)
    with pytest.raises(Stalled):
        list(objects.files(commit))
