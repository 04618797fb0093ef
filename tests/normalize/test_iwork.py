"""Pages, Numbers and Keynote: the text, or else the reason why it is missing."""

from __future__ import annotations

import pytest

from catchment.content.normalize import normalize
from catchment.errors import ParseError, Skipped, SkipReason
from catchment.model import Document, RawContent
from tests.normalize import samples

_NAMES = (
    'xmlns:sf="http://developer.apple.com/namespaces/sf" xmlns:sfa="http://developer.apple.com/namespaces/sfa" '
    'xmlns:ls="http://developer.apple.com/namespaces/ls" xmlns:key="http://developer.apple.com/namespaces/keynote2"'
)


def _read(members: dict[str, str | bytes], name: str) -> Document:
    return normalize(RawContent(samples.zipped(members), name))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _archive(kind: int, message: bytes) -> bytes:
    info = _field(1, 1) + _field(2, _field(1, kind) + _field(3, len(message)))
    return _varint(len(info)) + info + message


def _iwa(*archives_: bytes) -> bytes:
    """Return a file of archives in raw Snappy format that consists of literals."""
    data = b"".join(archives_)
    block = _varint(len(data)) + b"".join(
        b"\xf0" + bytes([len(data[at : at + 200]) - 1]) + data[at : at + 200] for at in range(0, len(data), 200)
    )
    return b"\0" + len(block).to_bytes(3, "little") + block


def _text(words: str, kind: int = 0) -> bytes:
    return _archive(2001, _field(1, kind) + _field(3, words.encode()))


def _strings(*strings: str) -> bytes:
    entries = [_field(3, _field(1, key) + _field(3, text.encode())) for key, text in enumerate(strings, 1)]
    return _archive(6005, _field(1, 1) + b"".join(reversed(entries)))


def test_document_of_2009_is_read_without_its_placeholders() -> None:
    page = (
        f"<document {_NAMES}><sf:stylesheet><sf:p>Style</sf:p></sf:stylesheet><sf:p>The weir<sf:br/>is <sf:span>shut</sf:span>"
        "</sf:p><sf:p><sf:ghost-text>Lorem ipsum</sf:ghost-text></sf:p></document>"
    )
    assert _read({"index.xml": page}, "a.pages").text == "The weir is shut"


def test_deck_of_2009_is_read_without_its_master_slides() -> None:
    deck = (
        f"<key:presentation {_NAMES}><key:master-slides><key:master-slide><sf:p>Title Text</sf:p></key:master-slide>"
        "</key:master-slides><sf:p>Flow</sf:p><key:notes><sf:p>slowly</sf:p></key:notes></key:presentation>"
    )
    assert _read({"index.apxl": deck}, "a.key").text == "Flow\n\nslowly"


def test_sheet_of_2009_is_read_as_the_values_of_its_tables() -> None:
    sheet = (
        f'<ls:document {_NAMES}><ls:workspace ls:workspace-name="Gauges"/><sf:tabular-model sf:name="May"><sf:t sf:s="Style-1">'
        '<sf:ct sfa:s="Mill"/></sf:t><sf:n sf:s="Style-2" sf:v="0.30000000000000004"/></sf:tabular-model></ls:document>'
    )
    assert _read({"index.xml": sheet}, "a.numbers").text == "Gauges\n\nMay\n\nMill; 0.3"


@pytest.mark.parametrize("is_nested", [False, True])
def test_later_document_is_read_from_its_archives(is_nested: bool) -> None:
    parts: dict[str, str | bytes] = {
        "Index/Document.iwa": _iwa(
            _text("The weir\nis shut \ufffc"), _archive(7, b"\x08\x01"), _text("Contents", kind=7)
        ),
        "Index/MasterSlide-1.iwa": _iwa(_text("Title Text")),
        "Index/Tables/DataList.iwa": _iwa(_strings("Mill", "Lane " * 60)),
    }
    members = {"a.key/Index.zip": samples.zipped(parts)} if is_nested else parts
    expected = f"The weir\n\nis shut\n\nMill\n\n{('Lane ' * 60).strip()}"
    assert _read(dict(members), "a.key").text == expected


def test_copies_in_an_archive_are_followed() -> None:
    data = _text("abcabcabcabcabcabcabcabcabc")
    literal = data[:-24]
    block = _varint(len(data)) + bytes([(len(literal) - 1) << 2]) + literal + bytes([(24 - 1) << 2 | 2, 3, 0])
    part = b"\0" + len(block).to_bytes(3, "little") + block
    assert _read({"Index/Document.iwa": part}, "a.pages").text == "abc" * 9


def test_preview_is_read_if_there_is_no_text() -> None:
    document = _read({"QuickLook/Preview.pdf": samples.pdf(), "buildVersionHistory.plist": ""}, "a.pages")
    assert document.text == "The dam was inspected in May."
    assert document.warnings == ("only the preview was read",)


def test_damaged_archive_is_a_warning() -> None:
    parts: dict[str, str | bytes] = {"Index/a.iwa": _iwa(_text("The weir")), "Index/b.iwa": b"\0\4\0\0\xff\xff\xff\xff"}
    document = _read(parts, "a.pages")
    assert (document.text, document.warnings) == ("The weir", ("unreadable parts: 1",))


@pytest.mark.parametrize("size", [1 << 25, (1 << 63) - 1])
def test_archive_that_claims_to_be_huge_is_not_unpacked(size: int) -> None:
    block = _varint(size) + b"\xfe\x01\x00" * 3
    document = _read({"Index/a.iwa": b"\0" + len(block).to_bytes(3, "little") + block}, "a.pages")
    assert document.warnings == ("unreadable parts: 1", "no text found")


def test_file_without_text_or_preview_is_skipped() -> None:
    with pytest.raises(Skipped) as caught:
        _read({"buildVersionHistory.plist": ""}, "a.pages")
    assert caught.value.skip_reason is SkipReason.UNSUPPORTED


def test_file_with_a_password_raises_encrypted() -> None:
    with pytest.raises(ParseError, match="the file is encrypted"):
        _read({".iwpv2": b"x", "Index/Document.iwa": b"x"}, "a.pages")
    plain = samples.zipped({"index.xml": "<a/>"}, stored=("index.xml",))
    method = (25_452).to_bytes(2, "little")
    locked = bytearray(plain)
    for place in (8, plain.index(b"PK\x01\x02") + 10):
        locked[place : place + 2] = method
    with pytest.raises(ParseError, match="the file is encrypted"):
        normalize(RawContent(bytes(locked), "a.pages"))
