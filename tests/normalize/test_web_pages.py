"""Web pages: the main text, its structure and what the page states about itself. The expected phrases were written first.

A new case is a page and its JSON file in `web_pages`; no code is needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from catchment.content.normalize import normalize
from catchment.model import Document, RawContent

_PAGES = sorted((Path(__file__).parent / "web_pages").glob("*.html"))


def _facts(document: Document) -> dict[str, Any]:
    moments = {name: getattr(document, name) for name in ("created", "modified")}
    return {
        "title": document.title,
        "author": document.author,
        "language": document.language,
        **{name: moment.isoformat() for name, moment in moments.items() if moment},
        **{name: document.properties[name] for name in ("canonical", "site") if name in document.properties},
    }


@pytest.mark.parametrize("path", _PAGES, ids=lambda path: path.stem)
def test_page_gives_its_main_text_and_facts(path: Path) -> None:
    expected = orjson.loads(path.with_suffix(".json").read_bytes())
    document = normalize(RawContent(path.read_bytes(), path.name, address=expected.pop("address")))
    text = document.text
    missing = [phrase for phrase in expected.pop("has") if phrase not in text]
    surplus = [phrase for phrase in expected.pop("lacks") if phrase in text]
    found = {key: value for key, value in _facts(document).items() if value is not None}
    assert (missing, surplus, found) == ([], [], expected)
