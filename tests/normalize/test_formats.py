"""Detection of formats by content and name; damaged, encrypted and oversized files raise errors that name the reason."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
import zlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from catchment.content.normalize import media_type, normalize
from catchment.content.normalize.formats import ENDINGS, READERS
from catchment.content.normalize.language_detection import language
from catchment.errors import ParseError, ResourceExhausted, Skipped, SkipReason
from catchment.model import Document, RawContent
from tests.normalize import samples

_OOXML = "application/vnd.openxmlformats-officedocument"


def _read(data: bytes, name: str = "file") -> Document:
    return normalize(RawContent(data, name))


def test_large_page_is_read_like_a_small_one() -> None:
    page = b"""<html lang=en><title>A <span>page</span></title><body><h1><SPAN class="a">Big</SPAN></h1>
    <p>one<span> two</span> <b><span title="a > b">three</span> <span title='<'>four</b> five</span
    > <span-like>six</span-like> <a href="x.html"><span>seven</span></a></p>
    <pre><code><span class="k">def</span> <span class=n>f</span>():
      <span>pass</span></code></pre><table><span>eight</span><tr><td><span>nine</table>"""
    small, large = _read(page, "a.html"), _read(b"<!--" + b"x" * 1_000_000 + b"-->" + page, "a.html")

    assert "[seven](x.html)" in small.text
    assert (large.text, large.title, large.language) == (small.text, small.title, small.language)


def test_more_than_sixty_formats_have_a_reader() -> None:
    assert len(READERS) > 60
    assert len(ENDINGS) > 120
    by_content = {"application/msword+xml", "application/vnd.ms-excel+xml"}
    by_content |= {"application/x-netscape-bookmarks", "application/x-kindle-clippings"}
    assert set(ENDINGS.values()) | by_content == set(READERS)


@pytest.mark.parametrize(
    ("data", "name", "expected"),
    [
        (samples.pdf(), "letter.txt", "application/pdf"),
        (samples.docx(), "file", f"{_OOXML}.wordprocessingml.document"),
        (samples.docx(), "template.dotx", f"{_OOXML}.wordprocessingml.document"),
        (samples.xlsx(), "sheet.zip", f"{_OOXML}.spreadsheetml.sheet"),
        (samples.odt(), "file", "application/vnd.oasis.opendocument.text"),
        (samples.epub(), "book.zip", "application/epub+zip"),
        (samples.zipped({"a": "x"}), "file", "application/zip"),
        (samples.zipped({"a": "x"}), "a.docx", f"{_OOXML}.wordprocessingml.document"),
        (samples.png(), "photo.jpg", "image/png"),
        (samples.RTF, "file", "application/rtf"),
        (b"<!DOCTYPE html><p>x", "report.pdf", "text/html"),
        (b"<!DOCTYPE html><p>x", "note.md", "text/markdown"),
        (b"words", "note.md", "text/markdown"),
        (b"words", "NOTE.MD", "text/markdown"),
        (b"words", "README", "text/plain"),
        (b"words", "thing.unknown", "text/plain"),
        (b"words", "report.pdf", "application/pdf"),
        (b"digraph {}", "graph.dot", "text/plain"),
        (b"msgid", "de.pot", "text/plain"),
        (b"all:", "Makefile", "text/x-makefile"),
        (b"\x00\x01\x02\x03", "note.md", "application/octet-stream"),
        (b"\x00\x01\x02\x03", "photo.png", "image/png"),
        (b"\x7fELF\x02\x01\x00", "tool", "application/octet-stream"),
        (b"", "empty.md", "text/markdown"),
    ],
)
def test_type_is_detected_from_content_then_name(data: bytes, name: str, expected: str) -> None:
    assert media_type(data, name) == expected


@pytest.mark.parametrize(
    ("data", "title", "text"),
    [
        (samples.pdf(), "Dam report", "The dam was inspected in May."),
        (samples.docx(), "Water levels", "# Spring survey\n\nThe gauge at the mill read two metres."),
        (samples.xlsx(), "Honey", "## Honey\n\n| Hive | Kilos |\n| --- | --- |\n| North | 12.5 |"),
        (samples.odt(), "Allotment rules", "# Allotment rules\n\nWater only in the evening."),
        (samples.epub(), "Bees in winter", "# The cluster\n\nThey keep warm by shivering."),
        (samples.RTF, None, "The orchard needs pruning."),
    ],
)
def test_office_files_become_markdown_with_their_title(data: bytes, title: str | None, text: str) -> None:
    document = _read(data)
    assert (document.title, document.text) == (title, text)


_SUBJECT, _BODY, _NAME, _ADDRESS, _HEADERS = 0x0037, 0x1000, 0x0C1A, 0x0C1F, 0x007D


@pytest.mark.parametrize(
    ("address", "sender"),
    [
        ("ada@example.org", "Ada Berg <ada@example.org>"),
        ("/O=EXAMPLE/CN=ADA", "Ada Berg"),
    ],
)
def test_outlook_message_has_subject_sender_and_date(address: str, sender: str) -> None:
    headers = "From: x@example.org\r\nDate: Fri, 01 Mar 2024 10:30:00 +0100\r\n\r\n"
    values = {_SUBJECT: "Wehr läuft über", _BODY: "The pump.", _NAME: "Ada Berg", _ADDRESS: address, _HEADERS: headers}
    document = _read(samples.outlook_message(values))
    assert (document.title, document.author) == ("Wehr läuft über", sender)
    assert document.created == datetime(2024, 3, 1, 9, 30, tzinfo=UTC)
    assert document.text.endswith("The pump.")
    assert document.properties["from"] == [sender]


def test_pdf_author_and_date_are_read() -> None:
    document = _read(samples.pdf())
    assert document.author == "Ada Berg"
    assert document.created is not None
    assert document.created.isoformat() == "2024-03-01T09:30:00+00:00"


@pytest.mark.parametrize(
    ("data", "name", "reason"),
    [
        (samples.pdf()[:300], "cut.pdf", "is truncated"),
        (b"%PDF-1.7 garbage", "bad.pdf", "cannot be read"),
        (b"just words", "bad.pdf", "cannot be read"),
        (samples.docx()[:700], "cut.docx", "damaged"),
        (samples.zipped({"a": "x"}), "not.docx", "cannot be read"),
        (samples.png()[:18], "cut.png", "damaged"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "cut.jpg", "damaged"),
        (b"words", "drawing.svg", "no svg element"),
        (b'{"nodes": [', "cut.canvas", "not valid JSON"),
        (b"[]", "list.canvas", "not a JSON object"),
        (b'{"nodes": 1}', "odd.canvas", "not a list"),
        (b'{"cells": [1]}', "odd.ipynb", "not a list"),
        (b"no headers here\n", "words.eml", "no mail headers"),
        (gzip.compress(b"words" * 99, mtime=0)[:-9], "cut.txt.gz", "is truncated"),
        (b"\x1f\x8bgarbage", "bad.gz", "damaged"),
        (samples.encrypted_pdf(), "locked.pdf", "encrypted"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le") * 9, "locked.docx", "encrypted"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le") * 9, "locked.vsdx", "encrypted"),
    ],
)
def test_damaged_and_encrypted_files_raise_with_reason(data: bytes, name: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        _read(data, name)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (samples.docx(f"<w:p><w:r><w:t>{'A' * 30_000_000}</w:t></w:r></w:p>"), "bomb.docx"),
        (gzip.compress(b"a" * 1_000_000, mtime=0) * 70, "bomb.gz"),
    ],
)
def test_decompression_bomb_is_rejected(data: bytes, name: str) -> None:
    with pytest.raises(ResourceExhausted):
        _read(data, name)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\x00\x01binary", "note.md"),
        (b"ID3\x04\x00", "song.mp3"),
        (b"\x7fELF\x00", "tool"),
        (b"\x00\x00\x00\x18ftypmp42", "film.mp4"),
    ],
)
def test_type_without_text_is_skipped_as_unsupported(data: bytes, name: str) -> None:
    with pytest.raises(Skipped) as caught:
        _read(data, name)
    assert caught.value.skip_reason is SkipReason.UNSUPPORTED


@pytest.mark.parametrize("name", ["a.md", "a.canvas", "a.png", "a.eml", "a.html", "a.zip", "a.gz", "a.bin", "a"])
def test_an_empty_file_is_an_empty_document(name: str) -> None:
    document = _read(b"", name)
    assert (document.text, document.title, document.warnings) == ("", None, ())


def test_compressed_file_is_read() -> None:
    assert _read(gzip.compress(b"# Head", mtime=0), "note.md.gz").title == "Head"
    parts = gzip.compress(b"# Head\n", mtime=0) + gzip.compress(b"Tail", mtime=0)
    assert _read(parts, "log.md.gz").text == _read(parts + bytes(512), "log.md.gz").text == "# Head\nTail"
    twice = gzip.compress(gzip.compress(gzip.compress(b"x", mtime=0), mtime=0), mtime=0)
    with pytest.raises(Skipped):
        _read(twice, "a.gz.gz.gz")


def test_source_media_type_applies_only_to_text_without_extension() -> None:
    assert normalize(RawContent(b"a,b", "export", media_type="text/csv")).media_type == "text/csv"
    assert normalize(RawContent(b"a,b", "export", media_type="no/such")).media_type == "text/plain"
    assert normalize(RawContent(samples.png(), "export", media_type="text/csv")).media_type == "image/png"


def test_text_never_contains_nul_characters() -> None:
    board = b'{"nodes": [{"id": "a", "type": "text", "text": "x\\u0000y"}]}'
    assert _read(board, "a.canvas").text == "x\ufffdy"
    assert "\x00" not in _read(b"<p>x&#0;y</p>", "a.html").text


def test_image_size_is_read() -> None:
    assert dict(_read(samples.png(640, 480)).properties) == {"height": 480, "width": 640}
    jpeg = b"\xff\xd8\xff\xe1\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 30, 40) + b"\x03" * 12
    assert dict(_read(jpeg).properties) == {"height": 30, "width": 40}
    assert dict(_read(b"GIF89a" + struct.pack("<HH", 5, 6)).properties) == {"height": 6, "width": 5}
    webp = b"RIFF\x1a\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00" + b"\x00" * 4 + b"\x09\x00\x00\x13\x00\x00"
    assert dict(_read(webp).properties) == {"height": 20, "width": 10}
    bitmap = b"BM" + b"\x00" * 16 + struct.pack("<ii", 7, -8)
    assert dict(_read(bitmap, "a.bmp").properties) == {"height": 8, "width": 7}
    drawing = b'<svg xmlns="http://www.w3.org/2000/svg"><title>A map</title><desc>of springs</desc></svg>'
    assert (_read(drawing, "map.svg").title, _read(drawing, "map.svg").text) == ("A map", "of springs")


@pytest.mark.parametrize(
    "created", ["20240301093000Z", "20240301093000", "20240301113000+02'00'", "20240301043000-05'00"]
)
def test_pdf_date_is_read_in_its_zone(created: str) -> None:
    assert _read(samples.pdf(created=created)).created == datetime(2024, 3, 1, 9, 30, tzinfo=UTC)


def test_pdf_title_has_no_control_characters() -> None:
    assert _read(samples.pdf(title=r"\000D\000a\000m\007")).title == "Dam"


@pytest.mark.parametrize(
    ("page", "title", "expected"),
    [
        (1252, rb"M\'fchle", "Mühle"),
        (1251, rb"\'cf\'eb\'ee\u1090?\u1080\'e8", "Плоти"),
        (1252, rb"\u-10180?\u-8399?", "🌱"),
        (99999, rb"M\'fchle", "Mühle"),
    ],
)
def test_rtf_title_is_decoded(page: int, title: bytes, expected: str) -> None:
    document = _read(rb"{\rtf1\ansi\ansicpg%d{\info{\title %b}{\author %b}}words}" % (page, title, title))
    assert (document.title, document.author) == (expected, expected)


def test_svg_title_is_not_that_of_a_shape() -> None:
    drawing = (
        b"<svg><g><title>Weirs &amp; mills</title><g><title>a</title></g><g><title>a&#45;&gt;b</title></g></g></svg>"
    )
    assert _read(drawing, "graph.svg").title == "Weirs & mills"
    assert _read(gzip.compress(drawing, mtime=0), "graph.svgz").title == "Weirs & mills"


def test_gzip_file_of_any_name_is_read() -> None:
    for name in ("weir.dia", "weir", "weir.gz", "weir.txt.gz.1", ".gz"):
        assert _read(gzip.compress(b"words", mtime=0), name).text == "words"


def test_text_is_read_in_its_declared_encoding() -> None:
    text = '<?xml version="1.0" encoding="windows-1251"?><a>Плотина</a>'
    document = _read(text.encode("cp1251"), "a.xml")
    assert (document.text, document.warnings) == (text, ())


def test_a_page_may_begin_with_a_byte_order_mark() -> None:
    assert media_type(b"\xef\xbb\xbf<!DOCTYPE html><p>x", "page") == "text/html"


def test_notebook_title_is_not_a_comment_in_code() -> None:
    cells = (
        '[{"cell_type":"code","source":["# Import\\n","import x"]},{"cell_type":"markdown","source":["# The weir"]}]'
    )
    assert _read(f'{{"cells":{cells}}}'.encode(), "a.ipynb").title == "The weir"


def test_half_an_emoji_in_a_canvas_or_notebook_costs_only_itself() -> None:
    board = rb'{"nodes": [{"id": "a", "type": "text", "text": "weir \ud83c\udf3e \ud83d"}], "zoom": NaN}'
    assert _read(board, "a.canvas").text == "weir 🌾 \ufffd"
    book = b'{"cells": [{"cell_type": "markdown", "source": ["weir \xed\xa0\xbc\xed\xbc\xbe"]}]}'
    assert _read(book, "a.ipynb").text == "weir 🌾"
    deep = b'{"cells": [{"cell_type": "markdown", "source": ' + b"[" * 900 + b"]" * 900 + b"}]}"
    with pytest.raises(ParseError, match="not valid JSON"):
        _read(deep, "a.ipynb")


def test_a_notebook_of_the_first_format_is_read() -> None:
    cells = '[{"cell_type":"heading","level":1,"source":["Weir"]},{"cell_type":"code","input":["level()"]}]'
    document = _read(f'{{"worksheets":[{{"cells":{cells}}}],"nbformat":3}}'.encode(), "a.ipynb")
    assert (document.title, document.text) == ("Weir", "# Weir\n\n````\nlevel()\n````")


@pytest.mark.parametrize("order", ["<", ">"])
def test_photo_date_is_read_from_exif(order: str) -> None:
    taken = (0x9003, b"2024:03:01 10:30:00\x00")
    document = _read(samples.photograph(order, taken))
    assert document.created == datetime(2024, 3, 1, 10, 30, tzinfo=UTC)
    document = _read(samples.photograph(order, taken, (0x9011, b"+02:00\x00")))
    assert document.created == datetime(2024, 3, 1, 8, 30, tzinfo=UTC)


def test_message_of_nested_parts_only_is_rejected() -> None:
    parts = b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (number, number) for number in range(3_000)
    )
    with pytest.raises(ParseError, match="more than 100 deep"):
        _read(b"From: a@b.c\n" + parts, "deep.eml")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The level of the river was higher than it had been in the years before, and the mill was closed.", "en"),
        ("Der Pegel des Flusses war höher als in den Jahren zuvor, und die Mühle wurde nicht mehr geöffnet.", "de"),
        ("Le niveau de la rivière était plus haut que dans les années précédentes et le moulin est fermé.", "fr"),
        ("El nivel del río era más alto que en los años anteriores y por eso se cerró el molino de la aldea.", "es"),
        ("Het peil van de rivier was hoger dan in de jaren ervoor en de molen is niet meer open voor ons.", "nl"),
        ("Уровень воды в реке был выше, чем в прошлые годы, и мельница не работала, так как это было опасно.", "ru"),
        ("川の水位は例年より高く、水車は止まっていました。", "ja"),
        ("河水的水位比往年高，磨坊已经关闭了。", "zh"),
        ("강의 수위가 예년보다 높아서 물레방아가 멈췄습니다.", "ko"),
        ("Η στάθμη του ποταμού ήταν υψηλότερη από τα προηγούμενα χρόνια.", "el"),
        ("short", None),
        ("x1 y2 z3 " * 40, None),
    ],
)
def test_language_is_detected_only_if_clear(text: str, code: str | None) -> None:
    assert language(text) == code


_ROOT = Path(__file__).parents[2]
_DIGESTS = """
import hashlib
import os
import sys
from pathlib import Path
from catchment.content.extract import extract
from catchment.model import RawContent
from catchment.content.normalize import normalize
from tests.normalize import samples
for path in sorted(path for path in Path("tests/normalize/golden").iterdir() if path.is_file()):
    document = normalize(RawContent(path.read_bytes(), path.name))
    print(path.name, hashlib.sha256(repr((document, extract(document))).encode()).hexdigest())
