"""Pages with text on pictures: they wait, their text enters the document by a job, and it leaves with the document."""

from __future__ import annotations

import shutil
import struct
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from catchment.ledger import WaitingPage
from catchment.model import GUESSED, RECOGNIZED, PageText, PlacedWord, ReplayStage
from catchment.search.search import search
from catchment.settings import Home
from catchment.sync.preflight import WHOLE
from catchment.sync.revoke import Extent, revoke
from tests.documents import document_named
from tests.engine.papers import Papers
from tests.engine.test_replay import started, work
from tests.normalize.pdf_samples import pdf, stream

READER = "reader 1"
SCAN = b"q 400 0 0 600 72 72 cm BI /W 1 /H 1 /CS /G /BPC 8 ID x EI Q"


def scan(*typed: bytes, pictures: int = 2) -> bytes:
    """Return a PDF of typed pages, and of pages that show a picture only."""
    contents = [b"BT /F1 12 Tf 72 700 Td (%s) Tj ET" % words for words in typed] + [SCAN] * pictures
    kids = b" ".join(b"%d 0 R" % (4 + 2 * number) for number in range(len(contents)))
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: b"<< /Type /Pages /Count %d /Kids [%s] /MediaBox [0 0 612 792] >>" % (len(contents), kids),
        3: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    }
    for number, content in enumerate(contents):
        page = b"<< /Type /Page /Parent 2 0 R /Contents %d 0 R /Resources << /Font << /F1 3 0 R >> >> >>"
        objects[4 + 2 * number] = page % (5 + 2 * number)
        objects[5 + 2 * number] = stream(content)
    return pdf(objects)


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\0" * (width + 1) * min(height, 500))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.fixture
def papers(home: Home, tmp_path: Path) -> Papers:
    folder = tmp_path / "folder"
    folder.mkdir()
    return Papers(home, folder)


def waiting(papers: Papers) -> Iterator[WaitingPage]:
    page = None
    while pages := papers.ledger.recognition.waiting(page, 1):
        (page,) = pages
        yield page


def recognize(papers: Papers, words: str = "Quittung über Quitten") -> None:
    """Recognize all waiting pages."""
    for page in list(waiting(papers)):
        picture = f"picture {page.content_hash} {page.page}"
        papers.ledger.recognition.put(page, picture, READER, PageText(f"{words} {page.page}", 0.9))


def rows(papers: Papers) -> int:
    with papers.ledger._store.read() as reading:
        return int(reading.execute(text("SELECT count(*) FROM page_texts")).scalar_one())


def test_text_of_pictures_enters_the_document_once_all_pages_are_recognized(papers: Papers) -> None:
    (papers.folder / "mixed.pdf").write_bytes(scan(b"typed words"))
    papers.sync()
    before = document_named(papers.ledger, "mixed.pdf")
    assert before.content.warnings == ("pages whose text is a picture and not recognized yet: 2-3",)
    first, second = waiting(papers)
    assert (first.page, second.page, first.document) == (2, 3, before.document)
    recognition = papers.ledger.recognition
    recognition.put(first, "a", READER, PageText("Quittung über Quitten", 0.9))
    assert recognition.sources() == []
    recognition.put(second, "b", READER, PageText("Summe 12 Taler", 0.8))
    assert recognition.sources() == ["sync-local_files/papers"]
    assert papers.sync()["succeeded"] == 1
    assert recognition.sources() == []
    after = document_named(papers.ledger, "mixed.pdf")
    assert after.document == before.document
    assert after.content.text == "typed words\n\nQuittung über Quitten\n\nSumme 12 Taler"
    assert after.content.warnings == ()
    assert after.content.properties[RECOGNIZED] == {
        "confidence": 0.85,
        "pages": "2-3",
        "places": [[13, 34], [36, 50]],
    }
    assert list(waiting(papers)) == []
    assert papers.sync().get("succeeded", 0) == 0
    assert papers.ledger.check(deep=True) == []


