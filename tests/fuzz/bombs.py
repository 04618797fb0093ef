"""Small files that expand to large, deep or endless content, with the expected outcome of each."""

from __future__ import annotations

import base64
import gzip
import io
import tarfile
import zipfile
from collections.abc import Iterator
from typing import NamedTuple

DEEP = 10_000
_MEGABYTE = 1 << 20
_LAUGHS = "<!DOCTYPE l [<!ENTITY a0 'laugh'>" + "".join(
    f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 12)
) + "]>"  # fmt: skip
_BLOWUP = f"<!DOCTYPE l [<!ENTITY a '{'laugh' * 20_000}'>]>"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_ODF, _ODT = "urn:oasis:names:tc:opendocument", "application/vnd.oasis.opendocument.text"
_OOXML: dict[str, str | bytes] = {
    "[Content_Types].xml": f'<?xml version="1.0"?><Types xmlns="{_PACKAGE}/content-types"/>',
    "_rels/.rels": f'<?xml version="1.0"?><Relationships xmlns="{_PACKAGE}/relationships"/>',
}


class Bomb(NamedTuple):
    """A file and its outcome: "document", "skipped", or the reason of its quarantine entry."""

    name: str
    data: bytes
    ends: str


def bombs() -> Iterator[Bomb]:
    """Generate all bombs; together they are too large for the repository."""
    yield from _archives()
    yield from _entities()
    yield from _nests()
    yield from _crowds()
    yield from _letters()
    yield from _papers()


def _archives() -> Iterator[Bomb]:
    zeros = bytes(64 * _MEGABYTE)
    yield Bomb("inflates.docx", _zip({**_OOXML, "word/document.xml": zeros}), "resource_exhausted")
    yield Bomb("inflates.odt", _zip({"mimetype": _ODT, "content.xml": zeros}), "resource_exhausted")
    del zeros
    yield Bomb("lies.docx", _lying(_zip({**_OOXML, "word/document.xml": bytes(64 * _MEGABYTE)})), "parse_error")
    yield Bomb("crowded.zip", _zip({f"{number}": "" for number in range(100_001)}), "resource_exhausted")
    yield Bomb("within.zip", _within(), "resource_exhausted")
    yield Bomb("inflates.md.gz", gzip.compress(bytes(100 * _MEGABYTE), 1, mtime=0), "resource_exhausted")
    yield Bomb("within.gz", gzip.compress(gzip.compress(gzip.compress(gzip.compress(b"words")))), "skipped")
    yield Bomb("crowded.tar", _tar(100_001), "resource_exhausted")


def _entities() -> Iterator[Bomb]:
    for name, head, said in (("laughs", _LAUGHS, "&a11;"), ("blowup", _BLOWUP, "&a;" * 20_000)):
        start = f'<?xml version="1.0"?>{head}'
        word = f'{start}<w:document xmlns:w="{_WORD}"><w:body><w:p><w:r><w:t>{said}</w:t></w:r></w:p></w:body></w:document>'
        text = (
            f'{start}<office:document-content xmlns:office="{_ODF}:xmlns:office:1.0">{said}</office:document-content>'
        )
        yield Bomb(f"{name}.docx", _zip({**_OOXML, "word/document.xml": word}), "document")
        yield Bomb(f"{name}.odt", _zip({"mimetype": _ODT, "content.xml": text}), "parse_error")
        yield Bomb(f"{name}.svg", f"{start}<svg><title>{said}</title></svg>".encode(), "document")
        yield Bomb(f"{name}.fb2", f"{start}<FictionBook><body><p>{said}</p></body></FictionBook>".encode(), "document")
        yield Bomb(f"{name}.html", f"{head}<html><body>{said}</body></html>".encode(), "document")


def _nests() -> Iterator[Bomb]:
    yield Bomb(
        "lists.md", "".join(f"{' ' * (number % 200)}- {number}\n" for number in range(DEEP)).encode(), "document"
    )
    yield Bomb("deep-lists.md", ("- " * DEEP + "words").encode(), "document")
    yield Bomb("quotes.md", ("> " * DEEP + "words").encode(), "document")
    yield Bomb("brackets.md", (b"[" * DEEP + b"words" + b"](x)" * DEEP), "document")
    yield Bomb("links.md", (b"[[" * DEEP + b"words" + b"]]" * DEEP), "document")
    yield Bomb("emphasis.md", (b"*_" * DEEP + b"words" + b"_*" * DEEP), "document")
    yield Bomb("elements.html", (b"<div><b>" * DEEP + b"words"), "document")
    yield Bomb("tables.html", (b"<table><tr><td>" * DEEP + b"words"), "document")
    yield Bomb("cards.canvas", b'{"nodes":' + b"[" * DEEP + b"]" * DEEP + b"}", "parse_error")
    yield Bomb("cells.ipynb", b'{"cells":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}", "parse_error")
    yield Bomb("brackets.py", b"x = " + b"[" * DEEP + b"]" * DEEP, "document")
    yield Bomb("blocks.js", b"function a() {" * DEEP + b"}" * DEEP, "document")
    yield Bomb("properties.md", b"---\na: " + b"[" * DEEP + b"]" * DEEP + b"\n---\nwords", "document")
    yield Bomb("indented.md", b"---\n" + b"".join(b" " * n + b"a:\n" for n in range(300)) + b"---\nwords", "document")
    aliases = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10) if n else 'laugh'}]\n" for n in range(12))
    yield Bomb("aliases.md", f"---\n{aliases}---\nwords".encode(), "document")
    groups = rb"{\rtf1 " + b"{" * DEEP + b"words" + b"}" * DEEP + b"}"
    yield Bomb("groups.rtf", groups, "document")


