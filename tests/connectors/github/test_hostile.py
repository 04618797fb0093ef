"""Malicious repositories: none of their content is executed, written or fetched."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from catchment.errors import SkipReason, SourceUnavailable
from connectors.contract.memory_ledger import MemoryLedger
from connectors.github import GitHub
from connectors.github.git import objects
from connectors.github.settings import GitHubSettings
from tests.connectors.github.repository import Repository


@pytest.fixture
def work(root: Path) -> Repository:
    """A repository with one committed file."""
    work = Repository.made(root / "project")
    work.write(one="# One\n")
    work.commit()
    return work


@pytest.fixture
def github(work: Repository) -> Iterator[GitHub]:
    connector = GitHub(GitHubSettings(clone=work.path))
    yield connector
    connector.close()


@pytest.fixture
def trap(root: Path) -> Path:
    """A program that leaves a trace when it is run."""
    program = root / "trap"
    program.write_text(f'#!/bin/sh\necho ran "$0" "$@" >> {root}/ran\nexit 0\n')
    program.chmod(0o755)
    return program


def _state(folder: Path) -> dict[str, tuple[int, int, str]]:
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(path.lstat().st_mode) else "",
        )
        for path in sorted(folder.rglob("*"))
    }


PROGRAMS = """
    core.fsmonitor core.sshCommand core.gitProxy core.askPass core.pager core.editor core.alternateRefsCommand diff.external
    diff.trap.textconv diff.trap.command filter.trap.smudge filter.trap.clean filter.trap.process credential.helper
    uploadpack.packObjectsHook gpg.program remote.origin.uploadpack alias.rev-parse alias.cat-file