for data in (samples.pdf(), samples.docx(), samples.xlsx(), samples.odt(), samples.epub(), samples.RTF):
    document = normalize(RawContent(data, "file"))
    print(document.media_type, hashlib.sha256(repr((document, extract(document))).encode()).hexdigest())
# Threads of xberg may still run when the interpreter shuts down, so exit without shutdown.
sys.stdout.flush()
os._exit(0)
"""
_NOTES_ALONE = """
import sys
from catchment.content.extract import extract
from catchment.model import RawContent
from catchment.content.normalize import normalize
extract(normalize(RawContent(b"---\\na: {b: 1}\\n---\\n# x [[y]]", "note.md")))
heavy = {"xberg", "selectolax", "py3langid", "numpy", "pydantic", "asyncio", "sqlalchemy"}
print(sorted(heavy & set(sys.modules)))
"""


def _run(program: str, seed: str) -> str:
    environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(_ROOT)}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def test_documents_do_not_depend_on_the_hash_seed() -> None:
    first = _run(_DIGESTS, "1")
    assert first.count("\n") >= 25
    assert first == _run(_DIGESTS, "2")


def test_reading_notes_imports_no_heavy_library() -> None:
    assert _run(_NOTES_ALONE, "1").strip() == "[]"


def _png_chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def test_metadata_text_of_an_image_is_read() -> None:
    packet = (
        b'<x:xmpmeta xmlns:x="adobe:ns:meta/" xmlns:d="http://purl.org/dc/elements/1.1/" xmlns:r="r"><r:RDF><d:title><r:Alt>'
        b"<r:li>Mill &amp; weir</r:li></r:Alt></d:title><d:description><r:Alt><r:li>The gate\nis shut</r:li></r:Alt>"
        b"</d:description><d:creator><r:Seq><r:li>Ada</r:li><r:li>Nils</r:li></r:Seq></d:creator><d:subject><r:Bag><r:li>water"
        b"</r:li><r:li>May</r:li></r:Bag></d:subject></r:RDF></x:xmpmeta>"
    )
    jpeg = b"\xff\xd8\xff\xe1" + struct.pack(">H", len(packet) + 2) + packet
    document = _read(jpeg + b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", 30, 40) + b"\x03" * 12)
    assert (document.title, document.text, document.author) == ("Mill & weir", "The gate is shut", "Ada, Nils")
    assert document.properties == {"height": 30, "width": 40, "keywords": ["water", "May"]}
    damaged = _read(jpeg.replace(b"<r:RDF>", b"<r:RDX>") + b"\xff\xc0\x00\x11\x08\x00\x01\x00\x01" + b"\x03" * 12)
    assert (damaged.text, damaged.title) == ("", None)


def test_chunks_of_text_in_a_png_are_read() -> None:
    plain = samples.png()
    words = _png_chunk(b"tEXt", b"Title\0M\xfchle") + _png_chunk(
        b"iTXt", b"Description\0\0\0en\0\0" + "Łódź in May".encode()
    )
    document = _read(plain[:33] + words + _png_chunk(b"tEXt", b"Software\0a program") + plain[33:])
    assert (document.title, document.text) == ("Mühle", "Łódź in May")


def test_labels_of_a_drawing_are_read_once() -> None:
    drawing = (
        b"<svg><title>Flow</title><text x='1'>Inlet <tspan>gate</tspan></text><text>Mill &amp; weir</text>"
        b"<text>Inlet <tspan>gate</tspan></text><path d='M0'/><text>open"
    )
    assert _read(drawing, "a.svg").text == "Inlet gate\nMill & weir\nopen"


class Bidder:
    """A reader of another package, with a fixed score."""

    media_type = "application/x-bid"

    def __init__(self, bid: float) -> None:
        self.bid = bid

    def score(self, data: bytes, name: str) -> float:
        return self.bid

    def read(self, data: bytes, name: str) -> Document:
        return Document(f"{name} for {self.bid}", "text/plain")


@pytest.mark.parametrize(
    ("name", "bids", "expected"),
    [
        ("a.bin", (0.5, 0.7, 0.7), "a.bin for 0.7"),
        ("a.md", (0.5, 1.0), "# A"),
        ("a.md", (1.5, 2.0), "a.md for 2.0"),
        ("a.md", (float("nan"), 2.0, float("-inf")), "a.md for 2.0"),
        ("a.md", (float("nan"), -1.0), "# A"),
        ("a.md.gz", (2.0,), "a.md for 2.0"),
    ],
)
def test_highest_bid_of_the_readers_decides(
    monkeypatch: pytest.MonkeyPatch, name: str, bids: tuple[float, ...], expected: str
) -> None:
    readers = tuple(Bidder(bid) for bid in bids)
    monkeypatch.setattr("catchment.content.readers._readers", lambda: readers)
    data = b"# A" if name.endswith(".md") else gzip.compress(b"# A") if name.endswith(".gz") else b"\0\1"
    document = normalize(RawContent(data, name))
    assert document.text == expected
    assert document.media_type == ("text/markdown" if expected == "# A" else "application/x-bid")


def test_defect_of_a_reader_concerns_only_files_that_nobody_else_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catchment.content.readers._readers", lambda: (Bidder("no number"), Bidder(0.1)))  # type: ignore[arg-type]
    assert normalize(RawContent(b"# A", "a.md")).text == "# A"
    assert normalize(RawContent(b"\0\1", "a.bin")).text == "a.bin for 0.1"
    monkeypatch.setattr("catchment.content.readers._readers", lambda: (Bidder("no number"),))  # type: ignore[arg-type]
    with pytest.raises(ParseError, match="the reader Bidder failed"):
        normalize(RawContent(b"\0\1", "a.bin"))
