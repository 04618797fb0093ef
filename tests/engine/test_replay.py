"""Replays: files are read again only if newer code would read them otherwise, and a stopped replay continues."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from catchment.content.parsing import CODE
from catchment.errors import NotNow, Refused
from catchment.ledger import BackfillSelection, BackfillState
from catchment.model import Priority, ReplayStage
from catchment.settings import Home, Policy
from catchment.sync.source_sync import open_sync
from tests.documents import document_named
from tests.engine.papers import Papers

NORMALIZER, _, EXTRACTOR = CODE.partition(".")


@pytest.fixture
def papers(home: Home, tmp_path: Path) -> Papers:
    folder = tmp_path / "folder"
    folder.mkdir()
    papers = Papers(home, folder)
    for number in range(5):
        papers.write(f"{number}.md", f"# Paper {number}\n\nwith [[{number + 1}]] and #tag{number}\n")
    papers.sync()
    return papers


def age(papers: Papers, code: str) -> None:
    """Let the library seem to be read by earlier code."""
    with papers.ledger._store.engine.begin() as connection:
        connection.execute(
            text("UPDATE contents SET normalizer = :code || substr(normalizer, instr(normalizer, ' '))"), {"code": code}
        )


def started(papers: Papers, stage: ReplayStage = ReplayStage.NORMALIZE) -> int:
    backfills, what = papers.ledger.backfills, BackfillSelection(stage)
    survey = backfills.survey(papers.source.id, what, CODE)
    number = backfills.plan(papers.source.id, what, survey, "anna")
    backfills.start(number, survey.digest, "anna")
    return number


def work(papers: Papers, number: int, batches: int = 100, size: int = 2) -> dict[str, int]:
    with open_sync(papers.home, papers.connector, "papers", Policy(), Priority.NORMAL, backfill=number) as sync:
        sync.discover()
        while batches and (token := sync.claim(size)) is not None:
            sync.normalize(token)
            sync.process(token)
            batches -= 1
        return sync.finish("completed")


def normalizers(papers: Papers) -> set[str]:
    items = [row.id for row in papers.ledger.intake.find("md", "papers")] or list(range(1, 10))
    return {name.partition(" ")[0] for name in papers.ledger.library.normalizers(items).values()}


def test_files_are_read_again_with_newer_code_and_then_never_again(papers: Papers) -> None:
    before = papers.documents()
    age(papers, f"1.{EXTRACTOR}")
    number = started(papers)
    assert work(papers, number)["succeeded"] == 5
    assert (normalizers(papers), papers.documents()) == ({CODE}, before)
    assert papers.ledger.backfills.survey(papers.source.id, BackfillSelection(ReplayStage.NORMALIZE), CODE).total == 0
    assert papers.ledger.check(deep=True) == []
    assert papers.prove().holds


def test_files_that_no_earlier_code_could_read_are_read(papers: Papers) -> None:
    """A link to another file is none: the listing excludes it."""
    papers.write("a.bin", "\0\1\2")
    (papers.folder / "link.bin").symlink_to("a.bin")
    papers.sync()
    assert papers.ledger.backfills.outdated(CODE) == {}
    newer = f"99.{EXTRACTOR}"
    assert papers.ledger.backfills.outdated(newer) == {"papers": 6}
    survey = papers.ledger.backfills.survey(papers.source.id, BackfillSelection(ReplayStage.NORMALIZE), newer)
    assert survey.total == 6


def test_extraction_alone_reads_no_file(papers: Papers) -> None:
    age(papers, f"{NORMALIZER}.0")
    number = started(papers, ReplayStage.EXTRACT)
    for file in papers.folder.iterdir():
        file.unlink()
    figures = work(papers, number)
    assert (figures["succeeded"], normalizers(papers)) == (5, {CODE})
    assert papers.ledger.check(deep=True) == []
    assert [link.target for link in document_named(papers.ledger, "0.md").links] == ["1"]


def test_a_stopped_replay_continues_where_it_was(papers: Papers) -> None:
    age(papers, f"1.{EXTRACTOR}")
    number = started(papers)
    work(papers, number, batches=1)
    assert papers.ledger.backfills.get(number).done == 2
    papers.write("new.md", "New")
    assert papers.sync()["succeeded"] == 1
    assert work(papers, number)["succeeded"] == 3
    assert papers.ledger.backfills.get(number).state is BackfillState.DONE
    with pytest.raises(NotNow, match="done"):
        work(papers, number)


def test_a_paused_or_foreign_backfill_is_not_worked_on(papers: Papers) -> None:
    age(papers, f"1.{EXTRACTOR}")
    number = started(papers)
    papers.ledger.backfills.pause(number, "anna")
    with pytest.raises(NotNow, match="paused"):
        work(papers, number)
    with (
        pytest.raises(Refused, match="belongs to papers"),
        open_sync(papers.home, papers.connector, "others", Policy(), Priority.NORMAL, backfill=number),
    ):
        pass


def test_the_undo_of_a_replay_restores_each_document(papers: Papers) -> None:
    age(papers, f"1.{EXTRACTOR}")
    number = started(papers)
    work(papers, number, batches=1)
    work(papers, number)
    papers.ledger.undo.undo_backfill(number, "anna", "", lambda _: False)
    assert normalizers(papers) == {f"1.{EXTRACTOR}"}
    assert papers.ledger.check(deep=True) == []


def test_new_embeddings_are_made_of_the_same_texts(papers: Papers) -> None:
    number = started(papers, ReplayStage.EMBED)
    planned = papers.ledger.backfills.get(number)
    assert (planned.done, planned.total) == (0, 5)
    assert work(papers, number)["jobs"] == 0
    found = papers.ledger.backfills.get(number)
    assert (found.state, found.done, found.total) == (BackfillState.DONE, 5, 5)
