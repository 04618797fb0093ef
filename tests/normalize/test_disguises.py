"""Files with a name that hides their type, and files inside other files, are read by their content or skipped."""

from __future__ import annotations

import base64
import random
import struct
import zlib
from typing import Any
from urllib.parse import quote

import orjson
import pytest

from catchment.content.normalize import media_type, normalize
from catchment.errors import ParseError, Skipped
from catchment.model import Document, RawContent
from tests.normalize import samples

_ODF = "application/vnd.oasis.opendocument"


def _read(data: str | bytes, name: str) -> Document:
    return normalize(RawContent(data if isinstance(data, bytes) else data.encode(), name))


def _message(subject: str, text: str, head: str = "") -> str:
    body = base64.encodebytes(text.encode()).decode()
    return (
        f"From: Ada <ada@example.org>\nTo: Nils <nils@example.net>\nDate: Sat, 14 Mar 2026 18:00:00 +0000\nSubject: {subject}\n"
        f"Message-ID: <{subject}@example.org>\nMIME-Version: 1.0\n{head}Content-Type: text/plain; charset=utf-8\n"
        f"Content-Transfer-Encoding: base64\n\n{body}"
    )


@pytest.mark.parametrize(
    "name", ["weir.msg", "weir.mht", "1710.M3P4.host:2,S", "weir", "weir.txt", "weir.bak", "weir.eml"]
)
def test_message_is_read_under_any_name(name: str) -> None:
    document = _read(_message("Weir", "The gate is shut."), name)
    assert (document.media_type, document.title, document.text) == ("message/rfc822", "Weir", "The gate is shut.")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("From: Ada\nSubject: notes\n\nwords", "memo.txt"),
        ("Received: five apples\nTo: the mill\n\nwords", "list.txt"),
        ("From Ada, with love\nTo: you\n", "poem.txt"),
        (
            "From 3f2a Mon Sep 17 00:00:00 2001\nFrom: Ada <a@example.org>\nDate: x\nMessage-ID: <a@b>\n\n---\n",
            "0001.patch",
        ),
        ("From: Ada\nMessage-ID: <a@b>\n\nwords", "note.md"),
    ],
)
def test_text_that_resembles_mail_stays_text(text: str, name: str) -> None:
    assert media_type(text.encode(), name) in ("text/plain", "text/markdown", "text/x-diff")


def test_apple_mail_file_is_read_without_its_property_list() -> None:
    message = _message("Weir", "The gate is shut.").encode()
    data = b"%d      \n%s<?xml version='1.0'?><plist><dict><key>flags</key></dict></plist>\n" % (len(message), message)
    for name in ("12.emlx", "12.partial.emlx", "12"):
        assert (_read(data, name).title, _read(data, name).text) == ("Weir", "The gate is shut.")


def _mailbox(*messages: str) -> str:
    return "".join(f"From ada@example.org Sat Mar 14 18:00:00 2026\n{message}\n" for message in messages)


@pytest.mark.parametrize("name", ["archive.mbox", "Inbox", "old.mbx"])
def test_mailbox_is_read_message_by_message(name: str) -> None:
    plain = "Subject: Mill\nFrom: Nils\nDate: Sun, 15 Mar 2026 08:00:00 +0000\n\n>From the mill:\n>>From here\nFrom now on.\n"
    document = _read(_mailbox(_message("Weir", "The gate is shut."), plain), name)
    assert document.media_type == "application/mbox"
    assert document.text == (
        "## Weir\n\n- From: Ada <ada@example.org>\n- Date: 2026-03-14 18:00 UTC\n\nThe gate is shut.\n\n"
        "## Mill\n\n- From: Nils\n- Date: 2026-03-15 08:00 UTC\n\nFrom the mill:\n>From here\nFrom now on."
    )


def test_large_mailbox_is_read_up_to_a_limit() -> None:
    document = _read(_mailbox(*[_message("Weir", "shut")] * 1_001), "a.mbox")
    assert document.text.count("## Weir") == 1_000
    assert document.warnings == (
        "only the first 1,000 messages were read; split the mailbox into files of one message",
    )
    document = _read(_mailbox("X: no message\n", _message("Weir", "shut")), "a.mbox")
    assert document.text.startswith("## Weir")
    assert document.warnings == ("damaged messages not read: 1",)
    with pytest.raises(ParseError, match="no messages"):
        _read("only words", "a.mbox")


