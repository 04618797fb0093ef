"""Whatever a person writes is done, or refused in words that say what to write."""

from __future__ import annotations

import pytest

from tests.fuzz.asked import targets
from tests.fuzz.target import Target
from tests.fuzz.trying import attempt

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("target", list(targets()), ids=lambda target: target.name)
def test_anything_that_is_written_is_taken_or_refused(target: Target, times: int) -> None:
    attempt(target, times)
