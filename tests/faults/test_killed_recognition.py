"""The recognition of scans and the sync that reads them again, killed at any moment: no text is lost, one page is repeated."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults import scenes
from tests.faults.crashes import WITHIN, killing, listen, lived
from tests.faults.desk import Desk, all_is_well
from tests.faults.lives import a_place
from tests.faults.rehearsal import rehearse
from tests.pictures.scans import Programs

pytestmark = pytest.mark.faults

_PAGES = 3
_SOME = 6
_STORE = "waiting_pages.Recognition.put"
"""`begin`: the page was drawn and read, and is not stored. The third `after commit`: its job waits, and was not requested."""
_NAMED = [(f"{_STORE}: {moment}", number) for moment in ("begin", "after commit") for number in range(1, _PAGES + 1)]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a desk of scans that were synced."""
    rehearse()
    with a_place() as place:

        def prepare(desk: Desk) -> None:
            scenes.scans(desk)
            desk.sync()
            scenes.recognition_chosen(desk)

        inside(place, prepare)
        yield place


def inside(place: Path, work: Callable[[Desk], object], heard: Callable[[str], None] | None = None) -> int:
    """Run a function in another process, and return its exit code. `heard` receives each moment."""

    def working() -> None:
        desk = Desk(place / "desk")
        if heard is not None:
            listen(heard)
        work(desk)

    end = lived(working, place / "note")
    assert end.code in (0, -9), end.said
    return end.code


def work(desk: Desk) -> None:
    scenes.recognized(desk)
    desk.sync()


def finish(desk: Desk) -> None:
    """Check the ledger as the killed process left it, continue, and check the texts."""
    with desk.ledger() as ledger:
        assert ledger.check(deep=True) == []
    work(desk)
    with desk.ledger() as ledger:
        assert ledger.recognition.sources() == []
        assert not ledger.recognition.needs_run()
    all_is_well(desk, scenes.scanned_texts(desk), frozenset())
    assert len(Programs(desk.aside / "programs").calls()) <= _PAGES + 1


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
def test_killed_recognition_is_completed_by_the_next(
    place: Path, every: bool, record_property: Callable[..., None]
) -> None:
    before = place / "before"
    shutil.copytree(place / "desk", before)
    heard: Counter[str] = Counter()

    def recorded(desk: Desk) -> None:
        listen(lambda moment: heard.update((moment,)))
        work(desk)
        (desk.aside / "heard").write_text(json.dumps(heard))

    inside(place, recorded)
    moments = json.loads((place / "desk" / "aside" / "heard").read_text())
    others = [(name, n) for name, number in moments.items() if not name.endswith(WITHIN) for n in sorted({1, number})]
    chosen = others if every else [*_NAMED, *others[::_SOME]]
    killed = 0
    for name, occurrence in chosen:
        shutil.rmtree(place / "desk")
        shutil.copytree(before, place / "desk")
        killed += inside(place, work, killing(name, occurrence)) < 0
        inside(place, finish)
    assert killed >= len(chosen) * 0.8
    record_property("kills", killed)