"""
HOOKS = ("post-checkout", "reference-transaction", "fsmonitor-watchman", "post-index-change", "pre-auto-gc")


def _lay(trap: Path, work: Repository, elsewhere: Path) -> None:
    """Configure the trap wherever a repository can name a program."""
    for key in PROGRAMS.split():
        work.git("config", key, str(trap))
    settings = {
        "core.hooksPath": str(elsewhere),
        "remote.origin.url": f"ext::{trap}",
        "remote.origin.promisor": "true",
        "include.path": "../evil",
    }
    for key, value in settings.items():
        work.git("config", key, value)
    for folder in (elsewhere, work.path / ".git/hooks"):
        folder.mkdir(exist_ok=True)
        for name in HOOKS:
            (folder / name).symlink_to(trap)


def test_repository_cannot_run_programs_or_be_written(
    work: Repository, github: GitHub, trap: Path, root: Path, ledger: MemoryLedger
) -> None:
    work.put(".gitattributes", "*.md filter=trap diff=trap\n")
    work.write(missing="what is not here would have to be fetched")
    work.commit()
    blob = work.git("rev-parse", "HEAD:missing.md")
    (work.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    _lay(trap, work, root / "hooks")
    before = _state(work.path)
    report = ledger.sync(github)
    assert report.fetched == {"project:one.md", "project:.gitattributes"}
    assert report.skipped == {"project:missing.md": SkipReason.NOT_STORED}
    assert github.probe()
    assert ledger.sync(github, deep=True).item_changes == []
    assert not (root / "ran").exists()
    assert _state(work.path) == before


def test_trap_works_with_plain_git(work: Repository, trap: Path, root: Path) -> None:
    _lay(trap, work, root / "hooks")
    with contextlib.suppress(subprocess.CalledProcessError):
        work.git("status")
    assert (root / "ran").exists()


def test_paths_outside_the_repository_are_skipped(work: Repository, github: GitHub, ledger: MemoryLedger) -> None:
    blob = work.git("hash-object", "-w", "--stdin", given="out")
    inner = work.git("mktree", given=f"100644 blob {blob}\tpasswd\n")
    top = "".join(f"040000 tree {inner}\t{name}\n" for name in ("..", ".git", "fine"))
    tree = _tree(work, top, inner)
    work.git("update-ref", "refs/heads/main", work.git("commit-tree", tree, "-m", "out"))
    report = ledger.sync(github)
    assert report.fetched == {"project:fine/passwd"}
    assert report.skipped == {
        "project:../passwd": SkipReason.EXCLUDED,
        "project:.git/passwd": SkipReason.EXCLUDED,
    }


def _tree(work: Repository, listing: str, inner: str) -> str:
    """Write a tree that git itself would reject."""
    rows = [line.split("\t")[1] for line in listing.splitlines()]
    data = b"".join(b"40000 " + name.encode() + b"\0" + bytes.fromhex(inner) for name in sorted(rows))
    (work.path / "raw").write_bytes(data)
    tree = work.git("hash-object", "-w", "-t", "tree", "--literally", "raw")
    (work.path / "raw").unlink()
    return tree


@pytest.mark.parametrize(
    "name",
    ["new\nline.md", "tab\there.md", "\x1b[31mred.md", "a:b#c@d.md", '"quoted".md', "-dash.md", " .md", "ü/ñ €.md"],
)
def test_hostile_names_are_harmless(work: Repository, github: GitHub, ledger: MemoryLedger, name: str) -> None:
    work.put(name, "content\n")
    work.commit()
    ledger.sync(github)
    assert ledger.documents()[f"project:{name}"] == b"content\n"
    work.git("mv", "--", name, f"moved {name}" if "/" not in name else "moved.md")
    work.commit()
    assert len(ledger.sync(github).moved) == 1


def test_names_that_are_not_utf8_are_distinguished(work: Repository, github: GitHub, ledger: MemoryLedger) -> None:
    for name in (b"caf\xe9.md", b"caf\xe8.md"):
        (work.path / os.fsdecode(name)).write_text("x")
    work.commit()
    assert ledger.sync(github).new == {"project:one.md", "project:caf\ufffde9.md", "project:caf\ufffde8.md"}


def test_tree_bomb_is_rejected(
    work: Repository, github: GitHub, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.sync(github)
    inner = work.git("hash-object", "-w", "--stdin", given="boom")
    tree = work.git("mktree", given=f"100644 blob {inner}\tf\n")
    for _ in range(12):
        tree = work.git("mktree", given="".join(f"040000 tree {tree}\td{n}\n" for n in range(10)))
    work.git("update-ref", "refs/heads/main", work.git("commit-tree", tree, "-m", "a bomb"))
    monkeypatch.setattr(objects, "MAX_FILES", 20_000)
    with pytest.raises(SourceUnavailable, match="more than 20000 files, nothing was changed"):
        ledger.sync(github)
    assert set(ledger.documents()) == {"project:one.md"}


def test_oversized_object_is_not_read(work: Repository, github: GitHub, ledger: MemoryLedger) -> None:
    work.put("zeros", b"\0" * 30_000_000)
    work.put("zeros.gitattributes", "")
    work.put(".gitattributes", b"x linguist-generated\n" * 10_000)
    work.commit()
    assert ledger.sync(github).skipped == {"project:zeros": SkipReason.TOO_LARGE}


@pytest.mark.parametrize(
    "given", ["--upload-pack=/bin/false", "a b", "a..b", "a~1", "-x", "a/", "/a", "a.lock", "@", "a\nb", ""]
)
def test_branch_cannot_be_an_option(given: str) -> None:
    with pytest.raises(ValueError, match="branch"):
        GitHubSettings(repositories=("ada/project",), branches=(given,))


@pytest.mark.parametrize(
    "address",
    ["http://example.org", "https://user:secret@example.org", "ext::sh", "file:///", "https://example.org/path"],
)
def test_address_must_be_a_host_with_tls(address: str) -> None:
    with pytest.raises(ValueError, match="address"):
        GitHubSettings(repositories=("ada/project",), address=address)
