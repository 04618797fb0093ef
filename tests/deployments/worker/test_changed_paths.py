"""The changed paths from the watcher to a sync, which takes them once."""

from __future__ import annotations

import pytest

from tests.deployments.worker.conftest import Pool
from tests.waiting import until

pytestmark = pytest.mark.server


def test_changed_paths_reach_one_run_that_reads_and_asks_for_them(idle_pool: Pool) -> None:
    idle_pool.start_watching_worker("notes", "a.md", "b/c.md")

    def paths_of(name: str, *, changed_only: bool, held: bool = False) -> str:
        run = idle_pool.run("changed_paths", name=name, changed_only=changed_only, held=held)
        return str(idle_pool.await_state(run, "COMPLETED")["state"]["message"])

    assert paths_of("papers", changed_only=True) == "None"
    assert paths_of("notes", changed_only=True, held=True) == "held"
    # The worker gives them back when it hears of the end of the run, which another run may precede.
    taken = until(lambda: paths_of("notes", changed_only=True), lambda paths: paths != "None")
    assert taken == "['a.md', 'b/c.md']"
    assert paths_of("notes", changed_only=True) == "None"


def test_full_comparison_takes_the_changed_paths(idle_pool: Pool) -> None:
    idle_pool.start_watching_worker("notes", "a.md")

    for changed_only in (False, True):
        run = idle_pool.run("changed_paths", name="notes", changed_only=changed_only)
        assert idle_pool.await_state(run, "COMPLETED")["state"]["message"] == "None"
