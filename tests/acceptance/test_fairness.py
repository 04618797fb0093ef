"""Four sources of unequal size, synced at once with the largest first, through the real server and worker."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from benchmarks.load import measure
from catchment.model import Priority
from catchment.sync.fair_share import SECONDS_PER_WEIGHT, WEIGHT
from tests.acceptance.accidents import ALTERED
from tests.prefect_tables import lay_tables

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

_SIZES = (9_600, 4_800, 2_400, 1_200)
_QUANTUM = WEIGHT[Priority.NORMAL] * SECONDS_PER_WEIGHT


def test_small_sources_finish_during_a_large_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = tmp_path / "steps"
    for name, value in (ALTERED | {"CATCHMENT_HOME": str(tmp_path / "home"), "RECORDED_STEPS": str(steps)}).items():
        monkeypatch.setenv(name, value)
    lay_tables(tmp_path / "home")
    sources = measure(tmp_path, _SIZES)["sources"]
    assert [source["in_the_library"] for source in sources] == list(_SIZES)
    large, *small = (source["done"] for source in sources)
    assert max(small) < large
    worked, due, longest = shares(steps)
    assert len(due) == len(_SIZES)
    # The queue shares time, not items: how many items a second brings in depends on what else the machine does.
    for sync in due:
        assert abs(worked[sync] - due[sync]) <= _QUANTUM + longest, (worked, due, longest)


def shares(steps: Path) -> tuple[Counter[str], Counter[str], float]:
    """Return the seconds that each sync worked, the seconds due to it, and those of the longest step.

    At each moment the slots in use are due in equal parts to the syncs that work or wait.
    """
    lines = sorted(
        (float(moment), event, sync) for moment, event, sync in map(str.split, steps.read_text().splitlines())
    )
    worked, due = Counter[str](), Counter[str]()
    waiting, at_work = Counter[str](), Counter[str]()
    since: defaultdict[str, float] = defaultdict(float)
    before = longest = 0.0
    for moment, event, sync in lines:
        for each in +at_work:
            worked[each] += moment - before
        for each in +(waiting + at_work):
            due[each] += (moment - before) * len(+at_work) / len(+(waiting + at_work))
        before = moment
        match event:
            case "asked":
                waiting[sync] += 1
            case "started":
                waiting[sync] -= 1
                at_work[sync] += 1
                since[sync] = since[sync] if at_work[sync] > 1 else moment
            case "ended":
                at_work[sync] -= 1
                longest = max(longest, 0.0 if at_work[sync] else moment - since[sync])
    return worked, due, longest
