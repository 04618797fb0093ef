"""Old office files: encryption is detected, and charts do not change the cells of their sheet."""

from __future__ import annotations

import struct

import pytest

from catchment.content.normalize import normalize
from catchment.errors import ParseError
from catchment.model import Document, RawContent
from tests.normalize import samples


def _read(data: bytes, name: str) -> Document:
    return normalize(RawContent(data, name))


def _record(kind: int, content: bytes = b"") -> bytes:
    return struct.pack("<HH", kind, len(content)) + content


def _text(words: str, form: str = "<B") -> bytes:
    return struct.pack(form, len(words)) + b"\x01" + words.encode("utf-16-le")


def _begin(kind: int) -> bytes:
    return _record(0x0809, struct.pack("<HHHHII", 0x0600, kind, 0x0DBB, 0x07CC, 0, 6))


def _cell(row: int, number: float) -> bytes:
    return _record(0x0203, struct.pack("<HHHd", row, 0, 0, number))


_END = _record(0x0A)


def _workbook(in_sheet: bytes, globally: bytes = b"") -> bytes:
    """Return an .xls with one sheet and the number 7 in its first cell."""
    name = _record(0x85, struct.pack("<IBB", 0, 0, 0) + _text("Weir"))
    start = len(_begin(5) + globally + name + _END)
    name = _record(0x85, struct.pack("<IBB", start, 0, 0) + _text("Weir"))
    sheet = _begin(0x10) + _record(0x0200, struct.pack("<IIHHH", 0, 2, 0, 1, 0)) + _cell(0, 7) + in_sheet + _END
    return samples.compound({"Workbook": _begin(5) + globally + name + _END + sheet})


def test_numbers_of_a_chart_do_not_overwrite_cells() -> None:
    plain = _read(_workbook(b""), "a.xls")
    assert plain.text == "## Weir\n\n| 7 |\n| --- |"
    chart = _begin(0x20) + _cell(0, 99) + _cell(1, 98) + _END
    assert _read(_workbook(chart + _cell(1, 8)), "a.xls").text == "## Weir\n\n| 7 |\n| --- |\n| 8 |"


def test_boxes_charts_links_and_headers_of_old_workbook_are_read() -> None:
    address = "https://weir.example/"
    link = bytes(32) + bytes.fromhex("e0c9ea79f9bace118c8200aa004ba90b") + struct.pack("<I", 2 * len(address) + 2)
    extra = (
        _record(0x14, _text("&LSurvey of &D", "<H"))
        + _record(0x15, _text("&CPage &P", "<H"))
        + _begin(0x20)
        + _record(0x100D, b"\0\0" + _text("Flow in May"))
        + _END
        + _record(0x01B6, struct.pack("<10xHH4x", 9, 16))
        + _record(0x3C, b"\0too low?\n")
        + _record(0x3C, bytes(16))
        + _record(0x01B8, link + address.encode("utf-16-le") + b"\0\0")
    )
    assert _read(_workbook(extra), "a.xls").text.split("\n\n")[2:] == ["Survey of", "Flow in May", "too low?", address]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (_workbook(b"", globally=_record(0x2F, bytes(6))), "a.xls"),
        (samples.compound({"WordDocument": b"\xec\xa5" + bytes(8) + b"\x00\x01"}), "a.doc"),
        (samples.compound({"PowerPoint Document": b"x", "Current User": bytes(12) + b"\xdf\xc4\xd1\xf3"}), "a.ppt"),
        (samples.compound({"PowerPoint Document": b"x", "EncryptedSummary": b"x"}), "a.ppt"),
        (samples.compound({"WordDocument": b"x", "\x09DRMContent": b"x"}), "a.doc"),
        (samples.compound({"EncryptionInfo": b"x", "EncryptedPackage": b"x"}), "a.xlsx"),
        (samples.compound({"EncryptionInfo": b"x", "EncryptedPackage": b"x"}), "a.xlsb"),
        (samples.compound({"EncryptionInfo": b"x", "EncryptedPackage": b"x"}), "a.pptx"),
    ],
)
def test_encrypted_office_file_raises(data: bytes, name: str) -> None:
    with pytest.raises(ParseError, match="the file is encrypted"):
        _read(data, name)


