"""Any response of another machine or program is accepted, or becomes an error with a remedy."""

from __future__ import annotations

import pytest

from tests.fuzz.hosts import targets
from tests.fuzz.target import Target
from tests.fuzz.trying import attempt

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("target", list(targets()), ids=lambda target: target.name)
def test_any_response_is_read_or_a_source_error(target: Target, times: int) -> None:
    attempt(target, times)
