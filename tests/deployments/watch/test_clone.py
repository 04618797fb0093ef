"""A clone of a repository: what is committed or checked out there is a change, what git does besides is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from catchment.runtime.home import Home
from connectors.github.git.clone import store
from connectors.github.settings import GitHubSettings
from deployments.sources.sources_file import SourceEntry, SourcesFile
from deployments.watch.rules import CloneRules
from deployments.watch.status import Watching, WatchState
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
    """As a fetch or a clean-up leaves it: the names of all commits in one file."""
    clone.git("pack-refs", "--all")


@pytest.mark.usefixtures("swift")
@pytest.mark.parametrize("change", [committed, amended, another_branch, set_back, packed])
def test_what_is_committed_or_checked_out_is_followed_by_a_sync(
    change: Callable[[Repository], None], home: Home, clone: Repository, standin: StandinServer
) -> None:
    watch(home, clone.path)
    with watching(home, standin):
        until(lambda: len(standin.events) == 1)
        until(lambda: state_of(home, "weir") == WatchState(Watching.WATCHING, "", "", folders=3))
        change(clone)
        until(lambda: len(standin.events) >= 2)


@pytest.mark.usefixtures("swift")
def test_a_work_tree_that_is_one_of_several_is_watched_where_its_commits_are(
    home: Home, clone: Repository, standin: StandinServer
) -> None:
    clone.git("worktree", "add", "--quiet", str(clone.path.parent / "beside"), "other")
    beside = Repository(clone.path.parent / "beside")
    watch(home, beside.path)
    with watching(home, standin):
        until(lambda: len(standin.events) == 1)
        committed(beside)
        until(lambda: len(standin.events) >= 2)


def test_git_tells_where_it_keeps_a_clone(clone: Repository) -> None:
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
def test_what_git_writes_besides_is_no_change(path: str) -> None:
    assert not CloneRules().counts(path)


@pytest.mark.parametrize("folder", ["objects", "objects/ab", "logs", "hooks", "refs/tags", "refs/remotes", "modules"])
def test_where_git_keeps_no_branches_nothing_is_watched(folder: str) -> None:
    assert not CloneRules().watches(folder)
