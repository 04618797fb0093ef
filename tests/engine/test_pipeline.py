"""The engine driven directly: no server, but a real ledger file, real files and real parser processes."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from catchment.errors import LedgerUnavailable, NotNow, SourceUnavailable
from catchment.ledger import Ledger
from catchment.model import JobState
from catchment.settings import Home, Limits, Policy, Priority, RetryPolicy
from catchment.sync.source_sync import HELD_AFTER, SourceSync, open_sync
from tests.documents import document_named
from tests.engine.hostile import Hostile
from tests.hits import find_hits

NOW = RetryPolicy(backoff="immediate", attempts=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder


@pytest.fixture
def reads(tmp_path: Path) -> Callable[[], dict[str, int]]:
    """Return the number of reads of each file."""
    place = tmp_path / "reads"
    place.mkdir()
    return lambda: {path.name: path.stat().st_size for path in place.iterdir()}


@contextmanager
def syncing(home: Home, folder: Path, policy: Policy | None = None) -> Iterator[SourceSync]:
    connector = Hostile(Hostile.settings(root=folder))
    with open_sync(home, connector, "papers", policy or Policy(retry=NOW), Priority.NORMAL) as sync:
        yield sync


def work(sync: SourceSync, batch: int = 250) -> None:
    while (token := sync.claim(batch)) is not None:
        sync.process(token)


def full_sync(home: Home, folder: Path, policy: Policy | None = None) -> dict[str, int]:
    with syncing(home, folder, policy) as sync:
        sync.discover()
        work(sync)
        for job in list(sync.troubles):
            while (trouble := sync.process_alone(job)) and trouble.retry_at is not None:
                pass
        return sync.finish("completed")


def ledger(home: Home) -> Ledger:
    return Ledger.open(home.database_url)


def test_hostile_items_do_not_affect_their_neighbours(
    home: Home, folder: Path, reads: Callable[[], dict[str, int]]
) -> None:
    for n in range(196):
        (folder / f"note {n}.md").write_text(f"Note number {n}")
    for name in ("unreadable", "hangs", "swells", "kills"):
        (folder / f"{name}.md").write_text(name)
    policy = Policy(retry=NOW, limits=Limits(stall_seconds=2, total_seconds=4, memory_mb=512))
    summary = full_sync(home, folder, policy)
    assert (summary["succeeded"], summary["quarantined"]) == (196, 4)
    found = {entry.item: entry.reason for entry in ledger(home).quarantine.list()}
    assert found == {
        "unreadable.md": "permission_denied",
        "hangs.md": "timeout",
        "swells.md": "resource_exhausted",
        "kills.md": "process_killed",
    }
    assert {name: n for name, n in reads().items() if name.startswith("note")} == {
        f"note {n}.md": 1 for n in range(196)
    }
    assert ledger(home).check(deep=True) == []


def test_second_sync_of_an_unchanged_folder_reads_no_file(
    home: Home, folder: Path, reads: Callable[[], dict[str, int]]
) -> None:
    (folder / "a.md").write_text("A")
    full_sync(home, folder)
    before = reads()
    summary = full_sync(home, folder)
    assert reads() == before
    assert summary["listed"] == summary["succeeded"] == 0


@pytest.fixture
def costly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each item takes long enough to be stored when it is parsed."""
    monkeypatch.setattr("catchment.sync.batch._WORTH_STORING_SECONDS", 0)


