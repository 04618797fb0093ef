"""Golden pairs: each file in `golden` has a JSON file with its expected document and extraction.

A new case is a pair of files there; no code is needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from catchment.content.extract import extract
from catchment.content.normalize import normalize
from catchment.model import Entity, Link, RawContent

_GOLDEN = Path(__file__).parent / "golden"
_INPUTS = sorted(path for path in _GOLDEN.iterdir() if path.is_file() and path.suffix != ".json")


def _understood(path: Path) -> dict[str, Any]:
    document = normalize(RawContent(path.read_bytes(), path.name))
    extraction = extract(document)
    written = document.text
    found = {
        "document": document,
        "chunks": [chunk._asdict() for chunk in extraction.chunks],
        "links": [{**_plain(link), "written": written[link.start : link.end]} for link in extraction.links],
        "entities": [
            {**_plain(entity), "written": written[entity.start : entity.end]} for entity in extraction.entities
        ],
    }
    return dict(orjson.loads(orjson.dumps(found)))


def _plain(value: Link | Entity) -> dict[str, Any]:
    return {key: kept for key, kept in value._asdict().items() if key not in ("start", "end", "confidence")}


@pytest.mark.parametrize("path", _INPUTS, ids=lambda path: path.name)
def test_file_matches_its_golden_pair(path: Path) -> None:
    assert _understood(path) == orjson.loads(path.with_suffix(path.suffix + ".json").read_bytes())