def test_recognized_text_is_found_marked_and_ranked_below_typed_text(papers: Papers) -> None:
    (papers.folder / "scan.pdf").write_bytes(scan(pictures=1))
    (papers.folder / "typed.pdf").write_bytes(scan(b"Quince receipt 1", pictures=0))
    papers.sync()
    recognize(papers, "Quince receipt")
    papers.sync()
    hits = search(papers.ledger, "quince receipt", datetime.now(UTC), meaning_off="off").hits
    assert [(hit.item, hit.is_recognized) for hit in hits] == [("typed.pdf", False), ("scan.pdf", True)]
    assert GUESSED not in hits[1].snippet
    marked = search(papers.ledger, "has:recognized", datetime.now(UTC), meaning_off="off").hits
    assert [(hit.item, hit.is_recognized) for hit in marked] == [("scan.pdf", True)]


def test_passages_of_recognized_pages_are_marked_in_a_document_with_typed_ones(papers: Papers) -> None:
    (papers.folder / "mixed.pdf").write_bytes(scan(b"Typed orchard " * 300))
    papers.sync()
    recognize(papers, "Quince receipt " * 300)
    papers.sync()
    for word, is_recognized in {"orchard": False, "quince": True}.items():
        hits = search(papers.ledger, word, datetime.now(UTC), meaning_off="off").hits
        assert [hit.is_recognized for hit in hits] == [is_recognized], word


def test_picture_warns_while_it_waits_and_of_a_language_that_is_missing(papers: Papers) -> None:
    (papers.folder / "photo.png").write_bytes(png(400, 400))
    papers.sync()
    shown = document_named(papers.ledger, "photo.png")
    assert shown.content.warnings == ("the text on the picture is not recognized yet",)
    (page,) = waiting(papers)
    papers.ledger.recognition.put(page, "a", READER, PageText("Token «GitHub token» of anna", 0.9, lacks="ces"))
    papers.sync()
    assert document_named(papers.ledger, "photo.png").content.warnings == (
        "text on the picture may be in another language; install tesseract-ocr-ces, and replay it from `recognize`",
        "masked secrets: 1 × GitHub token",
    )


def test_changed_picture_loses_the_text_of_the_former_one(papers: Papers) -> None:
    (papers.folder / "photo.png").write_bytes(png(400, 400))
    papers.sync()
    recognize(papers, "mulberry")
    papers.sync()
    assert "mulberry" in document_named(papers.ledger, "photo.png").content.text
    (papers.folder / "photo.png").write_bytes(png(500, 400))
    papers.sync()
    assert document_named(papers.ledger, "photo.png").content.text == ""
    assert [page.page for page in waiting(papers)] == [1]


def test_copy_of_a_large_scan_whose_former_content_is_kept_gets_the_text(papers: Papers) -> None:
    (papers.folder / "a.pdf").write_bytes(scan(b"Typed orchard " * 6_000))
    papers.sync()
    recognize(papers)
    papers.sync()
    shutil.copy(papers.folder / "a.pdf", papers.folder / "copy.pdf")
    papers.sync()
    recognize(papers)
    papers.sync()
    assert "Quitten" in document_named(papers.ledger, "copy.pdf").content.text


def test_note_may_have_a_property_with_the_name_of_ours(papers: Papers) -> None:
    (papers.folder / "note.md").write_text("---\nrecognized: 2020\n---\nQuince")
    papers.sync()
    hits = search(papers.ledger, "quince", datetime.now(UTC), meaning_off="off").hits
    assert [(hit.item, hit.is_recognized) for hit in hits] == [("note.md", False)]


def test_copy_and_move_of_a_scan_are_not_recognized_again(papers: Papers) -> None:
    (papers.folder / "a.pdf").write_bytes(scan())
    papers.sync()
    recognize(papers)
    papers.sync()
    shutil.copy(papers.folder / "a.pdf", papers.folder / "copy.pdf")
    (papers.folder / "a.pdf").rename(papers.folder / "moved.pdf")
    papers.sync()
    for page in list(waiting(papers)):
        picture = f"picture {page.content_hash} {page.page}"
        known = papers.ledger.recognition.known(picture, READER)
        assert known is not None
        papers.ledger.recognition.put(page, picture, READER, known)
    papers.sync()
    texts = papers.documents()
    assert texts.keys() == {"moved.pdf", "copy.pdf"}
    assert set(texts.values()) == {"Quittung über Quitten 1\n\nQuittung über Quitten 2"}
    assert list(waiting(papers)) == []


