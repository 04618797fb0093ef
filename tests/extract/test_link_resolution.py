"""Link resolution, compared with a table from Obsidian's documentation and from observation."""

from __future__ import annotations

from pathlib import Path

import pytest

from catchment.content.extract.vault import VaultIndex, anchor_exists

_ROWS = [
    line.split("\t")
    for line in (Path(__file__).parent / "golden" / "links.tsv").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
_HEADINGS = [(1, "Plan"), (2, "Costs: 2024"), (3, "Pump"), (2, "People"), (1, "Notes"), (3, "Pump")]


def test_link_table_has_at_least_sixty_cases() -> None:
    assert len(_ROWS) >= 60
    assert all(len(row) == 5 for row in _ROWS)


@pytest.mark.parametrize(("files", "source", "target", "expected", "rule"), _ROWS)
def test_link_resolves_as_in_obsidian(files: str, source: str, target: str, expected: str, rule: str) -> None:
    index = VaultIndex(files.split("|") if files else [])
    assert index.resolve(target, source) == (None if expected == "-" else expected), rule


def test_resolution_does_not_depend_on_file_order() -> None:
    paths = ["b/Note.md", "a/Note.md", "c/d/Note.md", "note.md"]
    found = {
        (target, source): VaultIndex(paths).resolve(target, source)
        for target in ("Note", "d/Note")
        for source in ("x", "c/y")
    }
    for (target, source), expected in found.items():
        assert VaultIndex(reversed(paths)).resolve(target, source) == expected


def test_unicode_forms_of_letters_and_spaces_are_equal() -> None:
    index = VaultIndex(["Cafe\u0301.md", "Two words.md"])
    assert index.resolve("Caf\u00e9", "x.md") == "Cafe\u0301.md"
    assert index.resolve("Two\u00a0words", "x.md") == "Two words.md"


@pytest.mark.parametrize(
    ("anchor", "exists"),
    [
        ("", True),
        ("Plan", True),
        ("plan", True),
        ("Costs 2024", True),
        ("Costs: 2024", True),
        ("Plan#Costs 2024", True),
        ("Plan#Costs 2024#Pump", True),
        ("Plan#Pump", True),
        ("Notes#Pump", True),
        ("Notes#Costs 2024", False),
        ("People#Pump", False),
        ("Pump#Plan", False),
        ("Missing", False),
        ("^quote-1", True),
        ("^QUOTE-1", True),
        ("^other", False),
    ],
)
def test_anchor_is_a_heading_path_or_a_block(anchor: str, exists: bool) -> None:
    assert anchor_exists(anchor, _HEADINGS, ["quote-1"]) is exists
