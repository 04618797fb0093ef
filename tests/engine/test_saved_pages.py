"""Web pages saved as one file (MHTML): the text of the page, and the files in it that are not of the page itself."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from catchment.content.normalize import normalize
from catchment.content.parts.listing import parts_of
from catchment.errors import ParseError
from catchment.model import RawContent
from catchment.settings import Home, Limits
from tests.engine.papers import Papers

PAGE = "Content-Type: text/html\n\n<title>Weir</title><p>shut</p>"
HEAD = "From: <Saved by Blink>\nSnapshot-Content-Location: https://example.org/w\nSubject: Weir\nMIME-Version: 1.0\n"
PICTURE = (
    "Content-Type: image/png\nContent-Location: https://example.org/a.png\nContent-Transfer-Encoding: base64\n\nAAEC"
)
NOTE = "Content-Type: text/markdown\nContent-Location: https://example.org/files/note.md?v=1\n\n# Levels"


def saved(*parts: str, head: str = HEAD, more: str = "", end: str = "--b--\n", encoding: str = "utf-8") -> bytes:
    body = "".join(f"--b\n{part}\n" for part in parts)
    return f'{head}Content-Type: multipart/related; boundary="b"{more}\n\n{body}{end}'.encode(encoding)


LATIN = "Content-Type: text/html; charset=iso-8859-1\n\n<p>M\xfchle</p>"
RUSSIAN = "Content-Type: text/html; charset=windows-1251\nContent-Transfer-Encoding: base64\n\nPHA+z/Do4uXyPC9wPg=="
CID = "Content-Type: text/html\nContent-ID: <main>\n\n<p>main</p>"
NESTED = "Content-Type: multipart/alternative; boundary=c\n\n--c\n\nplain\n--c\n" + PAGE + "\n--c--"
XHTML = 'Content-Type: application/xhtml+xml\n\n<html xmlns="http://www.w3.org/1999/xhtml"><body><p>x</p></body></html>'
NAMED = 'Content-Type: application/pdf; name="p.pdf"\nContent-Disposition: attachment\n\n%PDF-1.4'
PROGRAMS = [
    "text/css",
    "application/x-javascript",
    "application/font-woff2",
    "font/woff",
    "video/mp4",
    "text/javascript",
]


@pytest.mark.parametrize(
    ("data", "text", "files"),
    [
        (saved(PAGE, PICTURE, NOTE), "shut", ["note.md"]),
        (saved(PAGE, CID, more='; start="<main>"'), "main\n\nshut", []),
        (saved(LATIN, encoding="latin-1"), "M\xfchle", []),
        (saved(RUSSIAN), "\u041f\u0440\u0438\u0432\u0435\u0442", []),
        (saved(PAGE, NAMED, NAMED), "shut", ["p.pdf", "p (2).pdf"]),
        (saved(NESTED, NOTE, more='; type="multipart/alternative"'), "shut", ["note.md"]),
        (saved(XHTML), "x", []),
        (saved(PAGE, NOTE, end=""), "shut", ["note.md"]),
        (saved(PAGE, *(f"Content-Type: {kind}\n\nwords" for kind in PROGRAMS)), "shut", []),
        (saved(PICTURE, PAGE, "Content-Type: application/zip; name=a.zip\n\nPK", end=""), "shut", ["a.zip"]),
        (saved(PAGE, NOTE, encoding="utf-16"), "shut", ["note.md"]),
    ],
)
def test_odd_saved_pages_are_read(data: bytes, text: str, files: list[str]) -> None:
    assert normalize(RawContent(data, "a.mhtml")).text == text
    assert [part.path for part in parts_of(io.BytesIO(data), "multipart/related", Limits())] == files


def test_saved_page_without_a_page_says_so() -> None:
    with pytest.raises(ParseError, match="no page in the file"):
        normalize(RawContent(saved(PICTURE), "a.mht"))


def test_files_of_a_saved_page_are_documents_and_its_address_a_property(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    papers = Papers(home, folder)
    (folder / "a.mht").write_bytes(saved(PAGE, PICTURE, NOTE, head=f"{HEAD}Date: Tue, 3 Mar 2026 10:00:00 +0000\n"))
    papers.sync()
    assert papers.documents() == {"a.mht": "shut", "a.mht!/note.md": "# Levels"}
    (named,) = (each for each in papers.ledger.library.names(papers.source.id) if each.locator == "a.mht")
    shown = papers.ledger.library.document(named.document)
    assert (shown.title, [file.name for file in shown.attached]) == ("Weir", ["note.md"])
    assert shown.content.properties == {"canonical": "https://example.org/w", "saved": "2026-03-03"}
