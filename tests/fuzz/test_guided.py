"""The results of guided fuzzing: failing inputs are minimized, useful ones are selected, and all are repeated."""

from __future__ import annotations

import pytest

from catchment.content.normalize.decode import decode
from tests.fuzz.distilled import chosen
from tests.fuzz.every import every
from tests.fuzz.smaller import failure, smaller
from tests.fuzz.target import CORPUS

pytestmark = pytest.mark.faults


def _fragile(data: bytes) -> None:
    assert b"bad" not in data
    if data.count(b"x") > 5:
        raise ValueError


def test_minimized_input_fails_as_the_original() -> None:
    assert smaller(_fragile, b"so much, and something bad in the middle of it") == b"bad"
    assert smaller(_fragile, b"xx then xx, xx and xx") == b"xxxxxx"
    assert failure(_fragile, b"") is None


def test_inputs_with_distinct_coverage_are_selected() -> None:
    def check(data: bytes) -> None:
        decode(data)

    marked, damaged = b"\xff\xfea\x00", b"\xffabc"
    found = chosen(check, [b"as ever"], [b"as before", damaged, b"the same", marked, marked + b"b\x00"], 9)
    assert sorted(found) == sorted([damaged, marked])
    assert len(chosen(check, [b"as ever"], [damaged, marked], 1)) == 1


def test_every_stored_case_belongs_to_a_target() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} <= every().keys()
