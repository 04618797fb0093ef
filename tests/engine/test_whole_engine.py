"""Random sequences of source changes, syncs and ledger operations leave the library as a simple model predicts.

The model tracks the disk, undone changes and pending items. Its checks are exact after each complete sync. After a
killed or partial sync only the invariants are checked, until the next complete sync.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from catchment.errors import NoConsent, NotFound, NotNow, Reason, SourceUnavailable
from catchment.ledger import Ledger
from catchment.model import fingerprint
from catchment.runtime import process
from connectors.folders import diff, file_diff
from tests.engine.disk import PLACES, Disk, Print, Words
from tests.engine.whole import RETRY, Disturbance, Engine, Shelf
from tests.hits import find_hits

NAMES = ("papers", "vault")
DEEDS = (
    Disk.write,
    Disk.write,
    Disk.edit,
    Disk.append,
    Disk.keep_size_and_time,
    Disk.break_,
    Disk.close,
    Disk.delete,
    Disk.add_again,
    Disk.rename,
    Disk.rename,
    Disk.swap,
    Disk.copy,
    Disk.move_folder,
    Disk.write_many,
    Disk.delete_many,
)
names = st.sampled_from(NAMES)
places = st.sampled_from(PLACES)
deeds = st.lists(st.tuples(st.integers(0, len(DEEDS) - 1), places, places), min_size=1, max_size=5)
Deeds = list[tuple[int, str, str]]


@dataclass(frozen=True)
class Undone:
    """The words that an undo restored at a path and the file seen there by the last listing; None if unknown."""

    words: Words | None
    seen: Print | None


@dataclass
class Believed:
    """The model's state of a source, apart from its disk."""

    prints: dict[str, Print] = field(default_factory=dict)
    """The files seen by the last complete sync."""
    shelf: Shelf = field(default_factory=dict)
    """The library after the last complete sync."""
    steady: bool = False
    """Whether only the disk has changed since the last complete sync."""
    agreed: bool = True
    root: int | None = None
    """The disk by which the source is known; None while undetermined."""
    listed: int | None = None
    """The disk that was listed last."""
    undone: dict[str, Undone] = field(default_factory=dict)
    """Undone changes by path and by file, since a file can be renamed."""
    unseen: dict[str, Words | None] = field(default_factory=dict)
    """The library's words for files that were moved and edited with size and modification time unchanged."""
    given_up: dict[str, str] = field(default_factory=dict)
    """The discarded versions, by path."""
    roamed: set[str] = field(default_factory=set)
    """Paths in folders that were moved since the last complete sync; discarded items there may have been retried."""
    waiting: set[str] = field(default_factory=set)
    """Paths that were temporarily unavailable and will be retried."""
    calm: bool = True
    """Whether the next complete sync reads the waiting paths."""
    before: dict[int, dict[str, Words]] = field(default_factory=dict)
    """The contents of the library before each sync."""


def says(shelf: Shelf) -> dict[str, Words]:
    return {place: words for place, (_, words) in shelf.items()}


