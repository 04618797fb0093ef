"""The work of a parser process on one item."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime

import pytest

from catchment.content import parsing
from catchment.content.parsing import SHORT, Read, ReadTask, digest, extract_document, read
from catchment.model import Item, RawContent


def _packed(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


@pytest.mark.parametrize(
    "raw",
    [
        RawContent(b"# Weir\n", "weir.md"),
        RawContent(_packed(b"# Weir\n"), "weir.md.gz"),
        RawContent(_packed(_packed(b"# Weir\n")), "weir.txt.gz.gz"),
        RawContent(b"<p>Weir", "weir", media_type="text/html"),
    ],
    ids=lambda raw: raw.name,
)
def test_unchanged_content_is_reported_without_parsing(raw: RawContent) -> None:
    item = Item("weir", "", "1", modified=datetime(2024, 5, 6, tzinfo=UTC))
    parsed = Read.decode(read(ReadTask(item, b"", raw)))
    assert parsed.fate == "parsed"
    assert Read.decode(digest(ReadTask(item, b"", raw))).content == parsed.content
    again = Read.decode(read(ReadTask(item, b"", raw, parsed.content)))
    assert (again.fate, again.document) == ("unchanged", None)


def test_date_of_the_message_precedes_that_in_the_file() -> None:
    arrived, sent = datetime(2024, 5, 6, tzinfo=UTC), datetime(2023, 1, 2, tzinfo=UTC)
    written = b"---\nmodified: 2019-01-01\n---\nweir"
    item = Item("a", "", "1", modified=arrived)
    for metadata, expected in (({"sent": sent.isoformat()}, sent), ({}, datetime(2019, 1, 1, tzinfo=UTC))):
        assert (
            Read.decode(read(ReadTask(item, b"", RawContent(written, "a.md", metadata=metadata)))).modified == expected
        )


def _read(data: bytes, name: str) -> Read:
    return Read.decode(read(ReadTask(Item("a", "", "1"), b"", RawContent(data, name))))


def test_short_document_is_extracted_with_its_parse() -> None:
    reading = _read(b"# Weir\n\nSee [[Mill]], #water, due 2024-05-06.\n", "weir.md")
    assert reading.document is not None
    assert reading.extraction == extract_document(reading.document)


@pytest.mark.parametrize(("data", "name"), [(b"weir " * SHORT, "weir.md"), (b"def weir():\n    pass\n", "weir.py")])
def test_long_document_and_code_are_extracted_later(data: bytes, name: str) -> None:
    reading = _read(data, name)
    assert reading.document is not None
    assert reading.extraction is None


def test_extraction_that_fails_leaves_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "extract", lambda _: 1 / 0)
    reading = _read(b"weir", "weir.md")
    assert reading.document is not None
    assert reading.extraction is None
    with pytest.raises(ZeroDivisionError):
        extract_document(reading.document)
