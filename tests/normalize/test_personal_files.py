"""References, exported bookmarks, highlights of a Kindle and web archives become readable text."""

from __future__ import annotations

import gzip
import time

import pytest

from catchment.content.extract import extract
from catchment.content.normalize import media_type, normalize
from catchment.errors import ParseError, ResourceExhausted
from catchment.model import Document, EntityKind, RawContent


def _read(text: str | bytes, name: str) -> Document:
    return normalize(RawContent(text if isinstance(text, bytes) else text.encode(), name))


def _values(document: Document, kind: EntityKind) -> list[str]:
    return [entity.value for entity in extract(document).entities if entity.kind is kind]


_BIB = r"""
@string{jh = "Journal of Hydrology"}
@comment{not this}
@article{mueller2024,
  author = {M{\"u}ller, J{\"o}rg and {Barnes and Noble, Inc.} and Ada Berg and others},
  title = {The {Weir} of {\AA}lesund \& its "gates"},
  journal = jh # ", B", year = 2024, pages = {3--9}, doi = {https://doi.org/10.1000/x_1},
  url = {https://example.org/~ada/a\_b}, keywords = {weirs, water level},
  abstract = "One {"}two{"}
   three~four.",
}
"""


def test_reference_of_bibtex_is_read_under_its_title() -> None:
    document = _read(_BIB, "a.bib")
    assert document.text == (
        '## The Weir of Ålesund & its "gates"\n\n- Authors: Jörg Müller, Barnes and Noble, Inc., Ada Berg\n- Year: 2024\n'
        "- In: Journal of Hydrology, B\n- Pages: 3–9\n- DOI: https://doi.org/10.1000/x_1\n"
        "- Link: https://example.org/~ada/a_b\n- Keywords: weirs, water level\n- Key: mueller2024\n\n"
        'One "two" three four.'
    )
    assert (document.title, document.warnings) == ('The Weir of Ålesund & its "gates"', ())
    assert _values(document, EntityKind.PERSON) == ["Jörg Müller", "Barnes and Noble, Inc.", "Ada Berg"]
    assert _values(document, EntityKind.TAG) == ["weirs", "water level"]
    assert "https://doi.org/10.1000/x_1" in [link.target for link in extract(document).links]


@pytest.mark.parametrize(
    "broken",
    [
        "@book{b, title = {No end, year = 2020\n",
        '@book{b, title = "No end, year = 2020\n',
        "@book{b, title = {A}} year}}\n@book{c title = }\n",
        "@book{b, title = {A}, year = 2020\n",
    ],
)
def test_damaged_reference_is_a_warning_and_costs_no_other(broken: str) -> None:
    document = _read(f"{_BIB}\n{broken}\n@misc(last, title = {{Fine}} year = {{2021}})\n", "a.bib")
    assert document.text.startswith("## The Weir")
    assert "## Fine\n\n- Year: 2021\n- Key: last" in document.text
    if "c title" in broken or "2020\n" in broken:
        assert document.warnings[0].startswith("damaged references: 1 (no. ")


def test_bibliography_without_references_stays_as_it_is() -> None:
    for text in ('@string{jh = "Journal"}', "only words", "% Encoding: UTF-8"):
        assert (_read(text, "a.bib").text, _read(text, "a.ris").text) == (text, text)
        assert media_type(b"\0\1" + text.encode(), "a.bib") == "application/octet-stream"
    assert _read("@book{a, author = {Łódź}}", "a.bib").title is None


def test_abbreviations_cannot_fill_the_memory() -> None:
    bomb = "@string{a = {" + "x" * 300 + "}}\n" + "@book{b, title = " + " # ".join(["a"] * 20_000) + "}\n"
    with pytest.raises(ResourceExhausted, match="abbreviations add"):
        _read(bomb + bomb.partition("\n")[2] * 10, "a.bib")
    doubled = "@string{a0 = {xx}}\n" + "".join(f"@string{{a{n + 1} = a{n} # a{n}}}\n" for n in range(60))
    assert len(_read(f"{doubled}@book{{b, title = a60}}", "a.bib").text) < 1_000


