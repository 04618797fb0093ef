"""The scenes of files inside files on PostgreSQL: the statements that follow moves, deletions and retries of containers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from catchment.settings import Home
from tests.engine import test_parts
from tests.engine.papers import Papers

pytestmark = pytest.mark.postgres


@pytest.fixture
def papers(home: Home, tmp_path: Path, empty_postgres: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Papers]:
    monkeypatch.setenv("CATCHMENT_DATABASE_URL", empty_postgres)
    (folder := tmp_path / "folder").mkdir()
    papers = Papers(home, folder)
    yield papers
    assert papers.ledger.check(deep=True) == [] and not (home.path / "ledger.db").exists()
    papers.ledger.close()


test_all_kinds_and_levels = test_parts.test_parts_of_all_kinds_and_levels_are_documents
test_changed_archive = test_parts.test_changed_archive_reads_only_changed_parts
test_moved_and_deleted_archive = test_parts.test_parts_follow_their_archive
test_file_that_moves_inside = test_parts.test_part_that_moves_between_a_folder_and_an_archive_keeps_its_document
test_guard = test_parts.test_many_vanished_parts_are_held_by_the_guard
test_dropped_deletions = test_parts.test_dropped_deletions_of_parts_are_compared_again
test_quarantine = test_parts.test_encrypted_damaged_and_large_parts_have_a_reason_of_their_own
test_repaired_archive = test_parts.test_repaired_archive_mends_its_parts
test_plan = test_parts.test_plan_counts_an_archive_as_one
test_proof = test_parts.test_proof_of_a_source_with_archives_finds_nothing
test_shown_parts = test_parts.test_container_shows_its_parts_and_a_part_its_container
test_one_hit = test_parts.test_a_message_in_a_mailbox_a_file_and_an_archive_is_one_hit
test_exchanged_names = test_parts.test_archives_that_exchange_their_names_keep_their_parts
test_size_limit = test_parts.test_parts_follow_the_size_limit
