"""The model of the whole engine over longer histories; `--times` makes more of them, and then others each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.test_whole_engine import run_machine

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


def test_long_histories_of_mishaps_leave_a_library_that_is_what_the_sources_are(tmp_path: Path, times: int) -> None:
    run_machine(tmp_path, 4 * times, 50)