@pytest.mark.parametrize(
    "part",
    [
        "@a{",
        "{",
        '"',
        "@a{b,c={",
        "x = ",
        "\\",
        "a # ",
        " and ",
        "@a{b,author={a and ",
        " ",
        "a",
        "()",
        "(",
        "1 ",
        "a1 ",
        "\n",
        "doi:",
        "10.",
    ],
)
def test_file_of_one_mark_is_read_in_linear_time(part: str) -> None:
    started = time.process_time()
    for text in (part * 50_000, f"@a{{b, author = {{{part * 50_000}}}}}", f"@a{{b, title = {{{part * 50_000}}}, x"):
        _read(text, "a.bib")
        _read(text, "a.ris")
        _read(f"TY  - {text}", "a.ris")
        _read(_clipping(text, f"{text} | {text}", text), "My Clippings.txt")
    assert time.process_time() - started < 8


def test_references_of_ris_are_read() -> None:
    document = _read(
        "TY  - JOUR\r\nAU  - Berg, Ada\r\nA2  - Oker, Nils\r\nTI  - High water\r\n in May\r\nPY  - 2024/03/01/\r\n"
        "JO  - Weirs\r\n"
        "SP  - 3\r\nEP  - 9\r\nDO  - 10.1/abc\r\nKW  - Gates\r\nKW  - May\r\n"
        "N2  - Long.\r\nER  - \r\n\r\n"
        "TY  - BOOK\r\nTI  - No end\r\nTY  - BOOK\r\nT1  - Second\r\nER  -\r\n"
        "TI  - No start\r\nER  - \r\nTY  - BOOK\r\nTI  - Last\r\n",
        "a.ris",
    )
    assert document.text == (
        "## High water in May\n\n- Authors: Ada Berg\n- Editors: Nils Oker\n- Year: 2024-03-01\n- In: Weirs\n- Pages: 3–9\n"
        "- DOI: https://doi.org/10.1/abc\n- Keywords: Gates, May\n\nLong.\n\n"
        "## No end\n\n\n## Second\n\n\n## No start\n\n\n## Last\n"
    )
    assert document.warnings == ("damaged references: 3 (no. 2, 4, 5)",)
    assert _values(document, EntityKind.TAG) == ["gates", "may"]


_BOOKMARKS = """<!DOCTYPE NETSCAPE-Bookmark-file-1>
<!-- This is an automatically generated file. -->
<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=UTF-8">
<TITLE>Bookmarks</TITLE><H1>Bookmarks</H1>
<DL><p>
    <DT><H3 ADD_DATE="1" PERSONAL_TOOLBAR_FOLDER="true">Toolbar</H3>
    <DL><p>
        <DT><A HREF="https://example.org/a?b=1&amp;c=2" ADD_DATE="1709285400" ICON=">" TAGS="water,mill">A &lt;b&gt; &amp; c</A>
        <DD>The described page
        <DT><H3>Deep</H3>
        <DL><p>
            <DT><A HREF="javascript:alert(1)" ADD_DATE="0">Run</A>
        </DL><p>
        <DT><A HREF="https://example.org/late" ADD_DATE="99999999999999999999">Late</A>
    </DL><p>
    <DT><A HREF="https://example.org/top"></A>
</DL>"""


@pytest.mark.parametrize("name", ["bookmarks.html", "export", "bookmarks.txt", "bookmarks.htm"])
def test_exported_bookmarks_are_read_by_folder(name: str) -> None:
    document = _read(_BOOKMARKS, name)
    assert document.text == (
        "- [https://example.org/top](https://example.org/top)\n\n## Toolbar\n\n"
        "- [A <b> & c](https://example.org/a?b=1&c=2), 2024-03-01, water, mill\n  The described page\n"
        "- [Late](https://example.org/late)\n\n## Toolbar / Deep\n\n- Run"
    )
    assert _values(document, EntityKind.TAG) == ["water", "mill"]
    assert _values(document, EntityKind.DATE) == ["2024-03-01"]


