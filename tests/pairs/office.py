"""An office: a home with two folders, a sink and a backup, in the states from which a pair of acts starts, and a small
model of its library.

The folder has three contents. The first sync read the first content, the second sync the second. Before the acts, a user
wrote the third, which no act changes. So the acts alone decide about the library, in any order: see `expected`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import sinks
from catchment.audit import chain
from catchment.content.parsing import CODE
from catchment.ledger import BackfillSelection
from catchment.model import Priority, ReplayStage
from catchment.runtime.atomic_files import remove
from catchment.settings import Policy, RetryPolicy
from catchment.sync.source_sync import open_sync
from catchment.sync.supply import DeliveryCounts, deliver
from connectors.local_files import LocalFiles
from console.data import backup
from tests.faults.desk import BATCH, SOURCE, Desk, work_through
from tests.faults.scenes import folder

POLICY = Policy(retry=RetryPolicy(backoff="immediate", attempts=4))
"""More attempts than a trial has kills."""
OTHER, SINK = "others", "copies"
COPY = "copy.db"
_OLDER = f"1.{CODE.partition('.')[2]}"
"""The code that seems to have read the library, so that a replay has work."""
_SMALL = 2
"""Jobs of a batch of a sync that yields."""
_SAVED = ("home", "copies", "aside", "tmp")
Texts = Mapping[str, str]


class State(StrEnum):
    """A state of the office before two acts. `BEFORE`: before the second content was read."""

    BEFORE = "before"
    PLAIN = "plain"
    STARTED = "a replay was started"
    HALF = "a replay was interrupted"
    FETCH = "a backfill was interrupted"
    YIELDED = "the second sync continued another, after a replay"


class Office(Desk):
    """A desk with a second source, a sink, a backup and the states of `State`."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.others = place / "others"
        self.others.mkdir(exist_ok=True)
        self.copies = place / "copies"

    # Values for the processes of the acts and the checks

    def note(self, name: str, value: object) -> None:
        """Keep a value for the processes after this one."""
        (self.aside / name).write_text(json.dumps(value), encoding="utf-8")

    def noted(self, name: str) -> Any:
        """Return a kept value; None without one."""
        file = self.aside / name
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

    @property
    def number(self) -> int:
        """The number of the sync to be undone."""
        return int(self.noted("sync"))

    @property
    def backfill(self) -> int:
        """The number of the backfill."""
        return int(self.noted("backfill"))

    @property
    def contents(self) -> Sequence[Texts]:
        """The three contents of the folder."""
        shots: Sequence[Texts] = json.loads((self.aside / "contents").read_text(encoding="utf-8"))
        return shots

    # States

    def build(self) -> None:
        """Make each state and save it. Takes a few seconds."""
        contents = []
        _first(self)
        contents.append(folder(self))
        with self.ledger() as ledger:
            with sinks.opened("folder", str(self.copies), create=True):
                pass
            ledger.outbox.add(SINK, "folder", str(self.copies), None, "operator")
        self.sync()
        self.sync_others()
        with self.ledger() as ledger:
            assert chain.verify(self.home, ledger, sign=True).problems == ()
        self.home.sources_file.write_text("deployments: []\n")
        backup.backup(self.aside / COPY)
        _second(self)
        contents.append(folder(self))
        self._save(State.BEFORE)
        self.sync()
        self._age()
        self._remember_second()
        self._save(State.PLAIN)
        for state, stage, is_interrupted in (
            (State.STARTED, ReplayStage.NORMALIZE, False),
            (State.HALF, ReplayStage.NORMALIZE, True),
            (State.FETCH, ReplayStage.FETCH, True),
        ):
            reset(self.place, State.PLAIN)
            self._start(stage, is_interrupted=is_interrupted)
            self._save(state)
        reset(self.place, State.BEFORE)
        self._yield_to_a_replay()
        self._save(State.YIELDED)
        _third(self)
        contents.append(folder(self))
        for saved in (self.place / "saved").iterdir():
            (saved / "aside" / "contents").write_text(json.dumps(contents), encoding="utf-8")

    def _remember_second(self) -> None:
        self.note("sync", self.last_sync())
        self._deliver()
        self.note("erase", (datetime.now(UTC) + timedelta(seconds=1)).timestamp())

    def _age(self) -> None:
        """Let an earlier version of the code seem to have read everything."""
        with self.ledger() as ledger, ledger._store.write() as writing:
            older = f"UPDATE contents SET normalizer = '{_OLDER}' || substr(normalizer, instr(normalizer, ' '))"
            writing.connection.exec_driver_sql(older)

    def _yield_to_a_replay(self) -> None:
        """Read the second content in two syncs, with a run of a replay between them, which is cancelled then."""
        self._age()
        with self.syncing(POLICY) as sync:
            sync.discover()
            token = sync.claim(_SMALL)
            assert token is not None
            sync.process(token)
            sync.finish("yielded")
        self._start(ReplayStage.NORMALIZE, is_interrupted=True)
        self.sync()
        with self.ledger() as ledger:
            ledger.backfills.cancel(self.backfill, "operator")
        (self.aside / "backfill").rename(self.aside / "cancelled")
        self._remember_second()

    def _save(self, state: State) -> None:
        for name in _SAVED:
            shutil.copytree(self.place / name, self.place / "saved" / state.name / name, symlinks=True)

    def _start(self, stage: ReplayStage, *, is_interrupted: bool) -> None:
        with self.ledger() as ledger:
            source, backfills = self.source(ledger), ledger.backfills
            items = None
            if stage is ReplayStage.FETCH:
                there = [f"u/{n}.md" for n in (0, 2, 3, 4, 5)]
                items = tuple(sorted(backfills.items_at(source.id, there).values()))
            selection = BackfillSelection(stage, items=items)
            survey = backfills.survey(source.id, selection, CODE)
            number = backfills.plan(source.id, selection, survey, "operator")
            backfills.start(number, survey.digest, "operator")
        self.note("backfill", number)
        if is_interrupted:
            self.replay(is_interrupted=True)

    # Work

    def replay(self, *, is_interrupted: bool = False) -> bool:
        """Work on the backfill as one run does, or only on its first batch. Return whether there may be more."""
        number = self.backfill
        with open_sync(self.home, self.connector, SOURCE, POLICY, Priority.NORMAL, backfill=number) as sync:
            sync.discover()
            if not is_interrupted:
                work_through(sync)
            elif (token := sync.claim(BATCH)) is not None:
                sync.process(token)
            sync.finish("completed")
        with self.ledger() as ledger:
            return ledger.backfills.get(number).is_running

    def sync_others(self) -> None:
        """Sync the second source."""
        connector = LocalFiles(LocalFiles.settings(root=self.others))
        with open_sync(self.home, connector, OTHER, POLICY, Priority.NORMAL) as sync:
            sync.discover()
            work_through(sync)
            sync.finish("completed")

    def _deliver(self) -> None:
        with self.ledger() as ledger:
            deliver(ledger, SINK, sinks.opened, lambda: True, DeliveryCounts())


