"""Watching a git clone: commits and checkouts are changes, other files of git are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from catchment.runtime.home import Home
from catchment.runtime.watch_status import Watching, WatchState
from connectors.github.git.clone import store
from connectors.github.settings import GitHubSettings
from deployments.sources.sources_file import SourceEntry, SourcesFile
from deployments.watch.rules import CloneRules
from tests.connectors.github.repository import Repository
from tests.deployments.watch.conftest import StandinServer, state_of, watching
from tests.waiting import until


@pytest.fixture
def clone(tmp_path: Path) -> Repository:
    """A clone with a commit, and a branch `other` with one more."""
    repository = Repository.made(tmp_path / "weir")
    repository.write(plan="A plan.")
    repository.commit()
    repository.git("checkout", "--quiet", "-b", "other")
    repository.write(other="Another plan.")
    repository.commit()
    repository.git("checkout", "--quiet", "main")
    return repository


def watch(home: Home, clone: Path) -> None:
    file = SourcesFile.load(home.sources_file)
    file.add(SourceEntry("weir", "github", GitHubSettings(clone=clone), watch=True, quiet=0.0))
    file.save()


def committed(clone: Repository) -> None:
    clone.write(plan="A better plan.")
    clone.commit()


def amended(clone: Repository) -> None:
    clone.write(plan="A better plan.")
    clone.commit("--amend")


def another_branch(clone: Repository) -> None:
    clone.git("checkout", "--quiet", "other")


def set_back(clone: Repository) -> None:
    clone.git("reset", "--quiet", "--hard", "other")


def packed(clone: Repository) -> None:
    """Pack the references into one file, as a fetch or a clean-up does."""
    clone.git("pack-refs", "--all")


@pytest.mark.usefixtures("swift")
@pytest.mark.parametrize("change", [committed, amended, another_branch, set_back, packed])
def test_commit_or_checkout_starts_a_sync(
    change: Callable[[Repository], None], home: Home, clone: Repository, standin: StandinServer
) -> None:
    watch(home, clone.path)
    with watching(home, standin):
        until(lambda: len(standin.events) == 1)
        until(lambda: state_of(home, "weir") == WatchState(Watching.WATCHING, "", "", folders=3))
        change(clone)
        until(lambda: len(standin.events) >= 2)


@pytest.mark.usefixtures("swift")
def test_linked_work_tree_is_watched_in_its_git_directory(
    home: Home, clone: Repository, standin: StandinServer
) -> None:
    clone.git("worktree", "add", "--quiet", str(clone.path.parent / "beside"), "other")
    beside = Repository(clone.path.parent / "beside")
    watch(home, beside.path)
    with watching(home, standin):
        until(lambda: len(standin.events) == 1)
        committed(beside)
        until(lambda: len(standin.events) >= 2)


def test_git_directory_of_a_clone_is_found(clone: Repository) -> None:
    bare = clone.path.parent / "bare.git"
    clone.git("clone", "--quiet", "--bare", str(clone.path), str(bare))
    clone.git("worktree", "add", "--quiet", str(clone.path.parent / "beside"), "other")
    assert store(clone.path) == clone.path / ".git"
    assert store(bare) == bare
    assert store(clone.path.parent / "beside") == clone.path / ".git"
    assert store(clone.path.parent / "not there") == clone.path.parent / "not there" / ".git"


@pytest.mark.parametrize(
    "path",
    [
        "index",
        "index.lock",
        "HEAD.lock",
        "ORIG_HEAD",
        "FETCH_HEAD",
        "config",
        "refs/heads/main.lock",
        "worktrees/a/index",
    ],
)
def test_other_files_of_git_are_ignored(path: str) -> None:
    assert not CloneRules().counts(path)


@pytest.mark.parametrize("folder", ["objects", "objects/ab", "logs", "hooks", "refs/tags", "refs/remotes", "modules"])
def test_folders_without_references_are_not_watched(folder: str) -> None:
    assert not CloneRules().watches(folder)