def test_page_that_fails_is_a_warning_and_a_picture_that_fails_is_quarantined(papers: Papers) -> None:
    (papers.folder / "scan.pdf").write_bytes(scan())
    (papers.folder / "photo.png").write_bytes(png(400, 500))
    (papers.folder / "bomb.png").write_bytes(png(100_000, 30_000))
    (papers.folder / "icon.png").write_bytes(png(64, 64))
    papers.sync()
    reasons = {entry.item: entry.message for entry in papers.ledger.quarantine.page("papers").rows}
    assert reasons == {"bomb.png": "the picture has 100,000 × 30,000 pixels; make it smaller"}
    pages = list(waiting(papers))
    assert sorted((page.page, page.media_type) for page in pages) == [
        (1, "application/pdf"),
        (1, "image/png"),
        (2, "application/pdf"),
    ]
    for page in pages:
        broken = page.media_type == "image/png" or page.page == 2
        read = PageText("", 0.0, problem="the picture is damaged") if broken else PageText("Rechnung", 0.9)
        papers.ledger.recognition.put(page, None, READER, read)
    papers.sync()
    assert {entry.item for entry in papers.ledger.quarantine.page("papers").rows} == {"bomb.png", "photo.png"}
    content = document_named(papers.ledger, "scan.pdf").content
    assert content.text == "Rechnung"
    assert content.warnings == ("page 2: its text could not be recognized: the picture is damaged",)


def test_replay_recognizes_again_and_keeps_the_text_meanwhile(papers: Papers) -> None:
    (papers.folder / "scan.pdf").write_bytes(scan(pictures=1))
    papers.sync()
    recognize(papers, "Quittnng")
    papers.sync()
    work(papers, started(papers, ReplayStage.RECOGNIZE))
    assert papers.documents() == {"scan.pdf": "Quittnng 1"}
    recognize(papers, "Quittung")
    papers.sync()
    assert papers.documents() == {"scan.pdf": "Quittung 1"}


def test_withdrawn_consent_deletes_the_text_and_places_of_words(papers: Papers) -> None:
    (papers.folder / "scan.pdf").write_bytes(scan(pictures=1))
    papers.sync()
    (page,) = waiting(papers)
    words = (PlacedWord("Geheimnis", 1, 2, 3, 4),)
    papers.ledger.recognition.put(page, "a", READER, PageText("Geheimnis", 0.9, words=words))
    papers.sync()
    assert rows(papers) == 1
    everything = Extent(frozenset({WHOLE}), lambda _locator: True, whole=True)
    revoke(papers.home, papers.ledger, papers.source, everything, "anna")
    assert rows(papers) == 0
    assert b"Geheimnis" not in b"".join(file.read_bytes() for file in papers.home.path.rglob("*") if file.is_file())


def test_changed_scan_waits_again_and_its_former_text_goes_with_its_undo_data(papers: Papers) -> None:
    (papers.folder / "scan.pdf").write_bytes(scan(pictures=1))
    papers.sync()
    recognize(papers)
    papers.sync()
    (papers.folder / "scan.pdf").write_bytes(scan(b"a new first page", pictures=1))
    papers.sync()
    assert [page.page for page in waiting(papers)] == [2]
    recognize(papers)
    papers.sync()
    assert papers.documents()["scan.pdf"].endswith("Quittung über Quitten 2")
    papers.ledger.check(deep=True)


def test_pages_of_a_removed_document_do_not_wait(papers: Papers) -> None:
    (papers.folder / "scan.pdf").write_bytes(scan())
    papers.write("note.md", "It stays.")
    papers.sync()
    assert papers.ledger.recognition.counts() == (0, 2)
    (papers.folder / "scan.pdf").unlink()
    papers.sync()
    assert papers.ledger.recognition.counts() == (0, 0)
    assert not papers.ledger.recognition.needs_run()


def test_page_whose_file_is_not_here_waits_with_its_reason_and_requests_no_run(papers: Papers) -> None:
    (papers.folder / "scan.pdf").write_bytes(scan(pictures=1))
    papers.sync()
    recognition = papers.ledger.recognition
    (page,) = waiting(papers)
    recognition.hold(page, "the file is not kept on this machine")
    assert not recognition.needs_run()
    assert recognition.waits_for(source_id=papers.source.id) == (1, "the file is not kept on this machine")
    assert list(waiting(papers)) == [page]
    recognize(papers)
    papers.sync()
    assert recognition.waits_for() == (0, "")