def reset(place: Path, state: State) -> None:
    """Put the home, the sink and the notes of an office back into a saved state. Its folders stay, so the home is the same."""
    for name in _SAVED:
        for entry in (place / name).glob("*"):
            if entry.name != "home-id":
                remove(entry)
        shutil.copytree(place / "saved" / state.name / name, place / name, symlinks=True, dirs_exist_ok=True)


def expected(contents: Sequence[Texts], aside: Collection[str], *, revoked: bool) -> Texts:
    """Return the texts of the library by path, once all acts have taken effect and an ordinary sync has run.

    The paths `aside` were undone: they have their text of before, until they change at the source. All others are as in the
    folder. Without consent, the library has no texts of the source.
    """
    if revoked:
        return {}
    first, _, third = contents
    texts = {path: first.get(path) if path in aside else third.get(path) for path in {*first, *third}}
    return {path: text for path, text in texts.items() if text is not None}


def undone_paths(contents: Sequence[Texts]) -> frozenset[str]:
    """Return the paths that stay as an undo of the second sync left them."""
    first, second, third = contents
    changed = {path for path in {*first, *second} if first.get(path) != second.get(path)}
    return frozenset(path for path in changed if third.get(path) == second.get(path))


def _first(office: Office) -> None:
    for n in range(4):
        office.write(f"a/{n}.md", f"Paper {n} speaks at some length of alpha{n}")
    for n in range(3):
        office.write(f"b/{n}.md", f"Paper {n} speaks at some length of beta{n}")
    for n in range(5):
        office.write(f"u/{n}.md", f"Paper {n} speaks at some length of upsilon{n}")
    office.write("copy.md", "Paper 0 speaks at some length of alpha0")
    for n in range(3):
        (office.others / f"other {n}.md").write_text(f"Another paper {n} speaks at some length of omega{n}")


def _second(office: Office) -> None:
    office.write("a/0.md", "Paper 0 speaks at some length of alpha0new")
    office.write("u/0.md", "Paper 0 speaks at some length of upsilon0new")
    office.rename("a/1.md", "b/moved.md")
    office.remove("a/2.md", "u/1.md", "b/1.md")
    office.write("a/new.md", "A new paper speaks at some length of delta")
    office.write("u/5.md", "A new paper speaks at some length of epsilon")
    (office.papers / "b" / "0.md").touch()


def _third(office: Office) -> None:
    office.write("a/3.md", "Paper 3 speaks at some length of alpha3third")
    office.write("u/0.md", "Paper 0 speaks at some length of upsilon0third")
    office.write("u/1.md", "Paper 1 is back and speaks at some length of upsilon1third")
    office.remove("b/2.md", "u/5.md")
    office.rename("u/2.md", "u/two.md")
    office.write("c/new.md", "A new paper speaks at some length of zeta")
