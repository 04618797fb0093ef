"""Files of a local clone and their changes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from catchment.errors import Skipped, SourceInvalid, SourceUnavailable
from catchment.model import Skip, SkipReason, Tombstone, Upsert
from connectors.contract.memory_ledger import MemoryLedger
from connectors.github import GitHub
from connectors.github.settings import GitHubSettings
from tests.connectors.github.repository import Repository

Reading = Callable[..., GitHub]


@pytest.fixture
def work(root: Path) -> Repository:
    """A repository with three committed files."""
    work = Repository.made(root / "project")
    work.write(one="# One\n" * 20, a__two="# Two\n" * 20, a__three="# Three\n" * 20)
    work.commit()
    return work


@pytest.fixture
def github(work: Repository) -> Iterator[GitHub]:
    connector = GitHub(GitHubSettings(clone=work.path))
    yield connector
    connector.close()


@pytest.fixture
def reading() -> Iterator[Reading]:
    """Create connectors for a clone; closed after the test."""
    with ExitStack() as made:

        def connector(work: Repository, **settings: object) -> GitHub:
            github = GitHub(GitHubSettings(clone=work.path, **settings))  # type: ignore[arg-type]
            made.callback(github.close)
            return github

        yield connector


def test_only_committed_files_are_read(work: Repository, github: GitHub, ledger: MemoryLedger) -> None:
    work.write(one="not committed", four="neither")
    assert ledger.sync(github).new == {"project:one.md", "project:a/two.md", "project:a/three.md"}
    assert ledger.documents()["project:one.md"] == b"# One\n" * 20


def test_file_renamed_in_git_is_moved_without_reading(work: Repository, github: GitHub, ledger: MemoryLedger) -> None:
    ledger.sync(github)
    work.git("mv", "a", "b")
    work.commit()
    report = ledger.sync(github)
    assert report.moved == {
        "project:a/two.md": "project:b/two.md",
        "project:a/three.md": "project:b/three.md",
    }
    assert (report.new, report.deleted, report.fetched) == (set(), set(), set())


def test_file_renamed_and_edited_is_the_same_item(work: Repository, github: GitHub, ledger: MemoryLedger) -> None:
    ledger.sync(github)
    number = ledger.rows["project:a/two.md"].number
    work.git("mv", "a/two.md", "deux.md")
    work.put("deux.md", "# Two\n" * 20 + "and more\n")
    work.commit()
    report = ledger.sync(github)
    assert report.moved == {"project:a/two.md": "project:deux.md"}
    assert report.fetched == {"project:deux.md"}
    assert ledger.rows["project:deux.md"].number == number


def test_missing_contents_do_not_affect_other_renames(work: Repository, github: GitHub, ledger: MemoryLedger) -> None:
    large = random.Random(1).randbytes(4_000_000)
    for name in ("large", "[k]ept", "leaving"):
        work.put(f"{name}.bin", name.encode() + large)
    before = work.commit()
    work.git("mv", "a/two.md", "deux.md")
    work.put("deux.md", "# Two\n" * 20 + "and more\n")
    work.git("mv", "[k]ept.bin", "renamed.bin")
    work.git("rm", "--quiet", "leaving.bin")
    work.put("large.bin", b"edited" + large)
    work.put("new [1].bin", b"another" + large)
    after = work.commit()
    # As in a partial clone: the content of large files is not in the store.
    for commit, name in (
        (before, "large"),
        (before, "leaving"),
        (after, "large"),
        (after, "renamed"),
        (after, "new [1]"),
    ):
        blob = work.git("rev-parse", f"{commit}:{name}.bin")
        (work.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    work.git("update-ref", "refs/heads/main", before)
    assert set(ledger.sync(github).skipped.values()) == {SkipReason.NOT_STORED}
    number = ledger.rows["project:a/two.md"].number
    work.git("update-ref", "refs/heads/main", after)
    report = ledger.sync(github)
    assert report.moved["project:a/two.md"] == "project:deux.md"
    assert report.fetched == {"project:deux.md"}
    assert ledger.rows["project:deux.md"].number == number
    assert set(report.skipped) == {f"project:{name}.bin" for name in ("large", "renamed", "new [1]")}
    assert {"project:leaving.bin", "project:[k]ept.bin"}.isdisjoint(ledger.present())


def test_renamed_empty_files_are_not_confused(work: Repository, github: GitHub, ledger: MemoryLedger) -> None:
    for name in ("x/__init__.py", "y/__init__.py"):
        work.put(name, "")
    work.commit()
    ledger.sync(github)
    numbers = {name: ledger.rows[f"project:{name}/__init__.py"].number for name in "xy"}
    work.git("mv", "x", "x2")
    work.git("mv", "y", "y2")
    work.commit()
    ledger.sync(github)
    assert {name: ledger.rows[f"project:{name}2/__init__.py"].number for name in "xy"} == numbers


def test_only_differences_between_commits_are_reported(work: Repository, github: GitHub, ledger: MemoryLedger) -> None:
    ledger.sync(github)
    work.write(one="changed")
    (work.path / "a/three.md").unlink()
    work.commit()
    work.write(five="new")
    work.commit()
    report = ledger.sync(github)
    assert (report.new, report.changed, report.deleted) == (
        {"project:five.md"},
        {"project:one.md"},
        {"project:a/three.md"},
    )
    assert len(report.item_changes) == 3


def test_rewritten_history_reports_only_differences(work: Repository, github: GitHub, ledger: MemoryLedger) -> None:
    ledger.sync(github)
    work.write(one="another first commit")
    work.commit("--amend")
    work.git("reflog", "expire", "--expire=now", "--all")
    work.git("gc", "--quiet", "--prune=now")
    report = ledger.sync(github)
    assert (report.new, report.changed, report.deleted) == (set(), {"project:one.md"}, set())


def test_changed_default_branch_keeps_its_items(work: Repository, github: GitHub, ledger: MemoryLedger) -> None:
    ledger.sync(github)
    work.git("checkout", "--quiet", "-b", "trunk")
    work.write(one="of the trunk")
    work.commit()
    work.git("branch", "-D", "main")
    report = ledger.sync(github)
    assert (report.new, report.changed, report.deleted) == (set(), {"project:one.md"}, set())


def test_deleted_branches_remove_their_items(work: Repository, ledger: MemoryLedger, reading: Reading) -> None:
    work.git("branch", "feature/gauge")
    both = reading(work, branches=("main", "feature/gauge"))
    assert "project@feature/gauge:a/two.md" in ledger.sync(both).new
    assert len(ledger.documents()) == 6
    work.git("branch", "-D", "feature/gauge")
    report = ledger.sync(both)
    assert len(report.deleted) == 3
    assert all(locator.startswith("project@feature/gauge:") for locator in report.deleted)
    assert ledger.sync(both).item_changes == []


def test_deselected_branch_is_skipped_and_not_deleted(work: Repository, ledger: MemoryLedger, reading: Reading) -> None:
    ledger.sync(reading(work, branches=("main",)))
    report = ledger.sync(reading(work))
    assert set(report.skipped) == {"project@main:one.md", "project@main:a/two.md", "project@main:a/three.md"}
    assert (report.deleted, len(report.new)) == (set(), 3)
    assert len(ledger.sync(reading(work, branches=("main",))).changed) == 3


def test_repository_without_commits_has_no_files(root: Path, ledger: MemoryLedger, reading: Reading) -> None:
    empty = Repository.made(root / "empty")
    assert ledger.sync(reading(empty)).item_changes == []
    assert "without commits" in reading(empty).probe()
    empty.write(one="first")
    empty.commit()
    assert ledger.sync(reading(empty)).new == {"empty:one.md"}


@pytest.mark.parametrize("options", [("--bare",), ("--object-format=sha256",)])
def test_bare_and_sha256_repositories_are_read(
    root: Path, work: Repository, ledger: MemoryLedger, options: tuple[str, ...], reading: Reading
) -> None:
    if options == ("--bare",):
        work.git("clone", "--quiet", "--bare", ".", str(root / "other"))
        other = Repository(root / "other")
    else:
        other = Repository.made(root / "other", *options)
        other.write(one="long")
        other.commit()
    connector = reading(other)
    assert ledger.sync(connector).fetched
    assert ledger.sync(connector).item_changes == []


def test_linked_work_tree_is_read_like_a_clone(
    root: Path, work: Repository, ledger: MemoryLedger, reading: Reading
) -> None:
    work.git("worktree", "add", "--quiet", "-b", "dev", str(root / "second"))
    assert ledger.sync(reading(Repository(root / "second"))).fetched


def test_patterns_select_files_and_skip_excluded_ones(work: Repository, ledger: MemoryLedger, reading: Reading) -> None:
    ledger.sync(reading(work))
    report = ledger.sync(reading(work, paths=("/a/",), exclude=("three.*",)))
    assert set(report.skipped) == {"project:one.md", "project:a/three.md"}
    assert report.deleted == set()
    assert ledger.sync(reading(work, paths=("/a/",), exclude=("three.*",))).item_changes == []
    assert ledger.sync(reading(work)).fetched == {"project:one.md", "project:a/three.md"}


def test_generated_and_vendored_files_are_skipped(work: Repository, ledger: MemoryLedger, reading: Reading) -> None:
    work.put(
        ".gitattributes",
        "gen/** linguist-generated\n*.lock -linguist-generated\n/own/vendor/** linguist-vendored=false\n"
        "x\u2028y\u00a0z.py linguist-generated\r\n",
    )
    for name in (
        "x\u2028y\u00a0z.py",
        "gen/a.py",
        "b.min.js",
        "vendor/c.go",
        "own/vendor/d.go",
        "yarn.lock",
        "node_modules/e/f.js",
    ):
        work.put(name, f"// {name}\n")
    work.commit()
    report = ledger.sync(reading(work))
    skipped = {c.item.locator: c.item.attributes["type"] for c in report.item_changes if isinstance(c, Skip)}
    assert skipped == {
        "project:gen/a.py": "generated",
        "project:x\u2028y\u00a0z.py": "generated",
        "project:b.min.js": "generated",
        "project:vendor/c.go": "vendored",
        "project:node_modules/e/f.js": "vendored",
    }
    everything = ledger.sync(reading(work, generated=True))
    assert everything.fetched == set(skipped)


def test_changed_attributes_apply_to_unchanged_files(work: Repository, github: GitHub, ledger: MemoryLedger) -> None:
    ledger.sync(github)
    work.put("a/.gitattributes", "two.md linguist-generated\n")
    work.commit()
    assert ledger.sync(github).skipped == {"project:a/two.md": SkipReason.EXCLUDED}
    (work.path / "a/.gitattributes").unlink()
    work.commit()
    assert ledger.sync(github).fetched == {"project:a/two.md"}


def test_unreadable_files_are_skipped_with_a_reason(work: Repository, ledger: MemoryLedger, reading: Reading) -> None:
    work.put("large.txt", "x" * 20_000)
    (work.path / "link.md").symlink_to("one.md")
    (work.path / "way-out").symlink_to("/etc/passwd")
    work.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    work.git("commit", "--quiet", "--message", "a submodule")
    work.git("add", "large.txt", "link.md", "way-out")
    work.git("commit", "--quiet", "--message", "more")
    report = ledger.sync(reading(work, limits={"max_mb": 0.01}))
    assert report.skipped == {
        "project:large.txt": SkipReason.TOO_LARGE,
        "project:link.md": SkipReason.EXCLUDED,
        "project:way-out": SkipReason.EXCLUDED,
        "project:sub": SkipReason.UNSUPPORTED,
    }


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", SkipReason.UNSUPPORTED),
        ("// Code generated by protoc-gen-go. DO NOT EDIT.\npackage a\n", SkipReason.EXCLUDED),
        ("/* @generated by a program */\n", SkipReason.EXCLUDED),
    ],
)
def test_files_recognised_by_content_are_skipped_on_reading(
    work: Repository, github: GitHub, ledger: MemoryLedger, content: str, reason: SkipReason
) -> None:
    work.put("odd.go", content)
    work.commit()
    error = ledger.sync(github).failed["project:odd.go"]
    assert isinstance(error, Skipped)
    assert error.skip_reason is reason


def test_attributes_decide_about_files_that_call_themselves_generated(
    work: Repository, github: GitHub, ledger: MemoryLedger
) -> None:
    work.put("made.go", "// Code generated by hand. DO NOT EDIT.\n")
    work.commit()
    assert isinstance(ledger.sync(github).failed["project:made.go"], Skipped)
    work.put(".gitattributes", "made.go -linguist-generated\n")
    work.commit()
    ledger.sync(github)
    assert ledger.documents()["project:made.go"].startswith(b"// Code generated")
    work.put(".gitattributes", "")
    work.commit()
    assert isinstance(ledger.sync(github).failed["project:made.go"], Skipped)


def test_names_that_differ_in_case_are_separate_files(work: Repository, github: GitHub, ledger: MemoryLedger) -> None:
    blobs = {name: work.git("hash-object", "-w", "--stdin", given=name) for name in ("README.md", "readme.md")}
    for name, blob in blobs.items():
        work.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{name}")
    work.git("commit", "--quiet", "--message", "both")
    ledger.sync(github)
    assert ledger.documents()["project:README.md"] == b"README.md"
    assert ledger.documents()["project:readme.md"] == b"readme.md"


def test_interrupted_listing_of_a_large_repository_resumes(root: Path, ledger: MemoryLedger, reading: Reading) -> None:
    many = Repository.made(root / "many")
    for number in range(1_100):
        many.put(f"{number % 20}/{number}.md", f"note {number}")
    many.commit()
    connector = reading(many)
    ledger.sync(connector, cut=1_050, fetch=False)
    assert len(ledger.present()) == 1_000
    report = ledger.sync(connector, fetch=False)
    assert len(report.new) == 100
    assert len(ledger.present()) == 1_100
    connector.close()


@pytest.mark.parametrize("back", [("reset", "--hard", "HEAD~1"), ("revert", "--no-edit", "HEAD")])
def test_changes_reverted_after_an_interruption_are_undone(
    work: Repository, github: GitHub, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch, back: tuple[str, ...]
) -> None:
    monkeypatch.setattr("connectors.github.git.code_listing._CHANGES_PER_CHECKPOINT", 1)
    ledger.sync(github)
    before = ledger.documents()
    work.write(one="changed")
    (work.path / "a/two.md").unlink()
    work.commit()
    reported = [isinstance(change, (Tombstone, Upsert)) for change in github.changes(ledger.known())]
    ledger.sync(github, cut=len(reported) - reported[::-1].index(True) + 1)
    assert ledger.documents().keys() == before.keys() - {"project:a/two.md"}
    work.git(*back)
    ledger.sync(github)
    assert ledger.documents() == before


def test_clone_has_no_rate_limit(github: GitHub) -> None:
    assert (github.limits().host, github.limits().per_hour) == ("this machine", None)


def test_folder_without_a_repository_is_rejected(root: Path, reading: Reading) -> None:
    (root / "plain").mkdir()
    with pytest.raises(SourceInvalid, match=r"not a clone of a repository; choose the folder that contains \.git"):
        reading(Repository(root / "plain")).probe()


def test_damaged_clone_is_an_error_and_keeps_items(work: Repository, github: GitHub, ledger: MemoryLedger) -> None:
    ledger.sync(github)
    work.write(one="more")
    commit = work.commit()
    tree = work.git("rev-parse", f"{commit}^{{tree}}")
    (work.path / ".git/objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(SourceUnavailable, match="; "):
        ledger.sync(github)
    assert len(ledger.documents()) == 3


def test_file_metadata_names_repository_and_path(work: Repository, github: GitHub, ledger: MemoryLedger) -> None:
    work.put("src/tool.py", "print()\n")
    work.commit()
    items = {
        change.item.locator: change.item for change in ledger.sync(github).item_changes if isinstance(change, Upsert)
    }
    raw = github.fetch(items["project:src/tool.py"])
    assert (raw.name, raw.title) == ("tool.py", "tool.py")
    assert raw.metadata == {"repository": "project", "path": "src/tool.py"}
    assert github.fetch(items["project:one.md"]).title is None


def test_clone_with_a_read_error_is_unavailable(ledger: MemoryLedger) -> None:
    connector = GitHub(GitHubSettings(clone=Path("/") / ("long" * 100)))
    with pytest.raises(SourceUnavailable, match=r"read error .*; check its disk"):
        ledger.sync(connector)
