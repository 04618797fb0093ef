"""The changed paths that the watcher passes to the worker."""

from __future__ import annotations

from datetime import UTC, datetime

from deployments.watch import changes as changes_module
from deployments.watch.changes import ChangedPaths


def _paths(changes: ChangedPaths, source: str) -> frozenset[str] | None:
    hint = changes.take(source)
    return None if hint is None else hint.paths


def test_paths_are_taken_once() -> None:
    changes = ChangedPaths()
    changes.add("notes", "a.md")
    changes.add("notes", "b.md")
    changes.add("papers", "c.md")
    assert not changes.is_taken("notes")
    assert _paths(changes, "notes") == {"a.md", "b.md"}
    assert changes.is_taken("notes")
    assert changes.take("notes") is None
    assert _paths(changes, "papers") == {"c.md"}


def test_too_many_paths_become_a_full_comparison() -> None:
    changes = ChangedPaths()
    for number in range(changes_module._MOST_PATHS + 1):
        changes.add("notes", f"{number}.md")
    assert not changes.is_taken("notes")
    assert changes.take("notes") is None


def test_lost_changes_become_a_full_comparison() -> None:
    changes = ChangedPaths()
    changes.add_all("notes")
    changes.add("notes", "a.md")
    assert changes.take("notes") is None


def test_paths_that_a_run_gave_back_join_the_later_ones() -> None:
    changes = ChangedPaths()
    changes.add("notes", "a.md")
    taken = changes.take("notes")
    changes.add("notes", "b.md")
    changes.give_back("notes", taken)
    assert _paths(changes, "notes") == {"a.md", "b.md"}
    changes.give_back("notes", None)
    assert (changes.is_taken("notes"), changes.take("notes")) == (False, None)


def test_hint_has_the_time_of_the_first_change_also_after_a_return() -> None:
    changes, before = ChangedPaths(), datetime.now(UTC)
    changes.add("notes", "a.md")
    after = datetime.now(UTC)
    changes.add("notes", "b.md")
    taken = changes.take("notes")
    changes.add("notes", "c.md")
    changes.give_back("notes", taken)
    hint = changes.take("notes")
    assert hint is not None
    assert before <= hint.since <= after


def test_forgotten_source_has_no_changes() -> None:
    changes = ChangedPaths()
    changes.add("notes", "a.md")
    changes.forget("notes")
    assert changes.is_taken("notes")
