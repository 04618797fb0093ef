"""Archives that libarchive reads: 7z, rar and others. Their entries are read in their order."""

from __future__ import annotations

import io
import struct
import sys
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from catchment.content.parts import listing
from catchment.content.parts.containers import kind_of_container
from catchment.content.parts.listing import ListedPart, OpenContainer, parts_of, read_part
from catchment.errors import ParseError
from catchment.settings import Home, Limits
from tests.engine.papers import Papers
from tests.engine.test_parts import zipped

pytestmark = pytest.mark.full
"""The quick tests need no library of the system."""

FILES = {"d/one.md": b"# One\n", "zwei-\u00fc.txt": b"two", "empty.md": b"", "three.md": b"3" * 90_000}
WRITERS = {
    "a.7z": ("7zip", None),
    "a.tar.zst": ("gnutar", "zstd"),
    "a.TZST": ("gnutar", "zstd"),
    "a.tar.lz": ("gnutar", "lzip"),
    "a.cpio": ("cpio_newc", None),
}
DAMAGED = "the archive is damaged or of an unknown kind; fetch or save it again"
LOCKED = "encrypted; unpack it with its password"


def packed(name: str, files: Mapping[str, bytes] = FILES) -> bytes:
    import libarchive

    written = io.BytesIO()
    layout, compression = WRITERS[name]
    with libarchive.custom_writer(written.write, layout, compression) as archive:
        for path, data in files.items():
            archive.add_file_from_memory(path, len(data), data)
    return written.getvalue()


def rar(files: Mapping[str, bytes], *, locked: str = "", main: int = 0) -> bytes:
    """Return a rar file (version 4) of stored files, one of which may have the mark of an encrypted one."""

    def block(kind: int, flags: int, fields: bytes) -> bytes:
        body = struct.pack("<BHH", kind, flags, 7 + len(fields)) + fields
        return struct.pack("<H", zlib.crc32(body) & 0xFFFF) + body

    blocks = [b"Rar!\x1a\x07\0", block(0x73, main, bytes(6))]
    for name, data in files.items():
        flags = 0x8000 | (0x4 if name == locked else 0)
        fields = struct.pack(
            "<IIBIIBBHI", len(data), len(data), 3, zlib.crc32(data), 0x5C630800, 20, 0x30, len(name), 0o100644
        )
        blocks += [block(0x74, flags, fields + name.encode()), data]
    return b"".join((*blocks, block(0x7B, 0x4000, b"")))


def parts(data: bytes, name: str) -> list[ListedPart]:
    return list(parts_of(io.BytesIO(data), kind_of_container(name) or "", Limits()))