def test_odd_bookmarks_are_read_in_linear_time() -> None:
    head = "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n"
    assert _read(head, "a.html").text == ""
    assert _read(f"{head}</DL></DL><A>x</A><DD></DL><A HREF='u'>y", "a.html").text == "- x\n- y"
    started = time.process_time()
    for part in ('<A "', "<H3>a<DL>", "</DL>", '<A HREF="', '<A ""', "<", '<A HREF="x">', '<a "<a ""', "x", " "):
        _read(head + part * 100_000, "a.html")
        _read(f"{head}<A {part * 100_000}>x", "a.html")
    assert time.process_time() - started < 8
    many = _read(head + '<A HREF="x">' * 100_001, "a.html")
    assert many.warnings == ("the end of the bookmarks was not read; split the file",)


def _clipping(book: str, about: str, words: str) -> str:
    return f"\ufeff{book}\r\n- {about}\r\n\r\n{words}\r\n==========\r\n"


def test_highlights_are_read_by_book_with_their_notes() -> None:
    mill = "The Mill (Berg, Ada;Oker, Nils)"
    added = "Added on Friday, March 1, 2024 10:30:00 AM"
    document = _read(
        _clipping(mill, f"Your Highlight on page 12 | Location 170-172 | {added}", "The wheel\r\nturned.")
        + _clipping("Weirs (a (new) edition) (Grün)", f"Highlight Loc. 123-24 | {added}", "Old.")
        + _clipping(mill, f"Your Highlight on page 9 | Location 90-91 | {added}", "Before.")
        + _clipping(mill, f"Your Note on page 12 | Location 172 | {added}", "my thought")
        + _clipping(mill, f"Your Bookmark on page 12 | Location 172 | {added}", "")
        + _clipping(mill, f"Your Highlight on page 9 | Location 90-91 | {added}", "Before.")
        + "words\r\n==========\r\n",
        "My Clippings.txt",
    )
    assert document.text == (
        f"## {mill}\n\n> Before.\n\nYour Highlight on page 9, Location 90-91, 2024-03-01\n\n"
        "> The wheel\n> turned.\n\nYour Highlight on page 12, Location 170-172, 2024-03-01\n\n"
        "my thought\n\nYour Note on page 12, Location 172, 2024-03-01\n\n"
        "## Weirs (a (new) edition) (Grün)\n\n> Old.\n\nHighlight Loc. 123-24, 2024-03-01"
    )
    assert document.warnings == ("damaged clippings: 1",)
    assert _values(document, EntityKind.PERSON) == ["Ada Berg", "Nils Oker", "Grün"]


@pytest.mark.parametrize(
    ("about", "written"),
    [
        (
            "Your Highlight on page 3 | Added on Friday, 1 March 2024 10:30:00",
            "> x\n\nYour Highlight on page 3, 2024-03-01",
        ),
        (
            "Ihre Notiz auf Seite 3 | bei Position 20 | Hinzugefügt am Dienstag, 2. Juli 2024 10:30:00",
            "x\n\nIhre Notiz auf Seite 3, bei Position 20, 2024-07-02",
        ),
        (
            "Votre surlignement à l'emplacement 5-6 | Ajouté le mardi 4 juin 2024 10:30:00",
            "> x\n\nVotre surlignement à l'emplacement 5-6, 2024-06-04",
        ),
        ("Votre note | Ajouté le mercredi 14 août 2024 10:30:00", "x\n\nVotre note, 2024-08-14"),
        (
            "Tu nota | posición 50 | Añadido el martes, 5 de abril de 2024 10:30:00",
            "x\n\nTu nota, posición 50, 2024-04-05",
        ),
        (
            "12ページ|位置No. 150-151のハイライト |作成日: 2021年1月5日金曜日 12:00:00",
            "> x\n\n12ページ, 位置No. 150-151のハイライト, 2021-01-05",
        ),
        (
            "12ページ|位置No. 151のメモ |作成日: 2021年1月5日金曜日 12:00:00",
            "x\n\n12ページ, 位置No. 151のメモ, 2021-01-05",
        ),
        ("Your Highlight on page 3 | Added on some day", "> x\n\nYour Highlight on page 3, Added on some day"),
        ("Your Highlight | Added on 31 February 2024", "> x\n\nYour Highlight, Added on 31 February 2024"),
    ],
)
def test_highlights_are_read_in_the_language_of_the_device(about: str, written: str) -> None:
    assert _read(_clipping("Mill", about, "x"), "clips.txt").text == f"## Mill\n\n{written}"


