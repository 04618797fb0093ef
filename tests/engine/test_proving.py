"""Proofs: every difference between a library and its source is found, reported and repaired."""

from __future__ import annotations

import shutil
from errno import EACCES
from pathlib import Path

import pytest

from catchment.errors import TryAgain
from catchment.runtime.process import alive, identity
from catchment.settings import Home
from catchment.sync.prove import Flaw, Proven
from connectors.folders.scan import FolderListing, Lister, ScannedFolder
from connectors.local_files import LocalFiles
from tests.documents import document_named
from tests.engine.papers import Papers
from tests.hits import find_hits


@pytest.fixture
def papers(home: Home, tmp_path: Path) -> Papers:
    made = Papers(home, tmp_path / "papers")
    for n in range(4):
        made.write(f"{n}.md", f"# Paper {n}\n\nWhat paper {n} says.")
    made.write("sub/deep.md", "Below")
    with (made.folder / "sub" / "huge.bin").open("wb") as file:
        file.truncate(200_000_000)
    made.sync()
    return made


def found(proven: Proven) -> dict[str, str]:
    return {finding.item: finding.flaw.value for finding in proven.findings}


def harm(papers: Papers, *statements: str) -> None:
    with papers.ledger._store.write() as writing:
        for statement in statements:
            writing.connection.exec_driver_sql(statement)


def test_consistent_library_is_proved_by_folder(papers: Papers) -> None:
    proven = papers.prove()
    assert proven.holds and found(proven) == {}
    told = [(f.name, f.source, f.ledger, f.library, f.set_apart) for f in proven.folders]
    assert told == [("", 4, 4, 4, 0), ("sub", 2, 2, 1, 1)]
    assert all(folder.digest for folder in proven.folders)


def test_items_of_a_silent_host_are_not_proved(papers: Papers, monkeypatch: pytest.MonkeyPatch) -> None:
    left = {"0.md": "the host does not answer", "never read": "the host does not answer"}
    monkeypatch.setattr(LocalFiles, "left", lambda _: left, raising=False)
    proven = papers.prove()
    assert not proven.holds
    assert found(proven) == dict.fromkeys(left, "unreadable")
    assert {folder.name: folder.flaws for folder in proven.folders if folder.flaws} == {"": {Flaw.UNREADABLE: 2}}


def test_folder_renamed_during_a_repair_keeps_its_documents(papers: Papers) -> None:
    before = papers.documents()
    (papers.folder / "sub").rename(papers.folder / "other")
    papers.repair(papers.prove())
    (papers.folder / "other").rename(papers.folder / "sub")
    papers.sync()
    assert papers.documents() == before


def test_later_source_changes_are_found_and_queued(papers: Papers) -> None:
    papers.write("new.md", "New")
    papers.write("1.md", "Another text")
    (papers.folder / "2.md").unlink()
    (papers.folder / "3.md").rename(papers.folder / "sub" / "three.md")
    proven = papers.prove()
    assert found(proven) == {"1.md": "stale", "2.md": "ghost", "new.md": "missing", "sub/three.md": "stale"}
    assert [(f.name, f.source, f.ledger) for f in proven.folders] == [("", 3, 4), ("sub", 3, 2)]
    assert papers.repair(proven) == 0
    assert found(papers.prove()) == {"1.md": "waiting", "new.md": "waiting"}
    papers.sync()
    assert papers.prove().holds
    assert papers.documents().keys() == {"0.md", "1.md", "new.md", "sub/deep.md", "sub/three.md"}


def test_edit_with_unchanged_size_and_time_is_found(papers: Papers) -> None:
    # Simulate an earlier read with other contents.
    harm(
        papers,
        "UPDATE contents SET hash = 'another' WHERE text LIKE '%Below%'",
        "UPDATE items SET content_hash = 'another' WHERE locator = 'sub/deep.md'",
    )
    assert papers.plan().steps == ()
    proven = papers.prove()
    assert found(proven) == {"sub/deep.md": "stale"}
    papers.repair(proven)
    papers.sync()
    assert papers.prove().holds


def test_missing_index_of_a_successful_job_is_repaired(papers: Papers) -> None:
    harm(
        papers, *(f"INSERT INTO {index} ({index}) VALUES ('delete-all')" for index in ("chunk_index", "document_index"))
    )
    assert find_hits(papers.ledger, "paper") == []
    proven = papers.prove()
    assert proven.index == ("5 passages are not in the index", "5 names of documents are not in the index")
    papers.repair(proven)
    assert papers.prove().holds
    assert len(find_hits(papers.ledger, "paper")) == 4
    assert papers.ledger.check(deep=True) == []


def test_wrong_words_in_the_index_are_repaired(papers: Papers) -> None:
    harm(
        papers,
        "INSERT INTO chunk_index (chunk_index, rowid, heading, text)"
        " SELECT 'delete', id, heading, text FROM chunk_text WHERE id = 1",
        "INSERT INTO chunk_index (rowid, heading, text) VALUES (1, '', 'other words')",
    )
    proven = papers.prove()
    assert proven.index == ("The word index differs from the texts",)
    papers.repair(proven)
    assert papers.prove().holds


def test_deep_proof_finds_text_that_differs_from_a_fresh_parse(papers: Papers) -> None:
    before = papers.documents()
    harm(
        papers,
        "UPDATE contents SET text = replace(text, 'paper 2 says', 'paper 9 says') WHERE text LIKE '%paper 2 says%'",
    )
    papers.ledger.proof.rebuild_index()
    assert papers.prove().holds and papers.ledger.check(deep=True) == []
    proven = papers.prove(deep=True)
    assert (found(proven), proven.texts) == ({"2.md": "damaged"}, 5)
    assert proven.findings[0].why == "text differs from a fresh parse"
    papers.repair(proven)
    papers.sync()
    assert papers.prove(deep=True).holds
    assert papers.documents() == before