@pytest.mark.parametrize("near", [1, 4_096])
@pytest.mark.parametrize("name", WRITERS)
def test_parts_are_listed_and_read_in_any_order(name: str, near: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_NEAR", near)
    data = packed(name)
    assert {part.path: part.size for part in parts(data, name)} == {path: len(text) for path, text in FILES.items()}
    container = OpenContainer(io.BytesIO(data), kind_of_container(name) or "")
    for path in (*FILES, *reversed(FILES), "three.md", "three.md", "d/one.md"):
        assert read_part(container, path, 1 << 20).data == FILES[path]


def test_rar_with_an_encrypted_file_has_the_others() -> None:
    listed = parts(rar({"a.md": b"first", "b.md": b"secret", "c.md": b"third"}, locked="b.md"), "a.rar")
    assert [(part.path, part.problem) for part in listed] == [("a.md", ""), ("b.md", LOCKED), ("c.md", "")]


def test_rar_with_encrypted_names_says_so() -> None:
    with pytest.raises(ParseError, match=LOCKED):
        parts(rar({"a.md": b"first"}, main=0x80), "a.rar")


def test_rar_with_a_wrong_checksum_of_its_header_is_damaged() -> None:
    data = bytearray(rar({"a.md": b"first"}))
    data[30] ^= 0xFF
    with pytest.raises(ParseError, match=DAMAGED):
        parts(bytes(data), "a.rar")


@pytest.mark.parametrize("name", ["a.7z", "a.tar.zst", "a.tar.lz"])
def test_truncated_archive_is_damaged(name: str) -> None:
    with pytest.raises(ParseError, match=DAMAGED):
        parts(packed(name)[:-40], name)


def test_7z_whose_writing_was_interrupted_is_damaged() -> None:
    data = packed("a.7z")
    header = bytes(20)  # place, size and checksum of what was never written
    start = data[:8] + struct.pack("<I", zlib.crc32(header)) + header
    with pytest.raises(ParseError, match=DAMAGED):
        parts(start + data[32:], "a.7z")
    assert parts(start, "a.7z") == []


@pytest.mark.parametrize(
    "data", [b"", b"# A note\n", zipped({"a.md": "1"}), b"#mtree\na type=file contents=/etc/hostname\n"]
)
def test_content_of_another_kind_is_damaged(data: bytes) -> None:
    with pytest.raises(ParseError, match=DAMAGED):
        parts(data, "a.7z")


def test_links_are_not_parts() -> None:
    import libarchive

    written = io.BytesIO()
    with libarchive.custom_writer(written.write, "gnutar", "zstd") as archive:
        archive.add_file_from_memory("a.md", 1, b"1")
        archive.add_file_from_memory("b.md", 0, b"", filetype=0o120000, linkpath="/etc/passwd")
    assert [part.path for part in parts(written.getvalue(), "a.tzst")] == ["a.md"]


def test_paths_cannot_leave_the_archive() -> None:
    files = {"../../up.md": b"1", "/etc/x.md": b"2", "a!/b.md": b"3", "C:\\d.md": b"4"}
    found = [part.path for part in parts(packed("a.cpio", files), "a.cpio")]
    assert found == ["up.md", "etc/x.md", "a!\u2215b.md", "C:/d.md"]


def test_folder_of_a_zip_file_by_its_attribute_is_not_a_part() -> None:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        folder = zipfile.ZipInfo("folder")
        folder.external_attr = 0x10
        archive.writestr(folder, b"")
        archive.writestr("folder/a.md", b"1")
    assert [part.path for part in parts(written.getvalue(), "a.zip")] == ["folder/a.md"]


def test_zip_file_with_another_name_before_the_content_is_read() -> None:
    data = zipped({"a.md": b"first"}).replace(b"a.md", b"b.md", 1)
    assert [part.path for part in parts(data, "a.zip")] == ["a.md"]
    assert read_part(OpenContainer(io.BytesIO(data), "application/zip"), "a.md", 1 << 20).data == b"first"


def test_zip_file_with_an_unknown_compression_says_so() -> None:
    data = zipped({"a.md": b"first"})
    deflate64 = data.replace(b"PK\x03\x04\x14\0\0\0\x08", b"PK\x03\x04\x14\0\0\0\x09").replace(
        b"PK\x01\x02\x14\x03\x14\0\0\0\x08", b"PK\x01\x02\x14\x03\x14\0\0\0\x09"
    )
    with pytest.raises(ParseError, match="compressed with a method that is not supported; unpack it"):
        read_part(OpenContainer(io.BytesIO(deflate64), "application/zip"), "a.md", 1 << 20)


def test_mailbox_without_messages_is_not_empty_in_silence() -> None:
    with pytest.raises(ParseError, match="no messages"):
        parts(b"From ada Mon Jun 01 10:00:00 2009\n\nA text without headers\n", "a.mbox")
    assert parts(b"", "a.mbox") == []


def test_missing_library_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    data = packed("a.7z")
    monkeypatch.setitem(sys.modules, "libarchive", None)
    with pytest.raises(
        ParseError, match=r'run: pip install "catchment\[archives\]", and on Debian: apt install libarchive13'
    ):
        parts(data, "a.7z")


def test_archives_in_each_other_are_documents(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    papers = Papers(home, folder)
    inner = packed("a.7z", {"deep.md": b"# Deep\n", "t.zip": zipped({"deepest.md": "# Deepest"})})
    (folder / "a.zip").write_bytes(zipped({"inner.7z": inner, "r.rar": rar({"r.md": b"from rar"})}))
    (folder / "b.tar.zst").write_bytes(packed("a.tar.zst", {"n.md": b"note", "bad.7z": inner[:90]}))
    papers.sync()
    assert papers.documents() == {
        "a.zip": "- inner.7z\n- r.rar",
        "a.zip!/inner.7z": "- deep.md\n- t.zip",
        "a.zip!/inner.7z!/deep.md": "# Deep",
        "a.zip!/inner.7z!/t.zip": "- deepest.md",
        "a.zip!/inner.7z!/t.zip!/deepest.md": "# Deepest",
        "a.zip!/r.rar": "- r.md",
        "a.zip!/r.rar!/r.md": "from rar",
        "b.tar.zst": "- n.md\n- bad.7z",
        "b.tar.zst!/n.md": "note",
    }
    assert [entry.item for entry in papers.ledger.quarantine.page("papers").rows] == ["b.tar.zst!/bad.7z"]
    assert papers.sync().get("succeeded", 0) == 0
