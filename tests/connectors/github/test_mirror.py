"""Mirrors of remote repositories: updated by git over HTTP, and recreated when damaged."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from catchment.contracts import Ended
from catchment.errors import FetchFailed, LoginFailed, RateLimited, SkipReason, SourceError, SourceUnavailable
from catchment.model import Upsert
from connectors.contract.memory_ledger import MemoryLedger
from connectors.github import GitHub
from connectors.github.git import mirror
from connectors.github.git.code_listing import Code
from connectors.github.git.file_selection import FileRules
from connectors.github.git.mirror import Mirror
from connectors.github.git.plain_shell import run
from connectors.github.git.remote_repository import Remote
from connectors.github.names import wiki_of
from connectors.github.settings import GitHubSettings
from tests.connectors.github.git_host import GitHost, hosting
from tests.connectors.github.repository import Repository
from tests.waiting import until

pytestmark = pytest.mark.full

_NAME = "ada/project"


@pytest.fixture
def work(root: Path) -> Repository:
    """The repository published as `ada/project`, with three committed files."""
    work = Repository.made(root / "work")
    work.write(one="# One\n" * 20, a__two="# Two\n" * 20, a__three="# Three\n" * 20)
    work.commit()
    return work


@pytest.fixture
def host(root: Path, work: Repository) -> Iterator[GitHost]:
    with hosting(root / "host") as host:
        host.publish(_NAME, work)
        yield host


@pytest.fixture
def reading(host: GitHost, root: Path) -> Iterator[Callable[..., GitHub]]:
    """Create connectors that share one folder for their mirrors; closed after the test."""
    made: list[GitHub] = []

    def make(**settings: Any) -> GitHub:
        given = {"repositories": (_NAME,), "address": host.address, "include": ("code",), **settings}
        made.append(GitHub(GitHubSettings(**given)))
        made[-1].folder = root / "home"
        return made[-1]

    yield make
    for connector in made:
        connector.close()


def test_repository_is_copied_once_and_then_only_queried(
    reading: Callable[..., GitHub], host: GitHost, ledger: MemoryLedger
) -> None:
    github = reading()
    assert len(ledger.sync(github).fetched) == 3
    assert host.fetches() == 1
    assert ledger.sync(github).item_changes == []
    assert host.fetches() == 0


def test_push_causes_one_fetch_of_the_differences(
    reading: Callable[..., GitHub], host: GitHost, work: Repository, ledger: MemoryLedger, root: Path
) -> None:
    work.put("large.txt", os.urandom(300_000).hex())
    work.commit()
    github = reading()
    ledger.sync(github)
    size = _size(root / "home")
    work.write(one="changed", four="new")
    work.git("mv", "a/two.md", "b.md")
    work.commit()
    host.fetches()
    report = ledger.sync(github)
    assert (report.changed, report.new) == ({f"{_NAME}:one.md"}, {f"{_NAME}:four.md"})
    assert report.moved == {f"{_NAME}:a/two.md": f"{_NAME}:b.md"}
    assert host.fetches() == 1
    assert _size(root / "home") - size < 20_000


def test_history_and_large_files_are_not_copied(
    reading: Callable[..., GitHub], work: Repository, ledger: MemoryLedger, root: Path
) -> None:
    for number in range(5):
        work.put("random.txt", os.urandom(50_000).hex())
        work.put("large.bin", os.urandom(400_000 + number))
        work.commit()
    report = ledger.sync(reading(limits={"max_mb": 0.2}))
    assert report.skipped == {f"{_NAME}:large.bin": SkipReason.TOO_LARGE}
    assert _size(root / "home") < 150_000


def test_forced_push_reports_only_differences(
    reading: Callable[..., GitHub], work: Repository, ledger: MemoryLedger
) -> None:
    github = reading()
    ledger.sync(github)
    work.write(one="another past")
    work.commit("--amend")
    report = ledger.sync(github)
    assert (len(report.item_changes), report.changed) == (1, {f"{_NAME}:one.md"})


def test_changed_branches_and_default_branch_are_followed(
    reading: Callable[..., GitHub], work: Repository, ledger: MemoryLedger
) -> None:
    ledger.sync(reading())
    work.git("checkout", "--quiet", "-b", "trunk")
    work.write(one="of the trunk")
    work.commit()
    assert ledger.sync(reading()).changed == {f"{_NAME}:one.md"}
    both = reading(branches=("main", "trunk", "never"))
    assert len(ledger.sync(both).new) == 6
    work.git("branch", "-D", "main")
    assert {locator.partition(":")[0] for locator in ledger.sync(both).deleted} == {f"{_NAME}@main"}


def test_many_pushes_do_not_grow_the_copy(
    reading: Callable[..., GitHub],
    work: Repository,
    ledger: MemoryLedger,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mirror, "MAX_PACKS", 3)
    github = reading()
    for number in range(8):
        work.put("random.txt", os.urandom(5_000).hex())
        work.commit("--amend") if number % 2 else work.commit()
        assert len(ledger.sync(github).item_changes) in (1, 4)
    assert len(list((root / "home").rglob("*.pack"))) <= 4
    assert _size(root / "home") < 100_000


def test_token_is_sent_to_its_host_and_never_written(
    reading: Callable[..., GitHub],
    host: GitHost,
    ledger: MemoryLedger,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host.token = "a-token-that-nobody-else-has"
    monkeypatch.setenv("GIT_TOKEN", host.token)
    commands: list[str] = []

    def listening(command: Sequence[str], environment: Mapping[str, str], *limits: Any) -> Ended:
        commands.extend(command)
        return run(command, environment, *limits)

    github = reading(token="env:GIT_TOKEN")
    github.shell = listening
    assert len(ledger.sync(github).fetched) == 3
    assert host.token not in " ".join(commands)
    for path in (root / "home").rglob("*"):
        assert path.is_dir() or host.token.encode() not in path.read_bytes()
    with pytest.raises(LoginFailed, match="provide a token"):
        ledger.sync(reading())
    monkeypatch.setenv("GIT_TOKEN", "it was revoked")
    with pytest.raises(LoginFailed) as refused:
        ledger.sync(github)
    assert "revoked" not in str(refused.value)
    assert len(ledger.documents()) == 3


def test_token_is_not_sent_to_a_redirect_target(
    reading: Callable[..., GitHub],
    host: GitHost,
    work: Repository,
    root: Path,
    ledger: MemoryLedger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GIT_TOKEN", "a-token-that-nobody-else-has")
    github = reading(token="env:GIT_TOKEN")
    host.token = "a-token-that-nobody-else-has"
    ledger.sync(github)
    assert host.logins
    with hosting(root / "thief") as thief:
        thief.publish(_NAME, work)
        thief.token = "whatever"
        host.moved_to = thief.address
        with pytest.raises(LoginFailed):
            ledger.sync(github)
        assert (bool(thief.requests), thief.logins) == (True, [])


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (500, SourceUnavailable),
        (502, SourceUnavailable),
        (404, SourceUnavailable),
        (403, LoginFailed),
        (429, RateLimited),
    ],
)
def test_refusing_host_is_an_error_and_keeps_items(
    reading: Callable[..., GitHub],
    host: GitHost,
    work: Repository,
    ledger: MemoryLedger,
    status: int,
    error: type[SourceError],
) -> None:
    github = reading()
    ledger.sync(github)
    work.write(one="changed")
    work.commit()
    host.status = status
    with pytest.raises(error):
        ledger.sync(github)
    host.status = None
    report = ledger.sync(github)
    assert (len(report.item_changes), report.fetched) == (1, {f"{_NAME}:one.md"})


@pytest.mark.parametrize("after", [0, 5, 60, 400, 2_000])
@pytest.mark.parametrize("first", [True, False])
def test_next_sync_recovers_an_interrupted_fetch(
    reading: Callable[..., GitHub], host: GitHost, work: Repository, ledger: MemoryLedger, after: int, first: bool
) -> None:
    github = reading()
    if not first:
        ledger.sync(github)
    work.put("random.txt", os.urandom(5_000).hex())
    work.commit()
    host.cut_after = after
    with pytest.raises(SourceUnavailable, match="; "):
        ledger.sync(github)
    host.cut_after = None
    ledger.sync(github)
    assert len(ledger.documents()) == 4
    assert ledger.sync(github).item_changes == []


def test_inaccessible_repository_is_one_failing_item(
    reading: Callable[..., GitHub], host: GitHost, root: Path, work: Repository, ledger: MemoryLedger
) -> None:
    other = Repository.made(root / "other")
    other.write(one="another")
    other.commit()
    host.publish("ada/other", other)
    both = reading(repositories=(_NAME, "ada/other"))
    ledger.sync(both)
    host.withdraw("ada/other")
    work.write(one="changed")
    work.commit()
    report = ledger.sync(both)
    assert (set(report.failed), report.changed, report.deleted) == ({"ada/other:"}, {f"{_NAME}:one.md"}, set())
    host.publish("ada/other", other)
    assert ledger.sync(both).deleted == {"ada/other:"}
    assert "ada/other:one.md" in ledger.documents()
    assert ledger.sync(both).item_changes == []


def test_wiki_is_read_and_empty_wiki_is_ignored(
    host: GitHost, root: Path, reading: Callable[..., GitHub], ledger: MemoryLedger
) -> None:
    rules = FileRules((), (), generated=False, max_bytes=1_000_000)
    name = wiki_of(_NAME)

    def listing() -> Code:
        remote = Remote(host.address, name, reading(), alone=False)
        return Code(
            name, Mirror(root / "wiki.git", remote, 1_000_000), (), rules, 1_000_000, "https://host/ada/project"
        )

    assert ledger.sync(_Alone(listing())).item_changes == []
    pages = Repository.made(root / "pages")
    pages.write(Home="# Welcome\n")
    pages.commit()
    host.publish(name, pages)
    assert ledger.sync(_Alone(listing())).fetched == {"ada/project.wiki:Home.md"}
    content = ledger.rows["ada/project.wiki:Home.md"].content
    assert content is not None
    assert content.metadata["url"] == "https://host/ada/project/wiki/Home"


def test_unreachable_host_is_one_error(reading: Callable[..., GitHub], host: GitHost, ledger: MemoryLedger) -> None:
    github = reading()
    ledger.sync(github)
    host.stop()
    with pytest.raises(SourceUnavailable, match="check the network"):
        ledger.sync(github)
    assert len(ledger.documents()) == 3


def _damage_pack(copy: Path) -> None:
    for pack in copy.glob("objects/pack/*.pack"):
        pack.chmod(0o600)
        data = bytearray(pack.read_bytes())
        data[len(data) // 3 :] = b"\0" * (len(data) - len(data) // 3)
        pack.write_bytes(data)


def _lose_packs(copy: Path) -> None:
    shutil.rmtree(copy / "objects/pack")


def _leave_locks(copy: Path) -> None:
    (copy / "shallow.lock").touch()
    for ref in (copy / "refs/copied").iterdir():
        ref.with_name(f"{ref.name}.lock").touch()
    (copy / "objects/pack/tmp_pack_Ab12").write_bytes(b"half")


def _spoil_refs(copy: Path) -> None:
    for ref in (copy / "refs/copied").iterdir():
        ref.write_text("no commit\n")


def _remove_all(copy: Path) -> None:
    shutil.rmtree(copy.parent)


def _spoil_configuration(copy: Path) -> None:
    (copy / "config").write_text("[core\n")


@pytest.mark.parametrize(
    "harm", [_damage_pack, _lose_packs, _leave_locks, _spoil_refs, _spoil_configuration, shutil.rmtree, _remove_all]
)
@pytest.mark.parametrize("pushed", [True, False])
def test_damaged_copy_is_repaired_or_replaced(
    reading: Callable[..., GitHub],
    work: Repository,
    ledger: MemoryLedger,
    root: Path,
    harm: Callable[[Path], None],
    pushed: bool,
) -> None:
    github = reading()
    ledger.sync(github)
    github.close()
    harm(root / "home/ada+project.git")
    if pushed:
        work.write(one="changed")
        work.commit()
    _until_quiet(ledger, github)
    deep = ledger.sync(github, deep=True)
    assert (deep.item_changes, deep.failed) == ([], {})
    fresh = MemoryLedger()
    _until_quiet(fresh, github)
    assert fresh.documents() == ledger.documents()


def _until_quiet(ledger: MemoryLedger, github: GitHub) -> None:
    """Sync until a sync has no failures, at most three times: the next sync repairs damage found while reading."""
    for _ in range(3):
        try:
            if not ledger.sync(github).failed:
                return
        except SourceUnavailable:
            continue
    raise AssertionError("it goes on failing")


def test_killed_git_leaves_a_usable_copy(
    reading: Callable[..., GitHub], work: Repository, ledger: MemoryLedger
) -> None:
    github = reading()
    ledger.sync(github)
    killed = []

    def killing(
        command: Sequence[str], environment: Mapping[str, str], seconds: float, silence: float | None = None
    ) -> Ended:
        if "fetch" not in command:
            return run(command, environment, seconds, silence)
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        time.sleep(0.005 * len(killed))
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        killed.append(process.returncode)
        return Ended(process.returncode, output.decode())

    for number in range(4):
        work.put("random.txt", os.urandom(200_000 + number).hex())
        work.commit()
        github.shell = killing
        try:
            ledger.sync(github)
        except SourceUnavailable:
            github.shell = run
            ledger.sync(github)
        assert ledger.documents()[f"{_NAME}:random.txt"] == (work.path / "random.txt").read_bytes()
    assert -signal.SIGKILL in killed


def test_git_ends_with_its_parent_process(
    reading: Callable[..., GitHub], host: GitHost, root: Path, ledger: MemoryLedger
) -> None:
    code = f"""