def _saved(html: str, head: str, encoding: str = "quoted-printable") -> str:
    return (
        f'{head}MIME-Version: 1.0\nContent-Type: multipart/related;\n\ttype="text/html";\n\tboundary="b1"\n\n--b1\n'
        f"Content-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: {encoding}\nContent-Location: https://example.org/weir\n\n"
        f"{html}\n--b1\nContent-Type: image/png\nContent-Transfer-Encoding: base64\n\nAAECAwQF\n--b1\nContent-Type: text/html\n"
        "Content-Location: cid:frame\n\n<p>In a frame</p>\n--b1--\n"
    )


@pytest.mark.parametrize("name", ["saved.mht", "saved.mhtml", "saved.doc", "saved"])
@pytest.mark.parametrize(
    "head",
    [
        "From: <Saved by Blink>\nSnapshot-Content-Location: https://example.org/weir\nSubject: x\nDate: Sat, 14 Mar"
        " 2026 18:00:00 -0000\n",
        'From: "Saved by Windows Internet Explorer 8"\nSubject: x\n',
        "",
    ],
)
def test_saved_page_is_read_like_a_page(name: str, head: str) -> None:
    page = (
        "<html><head><title>Weir in=\nspection</title></head><body><h1>M=C3=BChle</h1><p>The ga=\nte</p></body></html>"
    )
    document = _read(_saved(page, head), name)
    assert (document.media_type, document.title) == ("multipart/related", "Weir inspection")
    assert document.text == "# Mühle\n\nThe gate\n\nIn a frame"
    saved = {"saved": "2026-03-14"} if "Date:" in head else {}
    assert document.properties == {"canonical": "https://example.org/weir", **saved}


def _notebook(*outputs: dict[str, Any]) -> Document:
    cell = {"cell_type": "code", "source": ["fit(x)"], "outputs": list(outputs)}
    return _read(orjson.dumps({"cells": [cell], "nbformat": 4}), "a.ipynb")


_CODE = "````\nfit(x)\n````"


def _result(**forms: Any) -> dict[str, Any]:
    data = {f"{kind.replace('_', '/')}": content for kind, content in forms.items()}
    return {"output_type": "display_data", "data": data, "metadata": {}}


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ({"output_type": "stream", "text": ["10%\r99%\r", "done\n", "\x1b[31mred\x1b[0m\n"]}, "````\ndone\nred\n````"),
        (
            {"output_type": "error", "traceback": ["\x1b[0;31mTrace\x1b[0m", "ValueError: dry"]},
            "````\nTrace\nValueError: dry\n````",
        ),
        ({"output_type": "pyerr", "evalue": "dry"}, "````\ndry\n````"),
        (_result(text_plain="'Quill'"), "````\n'Quill'\n````"),
        (_result(text_plain="x", text_html=["<table><tr><td>Weir</td><td>2", "</td></tr></table>"]), "Weir | 2"),
        (_result(text_plain="<Chart>", text_html="<script>x()</script>"), "````\n<Chart>\n````"),
        (_result(text_markdown="**Weir**", text_plain="x"), "**Weir**"),
        ({"output_type": "pyout", "text": ["2.5"], "prompt_number": 1}, "````\n2.5\n````"),
    ],
)
def test_outputs_of_a_notebook_are_read(output: dict[str, Any], text: str) -> None:
    document = _notebook(output)
    assert (document.text, document.warnings) == (f"{_CODE}\n\n{text}", ())


def test_pictures_and_long_outputs_of_a_notebook_are_reported() -> None:
    picture = _result(image_png="AAEC", text_plain="<Figure size 640x480>")
    document = _notebook(picture, {"output_type": "stream", "text": "x" * 30_000}, {"output_type": "stream"})
    assert document.text == f"{_CODE}\n\n````\n{'x' * 20_000}\n````"
    assert document.warnings == ("pictures and other data in outputs not read: 1", "long outputs cut: 1")


def test_html_in_a_drawing_is_read_once() -> None:
    html = '<div xmlns="http://www.w3.org/1999/xhtml">Sluice <b>ga</b>te<br/>north</div>'
    drawing = (
        f"<svg><g><switch><foreignObject width='2'>{html}</foreignObject><text x='1'>Sluice ga...</text></switch></g><text/>"
        "<switch><text>Mill</text></switch><switch><foreignObject/><text>Weir</text></switch></svg>"
    )
    assert _read(drawing, "a.svg").text == _read(drawing, "a.xml").text == "Sluice gate north\nMill\nWeir"


