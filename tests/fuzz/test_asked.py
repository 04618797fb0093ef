"""Any user input is accepted, or refused with a hint at valid input."""

from __future__ import annotations

import pytest

from tests.fuzz import asked, served
from tests.fuzz.target import Target
from tests.fuzz.trying import attempt

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("target", [*asked.targets(), *served.targets()], ids=lambda target: target.name)
def test_any_user_input_is_accepted_or_refused(target: Target, times: int) -> None:
    attempt(target, times)
