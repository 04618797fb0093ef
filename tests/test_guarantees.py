"""docs/guarantees.md names an existing test for each promise."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_promise_names_tests_that_there_are() -> None:
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    rows = [
        line
        for line in (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and not line.startswith("| promise |")
    ]
    named = {row: re.findall(r"`(test_\w+)`", row) for row in rows}
    assert len(rows) > 15
    assert [row for row, names in named.items() if not names] == []
    assert {name for names in named.values() for name in names} - there == set()