def test_deep_proof_of_text_with_a_nul_finds_no_difference(papers: Papers) -> None:
    papers.write("nul.ipynb", '{"cells": [{"cell_type": "markdown", "source": "a \\u0000 b"}], "nbformat": 4}')
    papers.write("nul.json", '{"a": "\\u0000"}')
    papers.sync()
    proven = papers.prove(deep=True)
    assert any("\ufffd" in text for text in papers.documents().values())
    assert (proven.holds, proven.texts) == (True, 7)


def test_missing_and_out_of_range_chunks_are_rebuilt(papers: Papers) -> None:
    before = document_named(papers.ledger, "0.md").content
    harm(
        papers,
        "UPDATE chunks SET stop = stop - 3 WHERE content_id = (SELECT id FROM contents WHERE text LIKE '%Paper 0%')",
    )
    proven = papers.prove()
    assert found(proven) == {"0.md": "damaged"}
    papers.repair(proven)
    papers.sync()
    assert papers.prove().holds
    assert document_named(papers.ledger, "0.md").content == before
    assert papers.ledger.check(deep=True) == []


def test_lost_document_is_reread(papers: Papers) -> None:
    harm(
        papers,
        "INSERT INTO document_index (document_index, rowid, title, aliases, path, properties)"
        " SELECT 'delete', id, title, aliases, path, properties FROM document_names WHERE path = '1.md'",
        "DELETE FROM documents WHERE path = '1.md'",
    )
    proven = papers.prove()
    assert found(proven) == {"1.md": "lost"}
    assert [folder.digest is None for folder in proven.folders] == [True, False]
    papers.repair(proven)
    papers.sync()
    assert papers.prove().holds
    assert "1.md" in papers.documents()


def test_a_repair_holds_deletions_as_a_sync_does(papers: Papers) -> None:
    for n in range(20):
        papers.write(f"many/{n}.md", f"One of many: {n}")
    papers.sync()
    shutil.rmtree(papers.folder / "many")
    proven = papers.prove()
    assert [finding.flaw for finding in proven.findings] == [Flaw.GHOST] * 20
    assert papers.repair(proven) == 20
    assert len(papers.documents()) == 25
    assert found(papers.prove()).keys() == {f"many/{n}.md" for n in range(20)}, "held is not proved"


def test_undone_changes_are_reported_separately(papers: Papers) -> None:
    papers.write("new.md", "New")
    (papers.folder / "0.md").unlink()
    papers.sync()
    last = papers.ledger.syncs.last(papers.source.id)
    assert last is not None
    papers.ledger.undo.undo(last.id, "anna", "", alive)
    proven = papers.prove()
    assert proven.holds, proven.findings
    assert [(f.name, f.source, f.library, f.set_apart) for f in proven.folders] == [("", 4, 4, 2), ("sub", 2, 1, 1)]


def test_repair_is_refused_during_a_running_sync(papers: Papers) -> None:
    papers.write("new.md", "New")
    proven = papers.prove()
    papers.ledger.syncs.begin(papers.source.id, run=None, owner=identity(), code_version="1", alive=alive)
    with pytest.raises(TryAgain):
        papers.repair(proven)


def test_quarantined_and_discarded_items_are_reported_once_changed(papers: Papers) -> None:
    papers.write("board.canvas", '{"nodes": [{"id": "1", "type": "text", "text": "What the board says"}], "edges": []}')
    papers.sync()
    papers.write("board.canvas", "{no board any more")
    assert found(papers.prove()) == {"board.canvas": "stale"}
    papers.sync()
    assert papers.prove().holds
    [entry] = papers.ledger.quarantine.list()
    papers.ledger.quarantine.discard([entry.job], "anna", "")
    assert papers.prove().holds
    papers.write("board.canvas", "{nor is this one")
    assert found(papers.prove()) == {"board.canvas": "stale"}


def test_reread_item_leaves_quarantine(papers: Papers) -> None:
    papers.write("board.canvas", '{"nodes": [{"id": "1", "type": "text", "text": "What the board says"}], "edges": []}')
    papers.sync()
    papers.write("board.canvas", "{no board any more")
    papers.sync()
    papers.repair(papers.prove())
    papers.sync()
    [entry] = papers.ledger.quarantine.list()
    harm(
        papers,
        "UPDATE chunks SET start = start + 1 WHERE content_id = "
        f"(SELECT content_id FROM documents WHERE id = {entry.document})",
    )
    proven = papers.prove()
    assert found(proven) == {"board.canvas": "damaged"}
    papers.repair(proven)
    assert (papers.ledger.quarantine.list(), papers.ledger.check()) == ([], [])
    papers.sync()
    assert [entry.item for entry in papers.ledger.quarantine.list()] == ["board.canvas"]


@pytest.mark.parametrize("error", [PermissionError(EACCES, "denied"), OSError(5, "disk")], ids=["denied", "broken"])
def test_unreadable_folder_is_unknown_in_every_proof(
    papers: Papers, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    papers.write("sub/below/paper.md", "Below the folder")
    papers.sync()
    listed = Lister.list

    def denied(lister: Lister, folder: ScannedFolder) -> FolderListing:
        if folder.container == "sub":
            raise error
        return listed(lister, folder)

    monkeypatch.setattr(Lister, "list", denied)
    for _ in range(2):
        proven = papers.prove()
        assert not proven.holds and found(proven) == {"sub/": "unreadable"}
        assert {folder.name for folder in proven.folders if folder.unknown} == {"sub", "sub/below"}
        papers.sync()
    monkeypatch.undo()
    papers.sync()
    assert papers.prove().holds
