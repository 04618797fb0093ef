"""A file of a gigabyte is skipped or quarantined, within the memory limit of an item."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from catchment.settings import Home, Limits
from tests.fuzz.sources import become, peak_memory

pytestmark = [pytest.mark.faults, pytest.mark.long]

_MEGABYTE = 1 << 20
_GIGABYTE = 1 << 30


@pytest.fixture
def huge(tmp_path: Path) -> Iterator[Path]:
    """A folder with a gigabyte of words, a sparse file of a gigabyte, and a note."""
    folder = tmp_path / "huge"
    folder.mkdir()
    words = (b"The gauge at the weir shows nothing. " * 30_000)[:_MEGABYTE]
    with (folder / "words.md").open("wb") as file:
        for _ in range(_GIGABYTE // _MEGABYTE):
            file.write(words)
    with (folder / "hole.md").open("wb") as file:
        file.truncate(_GIGABYTE)
    (folder / "note.md").write_text("# A note\n")
    yield folder
    for name in ("words.md", "hole.md"):
        (folder / name).unlink()


@pytest.mark.parametrize(("max_mb", "ends"), [(100, "skipped"), (2_000, "resource_exhausted")])
def test_gigabyte_file_stays_within_the_memory_limit(home: Home, huge: Path, max_mb: int, ends: str) -> None:
    limits = Limits(memory_mb=256, max_mb=max_mb, stall_seconds=300)
    with peak_memory() as most:
        ended = become(home, huge, limits)
    assert ended == {"words.md": ends, "hole.md": ends, "note.md": "document"}
    assert most["parser"] < (limits.memory_mb + 512) * _MEGABYTE
    assert most["own"] < _GIGABYTE