def _png_with(kind: bytes, content: bytes) -> bytes:
    plain = samples.png()
    chunk = struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    return plain[:33] + chunk + plain[33:]


def test_diagram_and_compressed_texts_of_a_png_are_read() -> None:
    graph = '<mxGraphModel><root><mxCell value="Sluice"/></root></mxGraphModel>'
    diagram = f'<mxfile><diagram name="Water">{graph}</diagram></mxfile>'
    chunk = b"mxfile\0" + quote(diagram).encode()
    assert _read(_png_with(b"tEXt", chunk), "a.drawio.png").text == "## Water\n\nSluice"
    damaged = _read(_png_with(b"tEXt", chunk[:60]), "a.png")
    assert (damaged.text, damaged.warnings) == ("", ("the diagram in the picture cannot be read",))
    packed = zlib.compress("Mühle".encode("latin-1")), zlib.compress("Łódź".encode())
    assert _read(_png_with(b"zTXt", b"Title\0\0" + packed[0]), "a.png").title == "Mühle"
    assert _read(_png_with(b"iTXt", b"Title\0\1\0pl\0\0" + packed[1]), "a.png").title == "Łódź"
    assert _read(_png_with(b"zTXt", b"Title\0\0" + b"no"), "a.png").title is None


def test_shapes_of_a_visio_drawing_are_read_page_by_page() -> None:
    main = "application/vnd.ms-visio.drawing.main+xml"
    relation = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    shapes = "<Shape ID='1'><Text><cp IX='0'/>Sluice <pp IX='0'/>gate\n</Text></Shape><Shape ID='2'/>"
    page = f"<PageContents><Shapes>{shapes}</Shapes></PageContents>"
    listed = "<Page Name='Water'><Rel r:id='r2'/></Page><Page Name='Bad'><Rel r:id='r1'/></Page>"
    parts: dict[str, str | bytes] = {
        "visio/document.xml": "<VisioDocument/>",
        "visio/pages/pages.xml": f"<Pages {relation}>{listed}</Pages>",
        "visio/pages/_rels/pages.xml.rels": samples.relations(("page", "page1.xml"), ("page", "page2.xml")),
        "visio/pages/page1.xml": "<broken",
        "visio/pages/page2.xml": page,
        "visio/comments.xml": "<Comments><CommentList><CommentEntry>Check it</CommentEntry></CommentList></Comments>",
    }  # fmt: skip
    document = _read(samples.opc("visio/document.xml", main, parts), "plan.zip")
    assert document.media_type == "application/vnd.ms-visio.drawing"
    assert document.text == "## Water\n\nSluice gate\n\nComment: Check it"
    assert document.warnings == ("unreadable pages: 1",)
    del parts["visio/pages/pages.xml"], parts["visio/pages/page1.xml"], parts["visio/comments.xml"]
    assert _read(samples.opc("visio/document.xml", main, parts), "plan.vsdx").text == "## Page 2\n\nSluice gate"


_OASIS = "urn:oasis:names:tc:opendocument:xmlns"
_SPACES = " ".join(
    (
        'xmlns:dc="http://purl.org/dc/elements/1.1/"',
        f'xmlns:draw="{_OASIS}:drawing:1.0"',
        *(f'xmlns:{name}="{_OASIS}:{name}:1.0"' for name in ("office", "text", "table", "style")),
    )
)


def _flat(kind: str, body: str) -> str:
    return (
        f'<?xml version="1.0"?>\n<office:document {_SPACES} office:version="1.3" office:mimetype="{_ODF}.{kind}">'
        "<office:meta><dc:title>Cloth</dc:title></office:meta><office:master-styles><style:master-page><style:footer><text:p>"
        f"Mill lane</text:p></style:footer></style:master-page></office:master-styles><office:body><office:{kind}>{body}"
        f"</office:{kind}></office:body></office:document>"
    )