from pathlib import Path
from connectors.github import GitHub
from connectors.github.settings import GitHubSettings
from connectors.contract.memory_ledger import MemoryLedger

github = GitHub(GitHubSettings(repositories=("{_NAME}",), address="{host.address}", include=("code",)))
github.folder = Path("{root / "home"}")
MemoryLedger().sync(github)
"""
    host.hold.clear()
    with subprocess.Popen([sys.executable, "-c", code]) as sync:
        try:
            git = until(lambda: _fetches_of(sync.pid))
        finally:
            sync.kill()
    assert psutil.wait_procs(git, timeout=20)[1] == []
    host.hold.set()
    assert len(ledger.sync(reading()).fetched) == 3


def _fetches_of(pid: int) -> list[psutil.Process]:
    """Return the fetch processes among a process's descendants; others may end meanwhile."""
    found = []
    for child in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):
            if "fetch" in child.cmdline():
                found.append(child)
    return found


@contextmanager
def _small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a small disk")
def test_full_disk_is_reported_and_recovered(
    reading: Callable[..., GitHub], work: Repository, ledger: MemoryLedger, root: Path
) -> None:
    with _small_disk(root / "home", 4):
        github = reading()
        ledger.sync(github)
        work.put("random.txt", os.urandom(1_500_000).hex())
        work.commit()
        filler = root / "home/filler"
        filler.write_bytes(b"\0" * 3_000_000)
        with pytest.raises(SourceUnavailable, match="disk full; free some space"):
            ledger.sync(github)
        assert len(ledger.documents()) == 3
        filler.unlink()
        assert ledger.sync(github).fetched == {f"{_NAME}:random.txt"}
        github.close()