def test_old_workbook_with_a_new_ending_is_read() -> None:
    assert "| 7 |" in _read(_workbook(b""), "a.xlsx").text


@pytest.mark.parametrize("cut", [0, 100, 600, 1_200, 3_000])
def test_damaged_old_workbook_is_refused(cut: int) -> None:
    data = samples.compound({"Workbook": b""})[: 8 + cut]
    with pytest.raises(ParseError):
        _read(data, "a.xls")


def _document(*parts: str) -> bytes:
    """Return a .doc with a text for each of its eight parts: main text, footnotes, headers, macros, comments and so on."""
    text = "".join(parts)
    ends = (0, len(parts[0]), len(text))
    wide = text[ends[1] :].encode("utf-16-le")
    start = 1_024
    plan = struct.pack("<3I", *ends)
    plan += struct.pack("<HIH", 0, 0x40000000 | start * 2, 0) + struct.pack("<HIH", 0, start + ends[1], 0)
    clx = b"\x01" + struct.pack("<H", 2) + b"\0\0" + b"\x02" + struct.pack("<I", len(plan)) + plan
    head = bytearray(start)
    struct.pack_into("<HH", head, 0, 0xA5EC, 0xC1)
    struct.pack_into("<H", head, 10, 0x0200)
    struct.pack_into("<H", head, 32, 14)
    struct.pack_into("<H", head, 62, 22)
    struct.pack_into("<8I", head, 0x4C, *map(len, parts))
    struct.pack_into("<H", head, 152, 93)
    struct.pack_into("<II", head, 0x01A2, 0, len(clx))
    return samples.compound({"1Table": clx, "WordDocument": bytes(head) + parts[0].encode("cp1252") + wide})


def test_headers_notes_comments_and_boxes_of_an_old_document_are_read() -> None:
    data = _document(
        "The weir\r",
        "a footnote\r",
        "Survey \x13 PAGE \x147\x15\r\r",
        "macro\r",
        "too low?\r",
        "in Łódź\r",
        "The weir\r",
        "",
    )
    document = _read(data, "a.doc")
    assert document.text.startswith("The weir")
    for words in ("Note: in Łódź", "Header or footer: Survey 7", "Comment: too low?", "a footnote"):
        assert document.text.count(words) == 1
    assert document.text.count("The weir") == 1
    assert "macro" not in document.text
    assert document.warnings == ()


def test_comments_of_an_old_deck_are_read() -> None:
    def record(kind: int, content: bytes, version: int = 0) -> bytes:
        return struct.pack("<HHI", version, kind, len(content)) + content

    def string(instance: int, words: str) -> bytes:
        return record(0x0FBA, words.encode("utf-16-le"), instance << 4)

    comment = record(0x2EE0, string(0, "Ada") + string(1, "which year?") + string(2, "A"), 0xF)
    slide = record(0x03EE, record(0x138B, comment) + string(1, "no comment"), 0xF)
    document = _read(samples.compound({"PowerPoint Document": slide}), "a.ppt")
    assert document.text.endswith("\n\nComment: which year?")
    assert "no comment" not in document.text


@pytest.mark.parametrize("cut", [0, 1, 512, 3_000])
def test_document_shorter_than_its_sector_table_is_read(cut: int) -> None:
    data = bytearray(_document("The weir\r", "a footnote\r", "", "", "", "", "", ""))
    sectors = len(data) // 512 - 1
    struct.pack_into("<I", data, 512 + 4 * sectors, 0xFFFFFFFE)
    document = _read(bytes(data[: len(data) - cut]), "a.doc")
    assert "The weir" in document.text
    assert document.warnings == ("the file is truncated; text may be missing",)