def _crowds() -> Iterator[Bomb]:
    yield Bomb(
        "many-links.md", b"".join(b"[[note %d]] [x](y%d.md) #t%d\n" % (n, n, n) for n in range(33_334)), "document"
    )
    yield Bomb("many-headings.md", b"".join(b"# h%d\n" % n for n in range(20_000)), "document")
    yield Bomb("many-links.html", b"".join(b"<a href=x%d>y</a> " % n for n in range(10_000)), "document")
    yield Bomb("many-names.md", b"---\n" + b"".join(b"k%d: v\n" % n for n in range(20_000)) + b"---\nwords", "document")
    yield Bomb("one-line.md", b"word " * 400_000, "document")
    yield Bomb("one-word.md", b"w" * 2_000_000, "document")
    yield Bomb("accents.md", b"a" + "\u0301".encode() * 1_000_000, "document")


def _letters() -> Iterator[Bomb]:
    head = b"From: ada@example.org\nSubject: x\n"
    parts = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(DEEP))
    yield Bomb("parts.eml", head + parts + b"\nwords", "parse_error")
    messages = b"Content-Type: message/rfc822\n\n" * DEEP
    yield Bomb("messages.eml", head + messages + b"words", "parse_error")
    crowd = b"".join(b"--b\nContent-Type: text/plain\n\nwords %d\n" % n for n in range(100_000))
    yield Bomb("crowded.eml", head + b"Content-Type: multipart/mixed; boundary=b\n\n" + crowd + b"--b--\n", "document")
    yield Bomb("header.eml", head + b"X-Long: " + b"x" * 10_000_000 + b"\n\nwords\n", "document")
    yield Bomb("folded.eml", head + b"To: a@b,\n" + b" <ada@example.org>,\n" * 50_000 + b"\n\nwords\n", "document")
    yield Bomb("fields.eml", head + b"X-A: b\n" * 50_000 + b"\nwords\n", "document")
    yield Bomb(
        "words.eml", head + b"Subject: " + b"=?utf-8?q?=C3?= =?utf-8?q?=A4?= " * 2_000 + b"\n\nwords\n", "document"
    )
    quoted = b"".join(b">" * (n % 500) + b" words\n" for n in range(20_000))
    yield Bomb("quoted.eml", head + b"\n" + quoted, "document")
    sealed = b"\x30\x80\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02\xa0\x80" + b"\x24\x80" * DEEP
    kind = b"Content-Type: application/pkcs7-mime\nContent-Transfer-Encoding: base64\n\n"
    yield Bomb("sealed.eml", head + kind + base64.encodebytes(sealed), "document")


def _papers() -> Iterator[Bomb]:
    yield Bomb(
        "arrays.pdf", _pdf(b"<< /Type /Catalog /Pages 2 0 R /X " + b"[" * DEEP + b"]" * DEEP + b" >>"), "parse_error"
    )
    loop = b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 /Parent 2 0 R >>"
    yield Bomb("loop.pdf", _pdf(b"<< /Type /Catalog /Pages 2 0 R >>", loop), "parse_error")
    cells = "".join(f'<row r="{n}"><c r="A{n}" t="s"><v>0</v></c></row>' for n in range(1, 20_000))
    sheet = f'<worksheet xmlns="{_SHEET}"><dimension ref="A1:XFD1048576"/><sheetData>{cells}</sheetData></worksheet>'
    yield Bomb(
        "cells.xlsx",
        _zip({**_OOXML, "xl/workbook.xml": "<workbook/>", "xl/worksheets/sheet1.xml": sheet}),
        "parse_error",
    )


def _zip(members: dict[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _lying(data: bytes) -> bytes:
    """Return the archive with a directory that claims small sizes for all members."""
    out, place = bytearray(data), 0
    for mark, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        place = out.find(mark)
        while place >= 0:
            out[place + offset : place + offset + 4] = (1_000).to_bytes(4, "little")
            place = out.find(mark, place + 4)
    return bytes(out)


def _within() -> bytes:
    """Return nested archives, sixteen of each in the next."""
    inner: bytes = _zip({"0": bytes(_MEGABYTE)})
    for _ in range(6):
        inner = _zip({f"{number}.zip": inner for number in range(16)})
    return inner


def _tar(members: int) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for number in range(members):
            archive.addfile(tarfile.TarInfo(f"{number}"))
    return out.getvalue()


def _pdf(*objects: bytes) -> bytes:
    body = b"".join(b"%d 0 obj\n%s\nendobj\n" % (number, said) for number, said in enumerate(objects, 1))
    return b"%PDF-1.4\n" + body + b"trailer << /Root 1 0 R /Size 9 >>\nstartxref\n0\n%%EOF\n"
