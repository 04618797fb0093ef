"""Which test modules a marker expression leaves out without importing them."""

from __future__ import annotations

import pytest

from tests.conftest import cannot_select

_PLAIN = "def test_one() -> None: ..."
_WHOLE = "pytestmark = [pytest.mark.faults, pytest.mark.timeout(9)]\n"
_SINGLE = "@pytest.mark.soak\ndef test_one() -> None: ..."
_FIXTURE = 'pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])'


@pytest.mark.parametrize(
    ("module", "expression", "expected"),
    [
        (_PLAIN, "not faults and not soak", False),
        (_PLAIN, "not (faults or soak)", False),
        (_PLAIN, "faults or soak", True),
        (_WHOLE, "not faults and not soak", True),
        (_WHOLE, "not (faults or soak)", True),
        (_WHOLE, "not browser", False),
        (_WHOLE, "(faults or browser) and not soak", False),
        (_WHOLE, "soak", True),
        (_SINGLE, "not (faults or soak)", False),
        (_SINGLE, "soak", False),
        (_SINGLE, "faults", True),
        (_SINGLE, "faults and not soak", True),
        (_WHOLE + _SINGLE, "faults and soak", False),
        (_WHOLE, "faults(kind='disk')", False),
    ],
)
def test_module_without_selected_tests_is_left_out(module: str, expression: str, expected: bool) -> None:
    assert cannot_select(expression, module) is expected


def test_mark_of_a_fixture_counts_for_each_module_of_its_folder() -> None:
    assert cannot_select("postgres", _PLAIN)
    assert not cannot_select("postgres", _PLAIN, _FIXTURE)
