"""Whatever comes by mail is read, or refused with a reason; what is found in it lies where it says."""

from __future__ import annotations

import pytest

from tests.fuzz.letters import targets
from tests.fuzz.target import Target
from tests.fuzz.trying import attempt

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("target", list(targets()), ids=lambda target: target.name)
def test_mail_of_any_content_is_read_or_refused(target: Target, times: int) -> None:
    attempt(target, times)