@pytest.mark.parametrize(
    ("kind", "body", "name"),
    [
        (
            "text",
            "<text:p>A flat <text:s/>press<office:binary-data>AAECAwQF</office:binary-data></text:p>",
            "press.fodt",
        ),
        ("text", "<text:p>A flat <text:s/>press</text:p>", "press.xml"),
        (
            "spreadsheet",
            '<table:table table:name="S"><table:table-row><table:table-cell office:value-type="string">'
            "<text:p>A flat press</text:p></table:table-cell></table:table-row></table:table>",
            "press.fods",
        ),
        (
            "presentation",
            '<draw:page draw:name="p"><draw:frame><draw:text-box><text:p>A flat press</text:p></draw:text-box></draw:frame>'
            "</draw:page>",
            "press.fodp",
        ),
    ],
)
def test_flat_open_document_is_read_like_a_package(kind: str, body: str, name: str) -> None:
    document = _read(_flat(kind, body), name)
    assert (document.media_type, document.title) == (f"{_ODF}.{kind}", "Cloth")
    assert "A flat press" in document.text
    assert "Mill lane" in document.text
    assert "AAEC" not in document.text


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("<html><body><table><tr><td>Tenter</td></tr></table>", "a.xls", "text/html"),
        ("\ufeff<table border=1><tr><td>Tenter</td></tr></table>", "a.xls", "text/html"),
        ('<meta http-equiv="content-type"><table><tr><td>Tenter</td></tr></table>', "a.doc", "text/html"),
        (
            "<?xml version='1.0'?><!-- x --><!DOCTYPE html PUBLIC 'x'><html><body>Tenter</body></html>",
            "a.xml",
            "text/html",
        ),
        ("<table><tr><td>Tenter</td></tr></table>", "a.txt", "text/plain"),
        ("Tenter\t12\n", "a.xls", "text/plain"),
        (
            "<FictionBook><body><section><p>Tenter</p></section></body></FictionBook>",
            "a.xml",
            "application/x-fictionbook+xml",
        ),
        ("<project><name>Tenter</name></project>", "pom.xml", "application/xml"),
        ("<workbook><name>Tenter</name></workbook>", "a.twb", "text/plain"),
    ],
)
def test_root_element_decides_the_type(text: str, name: str, expected: str) -> None:
    document = _read(text, name)
    assert document.media_type == expected
    assert "Tenter" in document.text
    assert _read(text.removeprefix("\ufeff").encode("utf-16"), name).media_type == expected


def test_word_perfect_is_recognized_by_its_signature() -> None:
    assert (
        media_type(b"\xffWPC\x10\x00\x00\x00\x01\x0a\x02\x01" + bytes(40), "letter.doc")
        == "application/vnd.wordperfect"
    )


def test_base64_without_a_type_is_skipped() -> None:
    data = random.Random(3).randbytes(6_000)
    for text in (base64.encodebytes(data), base64.b64encode(data), base64.urlsafe_b64encode(data)):
        with pytest.raises(Skipped):
            _read(text, "blob.txt")
        assert _read(b"A key:\n" + text, "blob.txt").media_type == "text/plain"
    assert _read("gattaca" * 900, "sequence.txt").media_type == "text/plain"


_PAGE = "<html><body><h1>Mühlen</h1><p>" + "The weir was raised by eleven centimetres. " * 200 + "</p><mbp:pagebreak/>"


@pytest.mark.parametrize("name", ["book.mobi", "book.azw3", "book.prc", "book"])
@pytest.mark.parametrize("options", [{}, {"compression": 1}, {"trailer": b"\0x\x82"}, {"version": 8}])
def test_mobipocket_book_is_read(name: str, options: dict[str, Any]) -> None:
    document = _read(samples.mobipocket_book(_PAGE + ("p { }  " if options.get("version") else ""), **options), name)
    assert (document.title, document.author, document.language) == ("Mühlen", "Ada Berg", "de")
    assert document.text.startswith("# Mühlen\n\nThe weir was raised by eleven")
    assert document.text.count("eleven centimetres.") == 200
    assert document.text.endswith("centimetres.")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (samples.mobipocket_book(_PAGE, compression=17_480), "HUFF/CDIC"),
        (samples.mobipocket_book(_PAGE, protection=2), "copy-protected"),
        (samples.mobipocket_book(_PAGE)[:100], "truncated"),
        (samples.mobipocket_book("x")[:-1] + b"\xb0", "truncated"),
    ],
)
def test_book_that_cannot_be_read_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        _read(data, "book.mobi")