def test_text_that_resembles_highlights_stays_text() -> None:
    for text in ("Title\n- item | other\n\nwords\n", "Title\n==========\n- item\n", "# T\n\n- a | b\n\n==========\n"):
        assert media_type(text.encode(), "a.txt") == "text/plain"


def _record(kind: str, address: str, block: str | bytes, content_type: str = "application/http") -> bytes:
    body = block if isinstance(block, bytes) else block.encode()
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {address}\r\nContent-Type: {content_type}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body + b"\r\n\r\n"


def _response(
    address: str, body: str | bytes, head: str = "Content-Type: text/html; charset=utf-8", status: int = 200
) -> bytes:
    whole = f"HTTP/1.1 {status} X\r\n{head}\r\n\r\n".encode() + (body if isinstance(body, bytes) else body.encode())
    return _record("response", f"https://example.org/{address}", whole)


_PAGE = "<html><head><title>Weir page</title></head><body><p>The weir <a href='/x'>stands</a> here.</p></body></html>"


def test_web_archive_is_read_page_by_page() -> None:
    chunked = f"{len(_PAGE):x};a=b\r\n{_PAGE}\r\n0\r\n\r\n"
    data = (
        _record("warcinfo", "", "software: x", "application/warc-fields")
        + _record("request", "https://example.org/", "GET / HTTP/1.1\r\n\r\n")
        + _response("", chunked, "Content-Type: text/html\r\nTransfer-Encoding: chunked")
        + _response("", _PAGE.replace("stands", "stood"))
        + _response("t", gzip.compress(b"plain words"), "Content-Type: text/plain\r\nContent-Encoding: gzip")
        + _response("d", "decoded", "Content-Type: text/plain\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked")
        + _response("p", b"\0\1\2", "Content-Type: text/html\r\nContent-Encoding: br")
        + _response("i.png", b"\x89PNG", "Content-Type: image/png")
        + _response("missing", "no such page", status=404)
        + _record("resource", "https://example.org/r", "a resource", "text/plain")
        + _record("resource", "metadata://gnu.org/wget/wget.log", "log", "text/plain")
    )
    text = (
        "# https://example.org/\n\nWeir page\n\nThe weir [stands](https://example.org/x) here.\n\n"
        "# https://example.org/t\n\nplain words\n\n# https://example.org/d\n\ndecoded\n\n# https://example.org/r\n\na resource"
    )
    for name, content in (("a.warc", data), ("crawl", data), ("a.warc.gz", gzip.compress(data, mtime=0))):
        document = _read(content, name)
        assert (document.media_type, document.text) == ("application/warc", text)
        assert document.warnings == ("other files of the archive not read: 3",)


def test_damaged_web_archive_is_read_up_to_the_damage() -> None:
    data = _response("a", _PAGE) + _response("b", _PAGE.replace("stands", "stood"))
    document = _read(data + b"garbage" + data, "a.warc")
    assert document.text.count("# https://") == 2
    assert document.warnings == ("the archive is damaged after record 2, or has more than 100,000 records",)
    cut = _read(data[:-40], "a.warc")
    assert (cut.text.count("# https://"), len(cut.warnings)) == (2, 1)
    lying = data.replace(b"Content-Length: ", b"Content-Length: 9999999999999")
    assert _read(lying, "a.warc").text.startswith("# https://example.org/a")
    for content in (b"WARC/1.0\r\nbroken", b"words"):
        with pytest.raises(ParseError, match="no web archive"):
            _read(content, "a.warc")


def test_web_archive_is_read_within_its_limits() -> None:
    bomb = gzip.compress(b"x" * 11_000_000, mtime=0)
    data = _response("bomb", bomb, "Content-Type: text/plain\r\nContent-Encoding: gzip")
    data += b"".join(_response(str(number), "words", "Content-Type: text/plain") for number in range(501))
    document = _read(data, "a.warc")
    assert document.text.count("# https://") == 500
    assert document.warnings == ("other files of the archive not read: 2",)
