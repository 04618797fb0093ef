from __future__ import annotations

from datetime import UTC, datetime

from catchment.content.codec import decode_document, decode_extraction, encode_document, encode_extraction
from catchment.model import Chunk, Document, Entity, EntityKind, Extraction, Link, LinkKind


def test_document_round_trips_with_one_encoding() -> None:
    document = Document(
        "# Ä\n",
        "text/markdown",
        title="Ä",
        created=datetime(2024, 5, 1, tzinfo=UTC),
        properties={"b": [1, None], "a": {"nested": True}},
        warnings=("odd",),
    )
    same = Document(
        "# Ä\n",
        "text/markdown",
        title="Ä",
        created=datetime(2024, 5, 1, tzinfo=UTC),
        properties={"a": {"nested": True}, "b": [1, None]},
        warnings=("odd",),
    )
    assert decode_document(encode_document(document)) == document
    assert encode_document(document) == encode_document(same)


def test_extraction_round_trips() -> None:
    extraction = Extraction(
        (Chunk(0, 4, "A > B"),),
        (Link(LinkKind.EMBED, "Note", "#^x", "label", 1, 3),),
        (Entity(EntityKind.TASK, "water the bees", "x", 0, 2, 0.5),),
    )
    assert decode_extraction(encode_extraction(extraction)) == extraction
