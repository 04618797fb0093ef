"""Files designed to be too large, too deep or endless: each has the expected outcome within bounded memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from catchment.settings import Home, Limits
from tests.fuzz.bombs import bombs
from tests.fuzz.sources import become, peak_memory

pytestmark = [pytest.mark.faults, pytest.mark.long]

_MEGABYTE = 1 << 20
LIMITS = Limits(memory_mb=768, stall_seconds=300, max_mb=200)


def test_every_bomb_fails_alone_and_its_neighbours_are_read(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "bombs"
    folder.mkdir()
    wanted = {}
    for bomb in bombs():
        (folder / bomb.name).write_bytes(bomb.data)
        wanted[bomb.name] = bomb.ends
    for number in range(40):
        (folder / f"neighbour {number}.md").write_text(f"# Neighbour {number}\n")
        wanted[f"neighbour {number}.md"] = "document"
    with peak_memory() as most:
        ended = become(home, folder, LIMITS)
    assert ended == wanted
    assert most["parser"] < 2 * LIMITS.memory_mb * _MEGABYTE
