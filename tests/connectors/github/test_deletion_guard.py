"""Repositories and the guard against mass deletion: a commit proves deletions, another repository proves none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from catchment.ledger import Ledger, Source
from catchment.ledger.admin.scratch import PlannedAction
from catchment.model import Change, Priority
from catchment.parser_pool import ParserPool
from catchment.runtime import process
from catchment.settings import Home, Policy
from catchment.sync.discovery import Discovery
from catchment.sync.plan import make_plan
from catchment.sync.source_sync import open_sync
from connectors.github import GitHub
from connectors.github.settings import GitHubSettings
from tests.connectors.github.git_host import hosting
from tests.connectors.github.proxy import Proxy
from tests.connectors.github.repository import Repository
from tests.connectors.github.server import GitHubServer, Repo
from tests.documents import document_named, raw_contents

MANY = 20


class Reader:
    """A GitHub source and its library."""

    def __init__(self, home: Home, github: GitHub, pool: ParserPool) -> None:
        self.home = home
        self.pool = pool
        self.github = github
        self.ledger = Ledger.open(home.database_url)
        self.source: Source = self.ledger.sources.put("weir", "github", Priority.NORMAL)
        self.ledger.consents.give(self.source.id, github.scopes(), "operator", None)

    def sync(self, through: Callable[[Iterator[Change]], Iterator[Change]] | None = None) -> dict[str, int]:
        with open_sync(self.home, self.github, "weir", Policy(), Priority.NORMAL, pool=self.pool) as sync:
            sync.discovery.through = through
            sync.discover()
            while (token := sync.claim(250)) is not None:
                sync.process(token)
            return sync.finish("completed")

    def documents(self) -> set[str]:
        return {named.locator.removeprefix("work:") for named in self.ledger.library.names(self.source.id)}

    def text(self, locator: str) -> str:
        return document_named(self.ledger, locator).content.text

    def held(self) -> list[tuple[int, str]]:
        return [(hold.count, hold.reason) for hold in self.ledger.intake.holds()]

    def apply(self) -> int:
        return self.ledger.intake.apply_hold(self.source.id, "anna", "")

    def drop(self) -> int:
        return self.ledger.intake.drop_hold(self.source.id, "anna", "")


@pytest.fixture(scope="module")
def pool() -> Iterator[ParserPool]:
    """One parser for all tests."""
    with ParserPool(1) as pool:
        yield pool


@pytest.fixture
def reading(home: Home, pool: ParserPool, tmp_path: Path) -> Iterator[Callable[..., Reader]]:
    """Create readers of one source, and sync it for the first time."""
    with ExitStack() as stack:

        def make(**settings: Any) -> Reader:
            github = GitHub(GitHubSettings(**settings))
            github.folder = tmp_path / "copies"
            stack.callback(github.close)
            reader = Reader(home, github, pool)
            stack.enter_context(closing(reader.ledger))
            reader.sync()
            return reader

        yield make


@pytest.fixture
def work(tmp_path: Path) -> Repository:
    """A repository with two files, and many more in its newest commit. `few` names the first commit."""
    return made(tmp_path / "work")


def made(path: Path, *options: str) -> Repository:
    work = Repository.made(path, *options)
    work.write(one="# One", two="# Two")
    work.commit()
    work.git("tag", "few")
    for number in range(MANY):
        work.put(f"many/{number}.md", f"# Number {number}")
    work.commit()
    return work


FEW = {"one.md", "two.md"}
ALL = FEW | {f"many/{number}.md" for number in range(MANY)}


# Commits


def test_clone_moved_back_and_forth_has_the_files_of_its_commit(
    work: Repository, reading: Callable[..., Reader]
) -> None:
    reader = reading(clone=work.path)
    work.git("checkout", "--quiet", "few")
    assert (reader.sync()["deleted"], reader.held(), reader.documents()) == (MANY, [], FEW)
    last = reader.ledger.syncs.last(reader.source.id)
    assert last is not None
    reader.ledger.undo.undo(last.id, "anna", "", process.alive)
    assert reader.documents() == ALL
    work.git("checkout", "--quiet", "main")
    reader.sync()
    assert (reader.held(), reader.documents()) == ([], ALL)


def _reset(repository: Repository) -> None:
    repository.git("update-ref", "HEAD", "few^{commit}")


def _renamed(repository: Repository) -> None:
    repository.git("branch", "--move", "main", "trunk")
    _reset(repository)


def _moved(repository: Repository) -> None:
    """Replace the folder by a new one with the same repository."""
    aside = repository.path.with_name("aside")
    repository.path.rename(aside)
    repository.git = Repository(aside).git  # type: ignore[method-assign]
    repository.git("clone", "--quiet", "--no-local", str(aside), str(repository.path))
    Repository(repository.path).git("checkout", "--quiet", "few")


def _amended(repository: Repository) -> None:
    _reset(repository)
    repository.git("reset", "--quiet", "--hard")
    repository.git("commit", "--quiet", "--allow-empty", "--message", "a commit beside the others")


def _emptied(repository: Repository) -> None:
    repository.git("rm", "--quiet", "-r", ".")
    repository.commit()


COMMITS: dict[str, tuple[Callable[[Repository], None], set[str]]] = {
    "the branch is moved back": (_reset, FEW),
    "the branch is renamed and moved back": (_renamed, FEW),
    "the folder is a new clone of the same repository": (_moved, FEW),
    "the branch is rewritten": (_amended, FEW),
    "all files are deleted": (_emptied, set()),
}


@pytest.mark.parametrize("what", COMMITS)
def test_deletions_of_a_commit_are_applied(work: Repository, reading: Callable[..., Reader], what: str) -> None:
    reader = reading(clone=work.path)
    change, expected = COMMITS[what]
    change(work)
    reader.sync()
    assert (reader.held(), reader.documents()) == ([], expected)


@pytest.mark.parametrize("what", ["bare", "sha256", "linked work tree", "deepened shallow clone"])
def test_clones_of_every_form_follow_their_commits(
    work: Repository, tmp_path: Path, reading: Callable[..., Reader], what: str
) -> None:
    other = Repository(tmp_path / "other" / "work")
    match what:
        case "bare":
            work.git("clone", "--quiet", "--bare", ".", str(other.path))
        case "sha256":
            made(other.path, "--object-format=sha256")
        case "linked work tree":
            work.git("worktree", "add", "--quiet", "--detach", str(other.path))
        case _:
            work.git("clone", "--quiet", "--depth=1", f"file://{work.path}", str(other.path))
    reader = reading(clone=other.path)
    if what == "deepened shallow clone":
        other.git("fetch", "--quiet", "--unshallow", "--tags")
    other.git("update-ref", "--no-deref", "HEAD", "few^{commit}")
    reader.sync()
    assert (reader.held(), reader.documents()) == ([], FEW)


def test_shallow_clone_without_common_commits_is_guarded_as_before(
    work: Repository, tmp_path: Path, reading: Callable[..., Reader]
) -> None:
    other = Repository(tmp_path / "other" / "work")
    work.git("clone", "--quiet", "--depth=1", f"file://{work.path}", str(other.path))
    reader = reading(clone=other.path)
    for gone, held in ((["one.md"], []), (["many"], [(MANY, f"{MANY} of {MANY + 1} items are gone")])):
        work.git("rm", "--quiet", "-r", *gone)
        work.commit()
        other.git("fetch", "--quiet", "--depth=1", "origin", "main")
        other.git("reset", "--quiet", "--hard", "FETCH_HEAD")
        reader.sync()
        assert reader.held() == held


def _orphaned(work: Repository) -> None:
    work.git("checkout", "--quiet", "--orphan", "other")
    work.git("rm", "--quiet", "-rf", ".")
    work.write(one="# Another one")
    work.commit()


def _replaced(work: Repository) -> None:
    work.path.rename(work.path.with_name("aside"))
    Repository.made(work.path)
    work.write(one="# Another one")
    work.commit()


def _unborn(work: Repository) -> None:
    work.git("checkout", "--quiet", "--orphan", "other")


@pytest.mark.parametrize("change", [_orphaned, _replaced, _unborn])
def test_deletions_by_another_history_are_held(
    work: Repository, reading: Callable[..., Reader], change: Callable[[Repository], None]
) -> None:
    reader = reading(clone=work.path)
    change(work)
    reader.sync()
    assert [count for count, _ in reader.held()] == [len(ALL) - (change is not _unborn)]
    assert reader.documents() == ALL
    reader.sync()
    assert reader.documents() == ALL, "still held"
    reader.apply()
    assert reader.documents() == (set() if change is _unborn else {"one.md"})


@pytest.mark.parametrize("after", [1, 15, None])
def test_interrupted_listing_of_a_commit_holds_nothing(
    work: Repository, reading: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch, after: int | None
) -> None:
    monkeypatch.setattr("connectors.github.git.code_listing._CHANGES_PER_CHECKPOINT", 5)
    reader = reading(clone=work.path)
    work.git("checkout", "--quiet", "few")

    def killed(changes: Iterator[Change]) -> Iterator[Change]:
        for number, change in enumerate(changes):
            if number == after:
                raise KeyboardInterrupt
            yield change

    def killed_late(_: Discovery) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        if after is None:
            patched.setattr(Discovery, "settle", killed_late)
        reader.sync(killed)
    reader.sync()
    assert (reader.held(), reader.documents()) == ([], FEW)


def test_plan_of_a_commit_deletes_and_holds_nothing(work: Repository, reading: Callable[..., Reader]) -> None:
    reader = reading(clone=work.path)
    work.git("checkout", "--quiet", "few")
    plan = make_plan(reader.home, reader.ledger, reader.source, reader.github, Policy())
    assert plan.totals == {PlannedAction.DELETE: (MANY, 0)}


def test_remote_commits_apply_and_another_history_is_held(
    work: Repository, tmp_path: Path, reading: Callable[..., Reader]
) -> None:
    (tmp_path / "host").mkdir()
    with hosting(tmp_path / "host") as host:
        host.publish("ada/work", work)
        reader = reading(repositories=("ada/work",), address=host.address, include=("code",))
        host.fetches()
        work.git("reset", "--quiet", "--hard", "few")
        assert (reader.sync()["deleted"], reader.held(), host.fetches()) == (MANY, [], 2)
        work.git("reset", "--quiet", "--hard", "ORIG_HEAD")
        reader.sync()
        assert host.fetches() == 1, "without deletions, the history is not requested"
        _orphaned(work)
        reader.sync()
        assert [count for count, _ in reader.held()] == [MANY + 1]
        work.git("checkout", "--quiet", "--force", "main")
        reader.sync()
        assert (reader.held(), len(reader.documents())) == ([], MANY + 2)
        host.withdraw("ada/work")
        host.publish("ada/work", Repository.made(tmp_path / "new"))
        Repository(tmp_path / "new").commit()
        reader.sync()
        assert [count for count, _ in reader.held()] == [MANY + 2]


# Names


@pytest.fixture
def old(hub: GitHubServer) -> Repo:
    """A repository with five issues, renamed to `ada/mill`."""
    old = hub.repo("ada/old")
    for number in range(1, 6):
        old.open(f"Mill {number}", f"millrace{number}")
    return old


@pytest.fixture
def talks(reading: Callable[..., Reader], hub_proxy: Proxy) -> Callable[..., Reader]:
    """Create readers of discussions, and sync them for the first time."""
    return lambda *names: reading(
        repositories=names, address=hub_proxy.address, include=("issues", "pulls"), token="env:HUB_TOKEN"
    )


def reuse(hub: GitHubServer) -> Repo:
    """Rename the repository and create another one of its name, with three issues."""
    hub.rename("ada/old", "ada/mill")
    other = hub.repo("ada/old")
    for number in range(1, 4):
        other.open(f"Other {number}", f"tailrace{number}")
    return other


def test_repository_that_takes_a_name_waits_for_a_decision(
    old: Repo,
    hub: GitHubServer,
    talks: Callable[..., Reader],
) -> None:
    reader = talks("ada/old")
    reuse(hub)
    for _ in range(2):
        assert reader.sync()["read"] == 0
        assert reader.held() == [(5, "ada/old is another one than before")]
        assert all("millrace" in reader.text(f"ada/old#{number}") for number in old.issues)
    assert reader.apply() == 5
    assert reader.documents() == set()
    reader.sync()
    assert (reader.held(), reader.documents()) == ([], {"ada/old#1", "ada/old#2", "ada/old#3"})
    assert "tailrace3" in reader.text("ada/old#3")


def test_discarded_decision_keeps_the_items_of_the_old_repository(
    old: Repo,
    hub: GitHubServer,
    talks: Callable[..., Reader],
) -> None:
    reader = talks("ada/old")
    reuse(hub)
    reader.sync()
    assert reader.drop() == 5
    reader.sync()
    assert (reader.held()[0][0], "millrace1" in reader.text("ada/old#1")) == (5, True)
    del hub.repos["ada/old"]
    reader.sync()
    assert (reader.held(), len(reader.documents())) == ([], len(old.issues)), "the old name leads to it again"


def test_owners_other_repositories_are_read_beside_a_replaced_one(
    old: Repo,
    hub: GitHubServer,
    talks: Callable[..., Reader],
) -> None:
    weir = hub.repo("ada/weir")
    weir.open("Weir", "gauge1")
    reader = talks("ada/*")
    other = reuse(hub)
    hub.repos.pop("ada/mill")
    weir.open("Weir", "gauge2")
    reader.sync()
    assert reader.held() == [(5, "ada/old is another one than before")]
    assert reader.documents() == {f"ada/old#{number}" for number in old.issues} | {"ada/weir#1", "ada/weir#2"}
    reader.apply()
    reader.sync()
    assert reader.documents() == {f"ada/old#{number}" for number in other.issues} | {"ada/weir#1", "ada/weir#2"}


def test_owners_renamed_repository_is_moved_though_its_name_is_reused(
    old: Repo,
    hub: GitHubServer,
    talks: Callable[..., Reader],
) -> None:
    reader = talks("ada/*")
    other = reuse(hub)
    assert reader.sync()["moved"] == 5
    reader.sync()
    assert reader.held() == []
    assert reader.documents() == {f"ada/mill#{n}" for n in old.issues} | {f"ada/old#{n}" for n in other.issues}


def test_another_owner_of_the_name_is_held(
    old: Repo,
    hub: GitHubServer,
    talks: Callable[..., Reader],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = talks("ada/*")
    answer = hub.answer

    def by_another(path: str, *rest: Any) -> tuple[Any, str]:
        data, link = answer(path, *rest)
        return ({**data, "id": 7}, link) if path == "/users/ada" else (data, link)

    monkeypatch.setattr(hub, "answer", by_another)
    del hub.repos["ada/old"]
    hub.repo("ada/new").open()
    reader.sync()
    assert reader.held() == [(5, "ada/* is another one than before")]
    assert len(reader.documents()) == 6


def test_source_of_an_earlier_version_accepts_the_present_repository(
    old: Repo,
    hub: GitHubServer,
    talks: Callable[..., Reader],
) -> None:
    reader = talks("ada/old")
    with reader.ledger.sources._store.write() as writing:
        writing.connection.exec_driver_sql("UPDATE sources SET root = '1000', seen_root = '1000'")
    old.delete(5)
    assert (reader.sync()["deleted"], reader.held()) == (1, [])
    reuse(hub)
    reader.sync()
    assert reader.held() == [(4, "ada/old is another one than before")]


def test_raw_content_is_kept_of_a_host_but_not_of_a_clone(
    old: Repo, work: Repository, talks: Callable[..., Reader], reading: Callable[..., Reader]
) -> None:
    reading(clone=work.path)
    home = talks("ada/old").home
    kept = raw_contents(home)
    assert len(kept) == len(old.issues)
    assert b"millrace3" in kept["ada/old#3"]
