"""Any file in a folder is read with correct offsets, or refused with a reason."""

from __future__ import annotations

import pytest

from tests.fuzz.files import targets
from tests.fuzz.target import Target
from tests.fuzz.trying import attempt

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("target", list(targets()), ids=lambda target: target.name)
def test_file_with_any_content_is_read_or_refused(target: Target, times: int) -> None:
    attempt(target, times)
