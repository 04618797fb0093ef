"""Four sources of unequal size, synced at once with the largest first, through the real server and worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.load import measure
from tests.prefect_tables import lay_tables

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

_SIZES = (9_600, 4_800, 2_400, 1_200)


def test_small_sources_finish_during_a_large_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tests beside this one only lower the index: of three measurements one has to reach it.
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        monkeypatch.setenv("CATCHMENT_HOME", str(folder / "home"))
        lay_tables(folder / "home")
        figures = measure(folder, _SIZES)
        sources = figures["sources"]
        assert [source["in_the_library"] for source in sources] == list(_SIZES)
        large, *small = (source["done"] for source in sources)
        assert max(small) < large
        if figures["jain"] >= 0.95:
            break
    assert figures["jain"] >= 0.95
