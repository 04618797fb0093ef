from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from catchment.ledger import Ledger
from catchment.settings import Home
from catchment.views.health import LastCheck
from flows.upkeep import upkeep
from tests.flows.conftest import Window
from tests.flows.test_sync import sync

pytestmark = pytest.mark.server


def test_upkeep_deletes_expired_data_only_and_checks_the_ledger(window: Window, tmp_path: Path, home: Home) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "gone.md").write_text("A word that goes")
    (folder / "kept.md").write_text("A word that stays")
    sync("upkept", folder)
    (folder / "gone.md").unlink()
    sync("upkept", folder)
    places = (home.prefect / "storage", home.plans)
    for place in places:
        place.mkdir(exist_ok=True)
        for name, age in (("old", 8), ("young", 6)):
            (place / name).write_text("{}")
            then = time.time() - age * 86_400
            os.utime(place / name, (then, then))
    done = asyncio.run(upkeep())
    assert (done["items"], done["broken"]) == (0, 0)
    checked = LastCheck.read(home)
    assert checked is not None
    assert checked.broken == 0
    for place in places:
        assert {file.name for file in place.iterdir()} & {"old", "young"} == {"young"}
    month = Ledger.open(home.database_url, clock=lambda: time.time() + 31 * 86_400)
    assert month.intake.find("gone.md")[0].state == "deleted"
    month.close()