def test_unreadable_object_fails_its_item_until_the_copy_is_repaired(
    reading: Callable[..., GitHub], ledger: MemoryLedger, root: Path
) -> None:
    github = reading()
    items = [change.item for change in ledger.sync(github, fetch=False).item_changes if isinstance(change, Upsert)]
    github.close()
    _lose_packs(root / "home/ada+project.git")
    with pytest.raises(FetchFailed, match="the next sync tries again"):
        github.fetch(items[0])
    assert len(ledger.sync(github).fetched) == 3


def test_git_is_not_run_without_a_push(
    host: GitHost, work: Repository, root: Path, ledger: MemoryLedger, reading: Callable[..., GitHub]
) -> None:
    github = reading()
    rules = FileRules((), (), generated=False, max_bytes=1_000_000)

    def listed(pushed: datetime, *, deep: bool = False) -> int:
        """Return the number of listing requests to the host."""
        copy = Mirror(root / "copy.git", Remote(host.address, _NAME, github), 1_000_000)
        code = Code(_NAME, copy, (), rules, 1_000_000, "", pushed)
        before = len(host.requests)
        ledger.sync(_Alone(code), deep=deep)
        code.close()
        return len(host.requests) - before

    long_ago, now = datetime(2026, 1, 1, tzinfo=UTC), datetime.now(UTC) + timedelta(hours=1)
    assert listed(long_ago) > 0
    assert listed(long_ago) == 0
    assert listed(long_ago, deep=True) > 0
    # A very recent push may be followed by another in the same second.
    assert listed(now) > 0
    assert listed(now) > 0


class _Alone(GitHub):
    """A connector with a single listing."""

    def __init__(self, code: Code) -> None:
        self.changes = code.changes  # type: ignore[method-assign,assignment]
        self.fetch = code.fetch  # type: ignore[method-assign]


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