class WholeEngine(RuleBasedStateMachine):
    """Rules that act on the real system and on the model alike."""

    template: Path

    @initialize(first=deeds, second=deeds)
    def start(self, first: Deeds, second: Deeds) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.engine = Engine(self.folder, self.template)
        self.believed = {name: Believed() for name in NAMES}
        self.crashed = False
        self.searched: dict[str, Shelf] = {}
        self.backup: tuple[Path, dict[str, Believed], dict[str, dict[str, Words]]] | None = None
        self.change("papers", [(0, "a.md", ""), (0, "sub/b.md", ""), *first])
        self.change("vault", [(0, "a.md", ""), (0, "board.canvas", ""), *second])
        self.sync("papers", deep=False)
        self.sync("vault", deep=False)

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.engine.close()
            shutil.rmtree(self.folder)

    # Source changes

    @rule(name=names, todo=deeds)
    def change(self, name: str, todo: Deeds) -> None:
        disk = self.engine.disks[name]
        for number, place, other in todo if disk.is_mounted else ():
            DEEDS[number](disk, place, other)

    @rule(name=names, what=st.sampled_from([Disk.unmount, Disk.put_another, Disk.put_copy]))
    def lose_disk(self, name: str, what: object) -> None:
        disk = self.engine.disks[name]
        if disk.is_mounted and not disk.is_away:
            what(disk)  # type: ignore[operator]

    @rule()
    def bring_disks_back(self) -> None:
        for disk in self.engine.disks.values():
            disk.bring_back()

    @rule(name=names, which=st.sets(places, min_size=1, max_size=3))
    def storm(self, name: str, which: set[str]) -> None:
        self.engine.disks[name].stormy = frozenset(which)

    @rule()
    def calm(self) -> None:
        self.engine.forward(2 * RETRY)
        for name in NAMES:
            self.engine.disks[name].stormy = frozenset()
            self.believed[name].calm = True
        self.retry_all()

    # Syncs

    @rule(name=names, deep=st.sampled_from([False, False, True]))
    def sync(self, name: str, deep: bool) -> None:
        if self._refused(name):
            return
        believed, disk = self.believed[name], self.engine.disks[name]
        nothing_new = believed.steady and not believed.waiting and disk.files() == believed.prints
        with self._noting(name):
            summary = self.engine.sync(name, deep=deep)
        if nothing_new and believed.root == disk.which and not deep and not believed.undone:
            assert (summary["read"], summary["jobs"]) == (0, 0)
        self._after_whole(name, deep=deep)

    @rule()
    def sync_together(self) -> None:
        refused = [self._refused(name) for name in NAMES]
        if not any(refused):
            with self._noting(*NAMES):
                self.engine.sync_together()
            for name in NAMES:
                self._after_whole(name, deep=False)

    @rule(name=names, half=st.booleans())
    def sync_what_changed(self, name: str, half: bool) -> None:
        if self._refused(name):
            return
        disk, source = self.engine.disks[name], self.engine.source(name)
        last = self.engine.ledger.syncs.last(source.id)
        looks_at_all = disk.untold or last is None or last.outcome != "completed"
        told = set(sorted(disk.touched)[:: 2 if half else 1])
        with self._noting(name):
            self.engine.sync(name, told=None if disk.untold else frozenset(told))
        if looks_at_all or told == disk.touched:
            self._after_whole(name, deep=False)
        else:
            disk.touched -= told
            self._after_part(name)

    @rule(name=names, meanwhile=st.one_of(st.just([]), deeds))
    def sync_by_plan(self, name: str, meanwhile: Deeds) -> None:
        if self._refused(name):
            return
        plan = self.engine.plan(name)
        before, touched = self.engine.shelf(name), set(self.engine.disks[name].touched)
        self.change(name, meanwhile)
        with self._noting(name):
            summary = self.engine.sync(name, plan=plan)
        after = self.engine.shelf(name)
        changed = {place for place in before.keys() | after.keys() if before.get(place) != after.get(place)}
        if not plan.waiting and not self.believed[name].waiting:
            assert changed <= {place for step in plan.steps for place in (step.item, step.was)}
        if meanwhile:
            self._after_part(name)
        else:
            assert summary["left"] == 0
            self._after_whole(name, deep=False)
            self.engine.disks[name].touched = touched

    @rule(name=names, at=st.integers(0, 25))
    def kill_a_sync(self, name: str, at: int) -> None:
        if self._refused(name):
            return
        with self._noting(name):
            killed = self.engine.sync_killed(name, at)
        if killed:
            self.crashed = True
            self.believed[name].root = None
            self._after_part(name)
        else:
            self._after_whole(name, deep=False)

    @rule(name=names, at=st.integers(0, 9), todo=deeds, end=st.sampled_from(Disturbance))
    def disturb_a_listing(self, name: str, at: int, todo: Deeds, end: Disturbance) -> None:
        if self._refused(name):
            return
        disk = self.engine.disks[name]
        disk.touched, disk.untold = set(), end is not Disturbance.GOES_ON
        with self._noting(name):
            self.engine.sync_disturbed(name, at, end, lambda: self.change(name, todo))
        self.believed[name].root = None
        self._after_part(name)

    @rule(name=names, place=places, other=places, at=st.integers(0, 9), end=st.sampled_from(Disturbance))
    def move_a_folder_only_meanwhile(self, name: str, place: str, other: str, at: int, end: Disturbance) -> None:
        if self._refused(name):
            return
        disk = self.engine.disks[name]
        before = disk.files().keys()
        disk.move_folder(place, other)
        self.believed[name].roamed |= before - disk.files().keys()
        self.disturb_a_listing(name, at, [], end)
        disk.move_folder_back()
        self.sync(name, deep=False)

    @rule(name=names, mend=st.booleans())
    def prove(self, name: str, mend: bool) -> None:
        if self._refused(name):
            return
        believed = self.believed[name]
        proven = self.engine.prove(name)
        files, shelf = self.engine.disks[name].files(), self.engine.shelf(name)
        excused = {place for place, seen in files.items() if seen.why or self._was_undone(believed, place, seen)}
        wrong = {place for place, seen in files.items() if says(shelf).get(place) != seen.words} - excused
        extra = shelf.keys() - files.keys() - believed.undone.keys()
        told = {finding.item for finding in proven.findings}
        assert wrong - believed.waiting - believed.given_up.keys() <= told
        assert extra <= told | {step.was for step in proven.plan.steps}
        odd = believed.undone or believed.waiting or believed.given_up or believed.root != self.engine.disks[name].which
        if believed.steady and not odd and files == believed.prints and not self.engine.missing(name):
            assert proven.holds, proven.findings
        if mend:
            with self._noting(name):
                self.engine.repair(name, proven)
            with self._noting(name):
                self.engine.sync(name)
            believed.steady = False
            self._after_whole(name, deep=True)

    # Operator actions

    @rule()
    def retry_all(self) -> None:
        self.engine.ledger.quarantine.retry(None, "anna")
        for believed in self.believed.values():
            believed.steady = False
            believed.undone = {key: Undone(undone.words, None) for key, undone in believed.undone.items()}

    @rule(which=st.integers(0, 20))
    def discard(self, which: int) -> None:
        entries = self.engine.ledger.quarantine.list()
        if entries:
            entry = entries[which % len(entries)]
            self.engine.ledger.quarantine.discard([entry.job], "anna", "not worth it")
            self.believed[entry.source].given_up[entry.item] = entry.version
            self.believed[entry.source].steady = False

    @rule(name=names)
    def apply_hold(self, name: str) -> None:
        gone, before, source = self.engine.missing(name), says(self.engine.shelf(name)), self.engine.source(name)
        if not self.engine.ledger.intake.holds(source.id):
            return
        assert self.engine.ledger.intake.apply_hold(source.id, "anna", "they are gone") == len(gone)
        assert says(self.engine.shelf(name)) == {place: said for place, said in before.items() if place not in gone}
        believed = self.believed[name]
        believed.root, believed.steady = None if believed.root is None else believed.listed, False
        believed.given_up = {place: version for place, version in believed.given_up.items() if place not in gone}

    @rule(name=names)
    def drop_hold(self, name: str) -> None:
        gone, before, source = self.engine.missing(name), self.engine.shelf(name), self.engine.source(name)
        if not self.engine.ledger.intake.holds(source.id):
            return
        assert self.engine.ledger.intake.drop_hold(source.id, "anna", "it was the cable") == len(gone)
        assert self.engine.shelf(name) == before
        self.believed[name].steady = False

    @rule(name=names)
    def undo(self, name: str) -> None:
        believed, ledger = self.believed[name], self.engine.ledger
        last = ledger.syncs.last(self.engine.source(name).id)
        if last is None:
            return
        was, expected = says(self.engine.shelf(name)), believed.before.get(last.id)
        try:
            done = ledger.undo.undo(last.id, "anna", "", process.alive)
        except NotFound:
            assert expected is None or was == expected
            return
        now = says(self.engine.shelf(name))
        assert expected is None or now == expected
        assert done.number is not None
        believed.before[done.number] = was
        for place in was.keys() | now.keys():
            if was.get(place) != now.get(place):
                seen = believed.prints.get(place)
                left = Undone(now.get(place), seen if believed.steady else None)
                believed.undone |= {place: left} | ({seen.who: left} if seen else {})
        believed.steady = False

    @rule(name=names)
    def take_consent_back(self, name: str) -> None:
        assert self.engine.revoke(name).holds
        assert self.engine.shelf(name) == {}
        self.believed[name] = Believed(agreed=False)
        self.engine.disks[name].untold = True

    @rule()
    def agree_again(self) -> None:
        for name, believed in self.believed.items():
            if not believed.agreed:
                self.engine.agree(name)
                believed.agreed = True

    @rule(name=names)
    def pause(self, name: str) -> None:
        self.engine.ledger.sources.pause(self.engine.source(name).name, "anna", "holidays")

    @rule()
    def resume(self) -> None:
        for name in NAMES:
            self.engine.ledger.sources.resume(name, "anna")

    @rule()
    def back_up(self) -> None:
        shelves = {name: says(self.engine.shelf(name)) for name in NAMES}
        file = self.engine.back_up(0 if self.backup is None else int(self.backup[0].stem.split()[1]) + 1)
        self.backup = (file, copy.deepcopy(self.believed), shelves)

    @rule()
    def restore(self) -> None:
        if self.backup is None:
            return
        file, believed, shelves = self.backup
        self.engine.restore(file)
        assert {name: says(self.engine.shelf(name)) for name in NAMES} == shelves
        self.believed = copy.deepcopy(believed)
        for name in NAMES:
            self.believed[name].steady = False
            self.engine.disks[name].untold = True

    @rule()
    def reopen(self) -> None:
        self.engine.reopen()

    @rule(days=st.sampled_from([0, 40]))
    def let_time_pass(self, days: int) -> None:
        self.engine.forward(timedelta(days=days, hours=1))
        if days:
            self.engine.tidy()
            for believed in self.believed.values():
                believed.before.clear()

    # Expectations of the model

    def _refused(self, name: str) -> bool:
        """Return whether a sync or a proof of the source must be refused, and check that it is."""
        believed, disk = self.believed[name], self.engine.disks[name]
        if not believed.agreed:
            error: type[Exception] = NoConsent
        elif self.engine.source(name).state != "active":
            error = NotNow
        elif not disk.is_mounted:
            error = SourceUnavailable
        else:
            return False
        before = self.engine.shelf(name)
        with self._noting(name), pytest.raises(error):
            self.engine.sync(name)
        assert self.engine.shelf(name) == before
        return True

    @contextmanager
    def _noting(self, *of: str) -> Iterator[None]:
        """Record the contents of the library before the next sync, by the number of that sync."""
        before = {name: says(self.engine.shelf(name)) for name in of}
        yield
        for name in of:
            last = self.engine.ledger.syncs.last(self.engine.source(name).id)
            if last is not None:
                self.believed[name].before.setdefault(last.id, before[name])

    def _after_part(self, name: str) -> None:
        """Record a partial or unfinished sync; exact checks resume with the next complete sync."""
        believed, disk = self.believed[name], self.engine.disks[name]
        believed.steady, believed.listed = False, disk.which
        believed.waiting |= disk.stormy
        believed.undone = {key: Undone(undone.words, None) for key, undone in believed.undone.items()}

    def _after_whole(self, name: str, *, deep: bool) -> None:
        """Check the library after a complete sync; a `deep` sync also reads undone items."""
        believed, disk = self.believed[name], self.engine.disks[name]
        if believed.calm and not disk.stormy:
            believed.waiting.clear()
        believed.waiting |= disk.stormy
        believed.calm = False
        files, shelf = disk.files(), self.engine.shelf(name)
        entries = {entry.item: entry.reason for entry in self.engine.ledger.quarantine.list(name)}
        # When several processes are killed, each item that they were processing counts as a possible cause.
        believed.waiting |= {place for place, reason in entries.items() if reason is Reason.PROCESS_KILLED}
        for place, seen in files.items():
            self._check_place(believed, place, seen, shelf, entries, deep=deep)
        missing = self.engine.missing(name)
        for place in shelf.keys() - files.keys() - missing:
            assert believed.undone[place].words == shelf[place][1], f"{place} is gone, and in the library"
        assert entries.keys() <= files.keys() | missing
        self._check_deletions(name, believed, shelf, missing)
        if believed.steady:
            check_numbers(believed, files, shelf)
        believed.prints, believed.shelf, believed.steady, believed.listed = files, shelf, True, disk.which
        believed.roamed.clear()
        disk.touched, disk.untold = set(), False

    def _check_place(
        self,
        believed: Believed,
        place: str,
        seen: Print,
        shelf: Shelf,
        entries: dict[str, Reason],
        *,
        deep: bool,
    ) -> None:
        said = says(shelf).get(place)
        undone = self._was_undone(believed, place, seen)
        if undone is not None:
            as_then = undone.seen is not None and undone.seen.version == seen.version
            if as_then and not deep:
                assert said == undone.words, f"{place} was undone, has not changed since, and was read again"
            if said == undone.words:
                return
        if self._is_unseen(believed, place, seen, said, deep=deep):
            assert entries.get(place) in {None, seen.why}
            return
        if seen.why or place in believed.waiting:
            given_up = fingerprint(believed.given_up.get(place, "")) == seen.version
            if place not in believed.waiting and undone is None:
                # A deep listing distinguishes the content from that of an older document.
                maybe_again = given_up and (deep or place in believed.roamed)
                allowed = {None, seen.why} if maybe_again else {None if given_up else seen.why}
                assert entries.get(place) in allowed, f"{place} stands otherwise in quarantine than it should"
            if place in entries:
                believed.given_up.pop(place, None)
            return
        assert said == seen.words, f"{place} is not in the library as it is"
        assert place not in entries, f"{place} was read, and is in quarantine"
        for key in (place, seen.who):
            believed.undone.pop(key, None)

    def _is_unseen(self, believed: Believed, place: str, seen: Print, said: Words | None, *, deep: bool) -> bool:
        """Return whether the library may still hold the older words of a file, though the file has changed or is
        unreadable.
        """
        for old, was in believed.prints.items():
            was_elsewhere = old != place or place in believed.roamed
            if was_elsewhere and was.who == seen.who and (was.why, was.words) != (seen.why, seen.words):
                believed.unseen[seen.who] = says(believed.shelf).get(old)
        if (said == seen.words and not seen.why) or (said != seen.words and deep):
            believed.unseen.pop(seen.who, None)
        return seen.who in believed.unseen and said == believed.unseen[seen.who]

    def _was_undone(self, believed: Believed, place: str, seen: Print) -> Undone | None:
        """Return the undone change that may still apply here: the file existed at the time of the undo."""
        by_file, here = believed.undone.get(seen.who), believed.undone.get(place)
        if here is not None and here.seen is not None and here.seen.version != seen.version:
            here = None
        return by_file or here

    def _check_deletions(self, name: str, believed: Believed, shelf: Shelf, missing: set[str]) -> None:
        disk = self.engine.disks[name]
        held = self.engine.ledger.intake.holds(self.engine.source(name).id)
        assert bool(held) == bool(missing)
        if missing:
            assert believed.root is None or believed.root != disk.which or len(missing) > 10
        else:
            believed.root = disk.which
        if believed.steady and believed.root is not None and believed.root != disk.which:
            lost = numbers_of(believed.shelf) - numbers_of(shelf)
            assert not lost, "another disk lies in its place, and documents are gone"

    @invariant()
    def search_finds_what_the_library_holds_and_the_ledger_is_sound(self) -> None:
        if not hasattr(self, "engine"):
            return
        shelves = {name: self.engine.shelf(name) for name in NAMES}
        findings = self.engine.ledger.check(deep=shelves != self.searched)
        assert [f for f in findings if not (self.crashed and "its lease has ended" in f)] == []
        if shelves == self.searched:
            return
        expected = found_at(shelves)
        for word in expected.keys() | found_at(self.searched).keys():
            hits = find_hits(self.engine.ledger, word)
            at = [place for hit in hits for place in hit.places]
            assert sorted(at) == sorted(expected.get(word, set())), f"{word} is found elsewhere than it is"
        self.searched = shelves


