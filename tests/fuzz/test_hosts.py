"""Whatever another machine or program answers is an answer, or an error that says what to do."""

from __future__ import annotations

import pytest

from tests.fuzz.hosts import targets
from tests.fuzz.target import Target
from tests.fuzz.trying import attempt

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("target", list(targets()), ids=lambda target: target.name)
def test_any_answer_is_read_or_an_error_of_its_source(target: Target, times: int) -> None:
    attempt(target, times)
