"""Four sources of unequal size, synced at once with the largest first, through the real server and worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.load import measure
from catchment.model import Priority
from catchment.sync.fair_share import SECONDS_PER_WEIGHT, WEIGHT

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

_SIZES = (4_800, 2_400, 1_200, 600)
_QUANTUM = WEIGHT[Priority.NORMAL] * SECONDS_PER_WEIGHT


def test_small_sources_finish_during_a_large_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The benchmark sets these; they are restored afterwards.
    for name in ("CATCHMENT_HOME", "PYTHONPATH", "RECORDED_STEPS"):
        monkeypatch.setenv(name, "")
    figures = measure(tmp_path, _SIZES)
    assert [source["in_the_library"] for source in figures["sources"]] == list(_SIZES)
    large, *small = (source["done"] for source in figures["sources"])
    assert max(small) < large
    assert len(figures["due"]) == len(_SIZES)
    # The queue shares time, not items: the number of items per second also depends on other load on the machine.
    for worked, due in zip(figures["worked"], figures["due"], strict=True):
        assert abs(worked - due) <= _QUANTUM + figures["longest_step"], figures
