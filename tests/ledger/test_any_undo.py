"""Undoing any sync restores the previous library; undoing the undo restores the later one."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from catchment.errors import NotFound
from catchment.ledger import Ledger
from catchment.model import Tombstone, Upsert
from catchment.views.versions import versions
from tests.ledger.world import Clock, World, note

pytestmark = pytest.mark.long

NAMES = ("a", "b", "c", "d")
DEED = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES), st.sampled_from("xyz")),
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.just("")),
    st.tuples(st.just("move"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
)
SYNC = st.lists(DEED, min_size=1, max_size=5)
Deed = tuple[str, str, str]


class Folder:
    """The source files by name: the identity, which survives a move, and the text."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[str, str]] = {}
        self._born = 0

    def do(self, deed: Deed) -> None:
        what, name, other = deed
        if what == "write":
            self._born += 1
            identity = self.files[name][0] if name in self.files else f"file {self._born}"
            self.files[name] = (identity, other)
        elif name in self.files and what == "delete":
            del self.files[name]
        elif name in self.files and what == "move":
            self.files[other] = self.files.pop(name)


def sync(world: World, folder: Folder) -> int:
    """List the folder as a connector does and update the library; return the number of the sync."""
    known = world.ledger.intake.known(world.source.id).within("")
    gone = [Tombstone(name) for name in known if name not in folder.files]
    # Identity and contents: as with real files, new text means a new identity.
    seen = [note(n, text, f"{who} {text}") for n, (who, text) in folder.files.items()]
    new = [Upsert(item) for item in seen if item.locator not in known or known[item.locator].version != item.version]
    moved = [Upsert(i) for i in seen if i.locator in known and known[i.locator].identity != i.identity]
    world.record(*gone, *new, *(m for m in moved if m not in new))
    batch = world.claim()
    # The alphabet is small, so that two files can share contents.
    world.ledger.queue.deliver(batch.token, [world.done(job, job.item.version) for job in batch.jobs])
    world.settle()
    ended = world.sync.id
    world.ledger.syncs.end(ended, "completed", {})
    world.sync = world.begin()
    return ended


def undo(world: World, number: int) -> int:
    world.ledger.syncs.end(world.sync.id, "completed", {})
    done = world.ledger.undo.undo(number, "anna", "", lambda _: True).number
    world.sync = world.begin()
    assert done is not None
    return done


def library(world: World) -> dict[str, tuple[str, str]]:
    """Return the text and title of each path."""
    shown = [world.ledger.library.document(named.document) for named in world.ledger.library.names(world.source.id)]
    return {one.item: (one.title, one.content.text) for one in shown}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=st.lists(SYNC, max_size=3), last=SYNC)
@example(before=[[("write", "a", "x"), ("write", "b", "y")]], last=[("move", "a", "c"), ("move", "b", "a")])
@example(before=[[("write", "a", "x")], [("delete", "a", "")]], last=[("write", "b", "x"), ("write", "a", "x")])
@example(before=[[("write", "a", "x")], [("delete", "a", ""), ("write", "c", "x")]], last=[("write", "a", "x")])
def test_any_sync_can_be_undone_and_redone(sqlite_template: Path, before: list[list[Deed]], last: list[Deed]) -> None:
    with tempfile.TemporaryDirectory() as name:
        file = shutil.copy2(sqlite_template, Path(name) / "ledger.db")
        clock = Clock()
        world = World(f"sqlite:///{file}", clock, Ledger.open(f"sqlite:///{file}", clock=clock, monotonic=clock.steady))
        folder = Folder()
        earlier: list[tuple[int, dict[str, tuple[str, str]]]] = []
        for deeds in before:
            was = library(world)
            for deed in deeds:
                folder.do(deed)
            number = sync(world, folder)
            earlier += [(number, was)] if library(world) != was else []
        was = library(world)
        for deed in last:
            folder.do(deed)
        number = sync(world, folder)
        now = library(world)
        assert {place: text for place, (_, text) in now.items()} == {n: text for n, (_, text) in folder.files.items()}
        if was != now:
            again = undo(world, number)
            assert library(world) == was
            assert world.ledger.check() == []
            undo(world, again)
        assert library(world) == now
        assert world.ledger.check(deep=True) == []
        for one, then in [*earlier, *([(number, was)] if was != now else [])][::-1]:
            undo(world, one)
            assert library(world) == then, "from the latest to the first"
        assert world.ledger.check() == []
        world.ledger.close()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(syncs=st.lists(SYNC, min_size=1, max_size=5), undone=st.integers(0, 4))
@example(syncs=[[("write", "a", "x")], [("write", "b", "x"), ("delete", "a", "")], [("move", "b", "c")]], undone=1)
@example(syncs=[[("write", "a", "x")], [("move", "a", "b")], [("write", "a", "y")], [("delete", "b", "")]], undone=1)
def test_any_document_can_be_asked_as_of_any_sync(sqlite_template: Path, syncs: list[list[Deed]], undone: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        file = shutil.copy2(sqlite_template, Path(name) / "ledger.db")
        clock = Clock()
        world = World(f"sqlite:///{file}", clock, Ledger.open(f"sqlite:///{file}", clock=clock, monotonic=clock.steady))
        folder, seen = Folder(), {}
        for number, deeds in enumerate(syncs):
            clock.forward(hours=1)
            for deed in deeds:
                folder.do(deed)
            was = library(world)
            ended = sync(world, folder)
            seen[clock.moment] = library(world)
            if number == undone and was != seen[clock.moment]:
                clock.forward(hours=1)
                undo(world, ended)
                seen[clock.moment] = library(world)
        with closing(sqlite3.connect(file)) as database:
            items = [row[0] for row in database.execute("SELECT item_id FROM documents")]
            items += [row[0] for row in database.execute("SELECT id FROM items WHERE state = 'deleted'")]
        for moment, then in seen.items():
            found = {}
            for item in items:
                with suppress(NotFound):
                    _, shown = versions.as_of(world.ledger, item, moment)
                    found[shown.item] = (shown.title, shown.content.text)
            assert found == then, moment
        world.ledger.close()
