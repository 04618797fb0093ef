"""The model of the whole engine over longer histories; `--times` adds more, with other random choices each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.test_whole_engine import run_machine

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


def test_library_matches_its_sources_after_long_histories(tmp_path: Path, times: int) -> None:
    run_machine(tmp_path, 4 * times, 50)