def numbers_of(shelf: Shelf) -> set[int]:
    return {number for number, _ in shelf.values()}


def found_at(shelves: dict[str, Shelf]) -> dict[str, set[tuple[str, str]]]:
    """Return the paths of each word."""
    found: dict[str, set[tuple[str, str]]] = {}
    for name, shelf in shelves.items():
        for place, (_, words) in shelf.items():
            for word in words:
                found.setdefault(word, set()).add((name, place))
    return found


def check_numbers(believed: Believed, files: dict[str, Print], shelf: Shelf) -> None:
    """Check that a document keeps its number where the identity of its file is unambiguous."""
    was = {seen.who: place for place, seen in believed.prints.items()}
    now = {seen.who: place for place, seen in files.items()}
    for place, seen in files.items():
        came_from = was.get(seen.who)
        if place in believed.prints:
            other = now.get(believed.prints[place].who)
            stayed = came_from == place or (came_from is None and other is None)
            swapped = came_from is not None and other == came_from
            old = place if stayed else came_from if swapped else None
        else:
            old = came_from if came_from not in files else None
        if old in believed.shelf and place in shelf and place not in believed.shelf.keys() - believed.prints.keys():
            assert shelf[place][0] == believed.shelf[old][0], f"{old} became {place}, and is another document"


def run_machine(folder: Path, examples: int, steps: int) -> None:
    class OnTemplate(WholeEngine):
        template = folder / "ledger.db"

    Ledger.open(f"sqlite:///{OnTemplate.template}").close()
    with pytest.MonkeyPatch.context() as patch:
        # The default would report the few files of this test before the first checkpoint.
        patch.setattr(diff, "_CHANGES_PER_CHECKPOINT", 2)
        for module in (diff, file_diff):
            patch.setattr(module, "UNCHANGED_PER_CHECKPOINT", 2)
        run_state_machine_as_test(
            OnTemplate,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                database=None,
                phases=(Phase.generate, Phase.shrink),  # explaining would trace every line of the engine
                suppress_health_check=list(HealthCheck),
            ),
        )


@pytest.mark.long
def test_library_matches_its_sources_after_any_sequence_of_events(tmp_path: Path) -> None:
    run_machine(tmp_path, 12, 25)
