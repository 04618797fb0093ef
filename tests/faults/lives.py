"""Lives: processes that play a scene are killed at given moments until one of them reaches the end."""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from catchment.errors import NotFound
from catchment.ledger import Ledger
from tests.faults.crashes import End, killing, listen, lived
from tests.faults.desk import BATCH, Desk, all_is_well, same
from tests.faults.rehearsal import rehearse
from tests.faults.scenes import Scene

_MEMORY = Path("/dev/shm")
"""A kill preserves written data, so the files can be in memory."""


@contextmanager
def a_place() -> Iterator[Path]:
    """Yield a folder for consecutive lives and remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="lives-", dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        yield Path(folder)


@dataclass(frozen=True, slots=True)
class Point:
    """The n-th occurrence (from 1) of a named moment in an act, given by its position in the scene."""

    act: int
    name: str
    occurrence: int


@dataclass(frozen=True, slots=True)
class Recording:
    """A life without kills: the number of each moment per act, in order; the reads; and the duration."""

    acts: tuple[dict[str, int], ...]
    reads: Counter[str]
    seconds: float


class Life:
    """One desk and its processes."""

    def __init__(self, scene: Scene, place: Path) -> None:
        _be_ready()
        self._scene = scene
        self._place = place / "desk"
        self._note = place / "note"
        self._said = place / "said"
        self._kills = 0

    def record(self) -> Recording:
        """Play the scene to its end."""

        def play() -> None:
            desk = Desk(self._place)
            for act in self._scene.before:
                act(desk)
            heard: list[Counter[str]] = []
            began = time.monotonic()
            listen(lambda moment: heard[-1].update((moment,)))
            for act in self._scene.acts:
                heard.append(Counter())
                act(desk)
            self._said.write_text(
                json.dumps([dict(desk.times_read()), heard, time.monotonic() - began]), encoding="utf-8"
            )
            all_is_well(desk, self._scene.expected(desk), self._scene.quarantined)

        self._ended(lived(play, self._note))
        reads, acts, seconds = json.loads(self._said.read_text(encoding="utf-8"))
        return Recording(tuple(acts), Counter(reads), seconds)

    def begin(self) -> None:
        """Run the preparation before the acts."""

        def play() -> None:
            desk = Desk(self._place)
            for act in self._scene.before:
                act(desk)

        self._ended(lived(play, self._note))

    def killed_at(self, point: Point) -> bool:
        """Continue after the last kill up to this point or the end of its act; return whether the process was killed
        there.
        """

        def play() -> None:
            desk = Desk(self._place)
            self._still_sound(desk)
            self._play(desk, point.act)
            listen(killing(point.name, point.occurrence))
            self._play(desk, point.act + 1)

        return self._was_killed(lived(play, self._note))

    def killed_after(self, seconds: float) -> bool:
        """Continue after the last kill; return whether the process was killed after `seconds`, before the end."""

        def play() -> None:
            desk = Desk(self._place)
            self._play(desk, len(self._scene.acts))

        return self._was_killed(lived(play, self._note, seconds=seconds))

    def end(self, recording: Recording) -> None:
        """Continue to the end and check the final state; each kill may cost at most one repeated batch."""

        def play() -> None:
            desk = Desk(self._place)
            self._still_sound(desk)
            self._play(desk, len(self._scene.acts))
            all_is_well(desk, self._scene.expected(desk), self._scene.quarantined)
            again = desk.times_read().total() - recording.reads.total()
            assert again <= BATCH * self._kills, f"{again} papers were read again after {self._kills} kills"

        self._ended(lived(play, self._note))
        shutil.rmtree(self._place)

    def _play(self, desk: Desk, end: int) -> None:
        for number, act in enumerate(self._scene.acts[:end]):
            done = self._place / f"act-{number}"
            if not done.exists():
                act(desk)
                done.touch()

    def _was_killed(self, end: End) -> bool:
        if end.code < 0:
            self._kills += 1
            return True
        self._ended(end)
        return False

    def _ended(self, end: End) -> None:
        assert end.code == 0, f"{self._scene.name}:\n{end.said}"

    def _still_sound(self, desk: Desk) -> None:
        """Check the invariants of the ledger right after a kill, if the ledger exists."""
        if self._scene.unsound or not (desk.home.path / "ledger.db").exists():
            return
        with suppress(NotFound), closing(Ledger.inspect(desk.home.database_url)) as ledger:
            same(ledger.check(deep=True), [])


@functools.cache
def _be_ready() -> None:
    """Do slow first-time work once here instead of in each of the hundreds of forked processes."""
    rehearse()
