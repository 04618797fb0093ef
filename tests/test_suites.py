"""Which files a suite does not import."""

from __future__ import annotations

import pytest

from tests.conftest import is_of_another_suite

_ORDINARY = "def test_one() -> None: ..."
_WHOLE = "pytestmark = [pytest.mark.faults, pytest.mark.timeout(9)]\n"
_SINGLE = "@pytest.mark.soak\ndef test_one() -> None: ..."


@pytest.mark.parametrize(
    ("text", "markers", "expected"),
    [
        (_ORDINARY, "not faults and not soak", False),
        (_WHOLE, "not faults and not soak", True),
        (_SINGLE, "not faults and not soak", False),
        (_WHOLE, "not browser", False),
        (_ORDINARY, "faults or soak", True),
        (_WHOLE, "faults or soak", False),
        (_SINGLE, "faults or soak", False),
        (_SINGLE, "faults", True),
        (_WHOLE, "soak", True),
        (_ORDINARY, "faults and not soak", False),
        (_ORDINARY, "(faults)", False),
    ],
)
def test_only_what_cannot_have_a_test_of_the_suite_is_left_out(text: str, markers: str, expected: bool) -> None:
    assert is_of_another_suite(text, markers) is expected
