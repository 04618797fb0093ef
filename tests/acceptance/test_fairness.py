"""Four sources of unequal size, synced at once with the largest first, through the real server and worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.load import measure
from tests.prefect_tables import lay_tables

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

_SIZES = (9_600, 4_800, 2_400, 1_200)


def test_small_sources_finish_during_a_large_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATCHMENT_HOME", str(tmp_path / "home"))
    lay_tables(tmp_path / "home")
    figures = measure(tmp_path, _SIZES)
    sources = figures["sources"]
    assert [source["in_the_library"] for source in sources] == list(_SIZES)
    large, *small = (source["done"] for source in sources)
    assert max(small) < large
    # At least 0.95 on a quiet machine, as `python -m benchmarks.load` reports; other tests run beside this one.
    assert figures["jain"] >= 0.8
