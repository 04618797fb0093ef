"""Temporary changes in a repository leave no trace if a listing during them is interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.github import GitHub
from connectors.github.settings import GitHubSettings
from tests.connectors.github.conftest import SAID
from tests.connectors.github.repository import Repository
from tests.connectors.github.server import GitHubServer, Repo
from tests.connectors.interruption import check_no_trace

pytestmark = pytest.mark.full


@pytest.fixture
def work(root: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository with five files in two branches."""
    # Otherwise so few files would precede the first checkpoint.
    monkeypatch.setattr("connectors.github.git.code_listing._CHANGES_PER_CHECKPOINT", 1)
    work = Repository.made(root / "project")
    for name in ("one.md", "a/two.md", "a/three.md", "a/b/four.md"):
        work.put(name, f"# {name}\n" * 20)
    work.commit()
    work.git("branch", "kept")
    work.put("five.md", "# Five\n")
    work.commit()
    work.git("tag", "before")
    return work


@pytest.fixture
def reading_clone(work: Repository) -> Iterator[Callable[..., GitHub]]:
    made: list[GitHub] = []

    def make(**settings: Any) -> GitHub:
        made.append(GitHub(GitHubSettings(clone=work.path, **settings)))
        return made[-1]

    yield make
    for connector in made:
        connector.close()


def _commit(change: Callable[[Repository], object]) -> Callable[[Repository], None]:
    def commit(work: Repository) -> None:
        change(work)
        work.commit()

    return commit


COMMITS = {
    "a folder has another name": _commit(lambda work: work.git("mv", "a", "c")),
    "a folder is gone": _commit(lambda work: work.git("rm", "-rq", "a")),
    "files are others": _commit(lambda work: [work.put(name, "# Other\n") for name in ("one.md", "a/two.md")]),
    "two files have each other's name": _commit(
        lambda work: [
            (work.path / old).rename(work.path / new)
            for old, new in (("one.md", "aside"), ("a/two.md", "one.md"), ("aside", "a/two.md"))
        ]
    ),
    "files are not text": _commit(lambda work: work.put(".gitattributes", "a/* linguist-generated\n")),
    "history is another": lambda work: work.git("commit", "--quiet", "--amend", "--message", "another"),
    "the branch is older": lambda work: work.git("reset", "--quiet", "--hard", "HEAD~1"),
}
WANTED: dict[str, dict[str, Any]] = {
    "a folder is not wanted": {"exclude": ("/a/",)},
    "one file is wanted": {"paths": ("one.md",)},
    "another branch is wanted": {"branches": ("kept",)},
    "two branches are wanted": {"branches": ("main", "kept")},
}


@pytest.mark.parametrize("what", COMMITS)
def test_temporary_commits_leave_no_trace_after_an_interruption(
    work: Repository, reading_clone: Callable[..., GitHub], what: str
) -> None:
    check_no_trace(
        reading_clone(),
        lambda: COMMITS[what](work),
        lambda: work.git("reset", "--quiet", "--hard", "before"),
    )


@pytest.mark.parametrize("what", WANTED)
def test_temporary_clone_settings_leave_no_trace(reading_clone: Callable[..., GitHub], what: str) -> None:
    check_no_trace(reading_clone(), lambda: None, lambda: None, reading_clone(**WANTED[what]))


def _taken_out(kept: dict[int, Any], away: dict[int, Any]) -> None:
    """Move everything from one to the other."""
    away.update(kept)
    kept.clear()


def _called(repo: Repo, name: str) -> None:
    for release in repo.releases.values():
        release["name"] = name


AWAY: dict[int, Any] = {}
THERE: dict[str, tuple[Callable[[Repo], object], Callable[[Repo], object]]] = {
    "releases are gone": (lambda repo: _taken_out(repo.releases, AWAY), lambda repo: _taken_out(AWAY, repo.releases)),
    "releases have another name": (lambda repo: _called(repo, "Other"), lambda repo: _called(repo, "Release")),
    "issues are closed": (
        lambda repo: [repo.edit(number, state="closed") for number in (1, 3)],
        lambda repo: [repo.edit(number, state="open") for number in (1, 3)],
    ),
    "issues are switched off": (
        lambda repo: setattr(repo, "has_issues", False),
        lambda repo: setattr(repo, "has_issues", True),
    ),
    "the repository has another name": (
        lambda repo: repo.server.rename("ada/weir", "ada/dam"),
        lambda repo: repo.server.rename("ada/dam", "ada/weir"),
    ),
    "the repository is gone": (
        lambda repo: repo.server.repos.pop("ada/weir"),
        lambda repo: repo.server.repos.update({"ada/weir": repo}),
    ),
}
READ: dict[str, dict[str, Any]] = {f"only {part} are read": {"include": (part,)} for part in SAID}


@pytest.mark.parametrize("what", THERE)
@pytest.mark.parametrize("whose", ["ada/weir", "ada/*"])
def test_temporary_discussions_leave_no_trace_after_an_interruption(
    hub: GitHubServer, repo: Repo, reading: Callable[..., GitHub], what: str, whose: str
) -> None:
    AWAY.clear()
    hub.repo("ada/other").open("Elsewhere")
    begin, undo = THERE[what]
    check_no_trace(reading(whose), lambda: begin(repo), lambda: undo(repo))


@pytest.mark.parametrize("what", READ)
def test_temporary_api_settings_leave_no_trace(repo: Repo, reading: Callable[..., GitHub], what: str) -> None:
    assert repo.issues
    check_no_trace(reading(), lambda: None, lambda: None, reading(**READ[what]))