@pytest.mark.usefixtures("costly")
def test_parsed_items_are_not_reread_after_a_downstream_failure(
    home: Home, folder: Path, reads: Callable[[], dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(20):
        (folder / f"note {n}.md").write_text(f"Note number {n}")
    with syncing(home, folder) as sync:
        sync.discover()
        token = sync.claim(50)
        assert token is not None
        sync.normalize(token)
        with monkeypatch.context() as patch:
            patch.setattr(sync._ledger.queue, "deliver", _disk_full)
            with pytest.raises(LedgerUnavailable):
                sync.process(token)
    with syncing(home, folder) as sync:
        sync.discover()
        work(sync)
        assert sync.finish("completed")["succeeded"] == 20
    assert set(reads().values()) == {1}


def _disk_full(*_arguments: object) -> None:
    raise LedgerUnavailable("the disk is full; make room and sync again")


@pytest.mark.usefixtures("costly")
def test_killed_sync_resumes_and_parses_no_costly_item_twice(
    home: Home, folder: Path, reads: Callable[[], dict[str, int]]
) -> None:
    _kill_after_two_batches(home, folder)
    assert full_sync(home, folder)["succeeded"] == 60
    assert set(reads().values()) == {1}
    assert ledger(home).check(deep=True) == []


def test_killed_sync_parses_quick_items_of_open_batches_again(
    home: Home, folder: Path, reads: Callable[[], dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catchment.sync.batch._WORTH_STORING_SECONDS", 60)
    _kill_after_two_batches(home, folder)
    assert full_sync(home, folder)["succeeded"] == 60
    assert sorted(reads().values()) == [1] * 20 + [2] * 40
    assert ledger(home).check(deep=True) == []


def _kill_after_two_batches(home: Home, folder: Path) -> None:
    for n in range(60):
        (folder / f"note {n}.md").write_text(f"Note number {n}")
    child = os.fork()
    if child == 0:
        with syncing(home, folder) as sync:
            sync.discover()
            for _ in range(2):
                token = sync.claim(20)
                assert token is not None
                sync.normalize(token)
            os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    counts = ledger(home).queue.counts()["papers"]
    assert counts["running"] == 40


def test_transient_failure_is_retried_and_leaves_no_trace(
    home: Home, folder: Path, reads: Callable[[], dict[str, int]]
) -> None:
    (folder / "flaky.md").write_text("It works the second time")
    summary = full_sync(home, folder)
    assert (summary["succeeded"], summary["quarantined"]) == (1, 0)
    assert ledger(home).quarantine.list() == []
    assert reads() == {"flaky.md": 2}


def test_a_long_wait_is_left_to_a_later_sync(home: Home, folder: Path, reads: Callable[[], dict[str, int]]) -> None:
    (folder / "flaky.md").write_text("It works the second time")
    slow = Policy(retry=RetryPolicy(backoff="fixed", initial=600, maximum=600))
    with syncing(home, folder, slow) as sync:
        sync.discover()
        work(sync)
        (trouble,) = sync.troubles.values()
        assert sync.waits(trouble, at_most=5) is None
        assert sync.next_retry() is not None
        assert sync.jobs_to_process_alone(10) == {}
        assert sync.finish("completed")["retrying"] == 1


def test_item_cancelled_between_attempts_is_no_longer_failing(
    home: Home, folder: Path, reads: Callable[[], dict[str, int]]
) -> None:
    (folder / "flaky.md").write_text("It works the second time")
    with syncing(home, folder) as sync:
        sync.discover()
        work(sync)
        (job,) = sync.troubles
        sync._ledger.queue.cancel(job, "operator", "not needed")
        assert sync.process_alone(job) is None
        assert sync.troubles == {}
        assert sync.finish("completed")["retrying"] == 0


def test_undelivered_attempt_is_resumed(
    home: Home, folder: Path, reads: Callable[[], dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "note.md").write_text("A note")

    def busy(*_: object) -> None:
        raise LedgerUnavailable("the ledger is busy")

    with syncing(home, folder) as sync:
        sync.discover()
        (job,) = sync._ledger.queue.jobs()
        with monkeypatch.context() as patch:
            patch.setattr(sync._ledger.queue, "deliver", busy)
            with pytest.raises(LedgerUnavailable):
                sync.process_alone(job.job)
        assert sync.process_alone(job.job) is None
        assert sync.finish("completed")["succeeded"] == 1
    assert reads() == {"note.md": 1}
    assert (row := ledger(home).queue.job(job.job)).state is JobState.SUCCEEDED and row.attempts == 1


def test_sync_requests_a_follow_up_for_remaining_retries(
    home: Home, folder: Path, reads: Callable[[], dict[str, int]]
) -> None:
    for n in range(3):
        (folder / f"flaky {n}.md").write_text(f"It works the second time, {n}")
    at_once = Policy(retry=RetryPolicy(backoff="immediate", attempts=3))
    with syncing(home, folder, at_once) as sync:
        sync.discover()
        work(sync)
        sync.finish("completed")
    with syncing(home, folder, at_once) as sync:
        (job,) = sync.jobs_to_process_alone(1)
        assert sync.process_alone(job) is None
        left = sync.next_retry()
        assert left is not None and left <= datetime.now(UTC)
        for job in sync.jobs_to_process_alone(10):
            assert sync.process_alone(job) is None
        assert sync.next_retry() is None


def test_copied_file_is_parsed_once_and_found_at_both_paths(
    home: Home, folder: Path, reads: Callable[[], dict[str, int]]
) -> None:
    text = "---\nmodified: 2020-02-20\n---\n# Words\n" + "The same long words. " * 5_000
    (folder / "first.md").write_text(text)
    full_sync(home, folder)
    (folder / "second.md").write_text(text)
    with syncing(home, folder) as sync:
        sync.discover()
        work(sync)
        assert sync.finish("completed")["reused"] == 1
    (hit,) = find_hits(ledger(home), "same long words")
    assert sorted(hit.places) == [("papers", "first.md"), ("papers", "second.md")]
    first, second = (document_named(ledger(home), name) for name in ("first.md", "second.md"))
    assert (second.title, second.modified) == (first.title, first.modified)
    assert (second.title, second.modified) == ("Words", datetime(2020, 2, 20, tzinfo=UTC))


def test_a_rename_costs_no_read_and_keeps_the_document(
    home: Home, folder: Path, reads: Callable[[], dict[str, int]]
) -> None:
    (folder / "old.md").write_text("A note that moves")
    full_sync(home, folder)
    (before,) = find_hits(ledger(home), "moves")
    (folder / "sub").mkdir()
    (folder / "old.md").rename(folder / "sub" / "new.md")
    summary = full_sync(home, folder)
    assert (summary["moved"], summary["read"], summary["deleted"]) == (1, 0, 0)
    (after,) = find_hits(ledger(home), "moves")
    assert (after.document, after.item, after.title) == (before.document, "sub/new.md", "new")


@pytest.mark.parametrize(
    ("old", "new", "size"), [("plan.txt", "plan.md", 7_000), ("plan", "plan.md", 1), ("plan.md", "plan.txt", 1)]
)
def test_rename_to_another_type_rereads_once_and_keeps_the_document(
    home: Home, folder: Path, reads: Callable[[], dict[str, int]], old: str, new: str, size: int
) -> None:
    (folder / old).write_text("# The plan\n\nsee [[other]]\n" + "many words " * size)
    (folder / "other.md").write_text("See [[plan]] and [[plan.txt]]")
    full_sync(home, folder)
    before = document_named(ledger(home), old)
    (folder / old).rename(folder / new)
    summary = full_sync(home, folder)
    assert (summary["moved"], summary["deleted"]) == (1, 0)
    after = document_named(ledger(home), new)
    assert (after.document, after.item_id) == (before.document, before.item_id)
    assert [locator for locator, _ in after.mentions] == ["other.md"]
    assert "moved" in [event.event for event in ledger(home).history.of_item(after.item_id)]
    assert {before.content.media_type, after.content.media_type} == {"text/plain", "text/markdown"}
    assert [bool(shown.links) for shown in (before, after)] == [old.endswith("md"), new.endswith("md")]
    assert after.title == ("The plan" if new.endswith("md") else "plan")
    assert full_sync(home, folder)["jobs"] == 0
    assert reads()[new] == reads()[old] == (1 if size == 1 else 2), "a large file is hashed before it is parsed"
    assert ledger(home).check(deep=True) == []


@pytest.mark.parametrize(("old", "new"), [("a.md", "b.MD"), ("a", "b"), ("a.txt.gz", "b.txt.gz")])
def test_rename_with_the_same_extension_costs_no_read(
    home: Home, folder: Path, reads: Callable[[], dict[str, int]], old: str, new: str
) -> None:
    (folder / old).write_bytes(gzip.compress(b"words") if old.endswith("gz") else b"words")
    full_sync(home, folder)
    (folder / old).rename(folder / new)
    summary = full_sync(home, folder)
    assert (summary["moved"], summary["jobs"]) == (1, 0)
    assert reads() == {old: 1}


def test_name_overruled_by_content_changes_no_document(
    home: Home, folder: Path, reads: Callable[[], dict[str, int]]
) -> None:
    (folder / "page.txt").write_text("<!doctype html><p>words")
    full_sync(home, folder)
    before = document_named(ledger(home), "page.txt")
    (folder / "page.txt").rename(folder / "page.html")
    assert full_sync(home, folder)["unchanged"] == 1
    assert document_named(ledger(home), "page.html").document == before.document
    assert ledger(home).check() == []


def test_a_file_moved_by_copy_and_delete_keeps_its_document(
    home: Home, folder: Path, reads: Callable[[], dict[str, int]]
) -> None:
    (folder / "old.md").write_text("A note that moves to another disk")
    full_sync(home, folder)
    (before,) = find_hits(ledger(home), "another disk")
    (folder / "new.md").write_bytes((folder / "old.md").read_bytes())
    (folder / "old.md").unlink()
    full_sync(home, folder)
    (after,) = find_hits(ledger(home), "another disk")
    assert (after.document, after.item) == (before.document, "new.md")


def test_emptied_folder_deletes_no_document_without_approval(
    home: Home, folder: Path, reads: Callable[[], dict[str, int]]
) -> None:
    for n in range(30):
        (folder / f"note {n}.md").write_text(f"Note number {n}")
    full_sync(home, folder)
    for path in folder.iterdir():
        path.unlink()
    assert full_sync(home, folder)["held"] == 30
    assert len(find_hits(ledger(home), "number", limit=50)) == 30
    source = ledger(home).sources.get("papers")
    ledger(home).intake.apply_hold(source.id, "ada", "they are really gone")
    assert find_hits(ledger(home), "number") == []


def test_repeatedly_failing_source_is_paused_until_resumed(
    home: Home, folder: Path, reads: Callable[[], dict[str, int]]
) -> None:
    (folder / "a.md").write_text("A")
    full_sync(home, folder)
    folder.rename(folder.with_name("unplugged"))
    for attempt in range(1, HELD_AFTER + 1):
        with syncing(home, folder) as sync, pytest.raises(SourceUnavailable) as error:
            sync.discover()
        with syncing(home, folder) as sync:
            sync.finish("failed", error.value)
            assert sync.outcome == ("quarantined" if attempt == HELD_AFTER else "failed")
    with pytest.raises(NotNow, match="catchment sources resume papers"), syncing(home, folder):
        pass
    ledger(home).sources.resume("papers", "ada")
    folder.with_name("unplugged").rename(folder)
    assert full_sync(home, folder)["deleted"] == 0


def test_abandoned_sync_releases_its_jobs(home: Home, folder: Path, reads: Callable[[], dict[str, int]]) -> None:
    (folder / "a.md").write_text("A")
    with syncing(home, folder) as sync:
        sync.discover()
        assert sync.claim(5) is not None
    counts = ledger(home).queue.counts()["papers"]
    assert counts.get(JobState.PENDING) == 1
    assert counts.get(JobState.RUNNING, 0) == 0
