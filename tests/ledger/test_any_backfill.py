"""Syncs, replays, undos and cancellations in any order leave the library that a simple model expects."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from catchment.errors import NotFound, Refused
from catchment.ledger import Backfill, BackfillSelection, BackfillState, Batch, ClaimedJob, Delivered, Ledger
from catchment.model import Chunk, Document, Extraction, ReplayStage, Tombstone, Upsert
from deployments.actions import backfills
from tests.ledger.world import PARSE_ERROR, TIMEOUT, Clock, World, content, note

pytestmark = pytest.mark.long

NAMES = ("a", "b", "c")
EDITS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["v1", "v2", "v3", None]), max_size=3)
OUTCOME = st.sampled_from(["completed", "yielded"])
MOST = st.sampled_from([9, 2, 1, 0])
FAILING = st.sampled_from([None, "later", "never"])
ALL = BackfillSelection(ReplayStage.NORMALIZE)


@dataclass(frozen=True)
class State:
    """The text that the library has at a path, or none; and the origin of the item's current job.

    `restored`: an undo chose the text, so replays leave it alone. `by`: the backfill that read it. `stopped`: an operator does
    not want the version that the source has. `by_undo`: the undo that settled the item. `ended`: it cancelled a waiting job.
    """

    text: str | None = None
    restored: bool = False
    by: int | None = None
    stopped: bool = False
    by_undo: int | None = None
    ended: bool = False


@dataclass
class Wait:
    """A job that waits. `backfill`: of a replay. `any_sync`: ordinary syncs claim it, too. `repeats`: an earlier job did it."""

    found: int | None
    backfill: int | None = None
    any_sync: bool = True
    quarantined: bool = False
    repeats: bool = False


@dataclass
class Thing:
    """An item. `gone`: the library's state when the source deleted it; `lacking`: the source had another version then.

    `unread`: a replay waited then.
    """

    version: str
    place: str = "present"
    wait: Wait | None = None
    gone: State = State()
    lacking: bool = False
    unread: bool = False
    tried: set[int] = field(default_factory=set)


@dataclass
class Act:
    """A sync. `continues`: the number of the sync that it continues."""

    outcome: str
    backfill: int | None = None
    continues: int | None = None
    undoes: int | None = None
    before: dict[str, State] = field(default_factory=dict)


@dataclass
class Replay:
    """A backfill. `delivered`: by item, the syncs that delivered its jobs."""

    wish: str = "run"
    listed: bool = False
    delivered: dict[str, set[int]] = field(default_factory=dict)


class Model(RuleBasedStateMachine):
    """Rules that act on the ledger and on the model alike. The model takes back the changes of syncs one after the other."""

    template: Path

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        file = self.folder / "ledger.db"
        shutil.copy2(self.template, file)
        self.clock = Clock()
        url = f"sqlite:///{file}"
        self.world = World(url, self.clock, Ledger.open(url, clock=self.clock, monotonic=self.clock.steady))
        self.world.ledger.syncs.end(self.world.sync.id, "completed", {})
        self.code = 1
        self.things: dict[str, Thing] = {}
        self.library: dict[str, State] = {}
        self.acts: dict[int, Act] = {}
        self.replays: dict[int, Replay] = {}
        self.files: dict[str, str] = {}
        self.sync({"a": "v1", "b": "v1"}, "completed", 9, None)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.ledger.close()
            shutil.rmtree(self.folder)

    # Syncs

    @rule(edits=EDITS, outcome=OUTCOME, most=MOST, failing=FAILING)
    def sync(self, edits: dict[str, str | None], outcome: str, most: int, failing: str | None) -> None:
        """Change the source, then list it, and store some of the new items."""
        self.files = {name: version for name, version in (self.files | edits).items() if version is not None}
        number = self._begin(None)
        listed = [name for name, thing in self.things.items() if thing.place == "present"]
        gone = [name for name in listed if name not in self.files]
        self.world.record(*map(Tombstone, gone), *(Upsert(note(n, v, n)) for n, v in self.files.items()))
        for name, version in self.files.items():
            self._list(number, name, version)
        for name in gone:
            self._lose(number, name)
        self.world.settle()
        self._work(number, self.world.claim(most, sync_id=number), None, most, failing)
        self._end(number, outcome)

    def _begin(self, backfill: int | None) -> int:
        self.world.sync = self.world.ledger.syncs.begin(
            self.world.source.id, run=None, owner="worker", code_version="1", alive=lambda _: True, backfill=backfill
        )
        number = self.world.sync.id
        same = [n for n, act in self.acts.items() if act.backfill == backfill and act.undoes is None]
        last = max(same, default=None)
        continues = last if last is not None and self.acts[last].outcome == "yielded" else None
        self.acts[number] = Act("", backfill, continues)
        return number

    def _end(self, number: int, outcome: str) -> None:
        self.world.ledger.syncs.end(number, outcome, {})  # type: ignore[arg-type]
        self.acts[number].outcome = outcome

    def _list(self, number: int, name: str, version: str) -> None:
        thing = self.things.get(name)
        if thing is None:
            self.things[name] = Thing(version, wait=Wait(number))
            return
        wanted = version != thing.version or (thing.place != "present" and thing.lacking)
        if not wanted and thing.place == "deleted":
            self._change(number, name, thing.gone)
        if wanted or (thing.place != "present" and thing.unread):
            self._wait(name, Wait(number))
        thing.version, thing.place, thing.lacking, thing.unread = version, "present", False, False

    def _wait(self, name: str, wait: Wait) -> None:
        self.things[name].wait = wait
        if not wait.repeats:
            self.library[name] = State(self._state(name).text)

    def _lose(self, number: int, name: str) -> None:
        thing = self.things[name]
        state = self._state(name)
        repeats = thing.wait is not None and thing.wait.repeats
        thing.lacking = (thing.wait is not None and not repeats) or state.text is None or state.stopped
        thing.unread = repeats
        thing.place, thing.wait, thing.gone = "deleted", None, state
        self._change(number, name, State())

    def _work(self, number: int, batch: Batch, backfill: int | None, most: int, failing: str | None) -> None:
        """Deliver a batch, but let its first job fail."""
        ready = {
            name
            for name, thing in self.things.items()
            if (w := thing.wait) and not w.quarantined and (w.any_sync if backfill is None else w.backfill == backfill)
        }
        claimed = {job.item.locator: job for job in batch.jobs}
        assert len(claimed) == min(most, len(ready))
        assert claimed.keys() <= ready
        if failing and batch.jobs:
            first = batch.jobs[0]
            del claimed[first.item.locator]
            retry_at = self.clock.moment if failing == "later" else None
            failure = TIMEOUT if failing == "later" else PARSE_ERROR
            self.world.ledger.queue.fail(batch.token, first.id, failure, retry_at=retry_at)
            wait = self.things[first.item.locator].wait
            assert wait is not None
            wait.any_sync, wait.quarantined = True, failing == "never"
        self.world.ledger.queue.deliver(batch.token, [self._read(job) for job in claimed.values()])
        for name, job in claimed.items():
            thing = self.things[name]
            assert thing.wait is not None and job.item.version == thing.version
            self._change(number, name, State(self._text(name), False, thing.wait.backfill))
            if thing.wait.backfill is not None:
                self.replays[thing.wait.backfill].delivered.setdefault(name, set()).add(number)
            thing.wait = None

    def _read(self, job: ClaimedJob) -> Delivered:
        name, text = job.item.locator, self._text(job.item.locator)
        source = content(f"{name} {job.item.version}")
        extraction = Extraction((Chunk(0, len(text), ""),), (), ())
        document = Document(text, "text/markdown")
        return Delivered(job.id, source, f"{self.code}.1 text/markdown", document, extraction, name, None, {})

    def _text(self, name: str) -> str:
        return f"{name} {self.things[name].version} by {self.code}"

    # The library

    def _state(self, name: str) -> State:
        return self.library.get(name, State())

    def _change(self, number: int, name: str, state: State) -> None:
        if self._state(name).text is not None or state.text is not None:
            self.acts[number].before.setdefault(name, self._state(name))
        self.library[name] = state

    # Replays

    @rule(is_run=st.booleans(), outcome=OUTCOME, most=MOST, failing=FAILING)
    def replay(self, is_run: bool, outcome: str, most: int, failing: str | None) -> None:
        """Start a backfill with newer code. Its first run may follow later."""
        self.code += 1
        own = self.world.ledger.backfills
        code = f"{self.code}.1"
        survey = own.survey(self.world.source.id, ALL, code)
        assert survey.total == len(list(self._candidates(None)))
        number = own.plan(self.world.source.id, ALL, survey, "anna")
        unfinished = (BackfillState.RUNNING, BackfillState.PAUSED)
        if any(self._backfill(other).state in unfinished for other in self.replays):
            with pytest.raises(Refused, match="overlaps"):
                own.start(number, survey.digest, "anna")
            return
        own.start(number, survey.digest, "anna")
        self.replays[number] = Replay()
        if is_run:
            self._run(number, outcome, most, failing)

    def _candidates(self, number: int | None) -> Iterator[str]:
        for name, thing in self.things.items():
            state = self._state(name)
            there = thing.place == "present" and thing.wait is None and state.text is not None
            is_own = there and not state.restored and not state.stopped
            if is_own and number not in thing.tried and not str(state.text).endswith(f"by {self.code}"):
                yield name

    @precondition(lambda self: self.replays)
    @rule(data=st.data(), outcome=OUTCOME, most=MOST, failing=FAILING)
    def run(self, data: st.DataObject, outcome: str, most: int, failing: str | None) -> None:
        number = data.draw(st.sampled_from(sorted(self.replays)))
        if self._backfill(number).is_running:
            self._run(number, outcome, most, failing)

    def _run(self, number: int, outcome: str, most: int, failing: str | None) -> None:
        sync = self._begin(number)
        if not self.replays[number].listed:
            found = list(self._candidates(number))
            assert self.world.ledger.backfills.enqueue(sync, number, f"{self.code}.1") == len(found)
            self.world.ledger.backfills.close_listing(sync)
            self.replays[number].listed = True
            for name in found:
                self.things[name].wait = Wait(sync, number, any_sync=False, repeats=True)
                self.things[name].tried.add(number)
        self._work(sync, self.world.claim(most, sync_id=sync, backfill=number), number, most, failing)
        self._end(sync, outcome)

    def _backfill(self, number: int) -> Backfill:
        found = self.world.ledger.backfills.get(number)
        waits = [t.wait for t in self.things.values() if t.wait and t.wait.backfill == number]
        left = sum(not wait.quarantined for wait in waits)
        done = self.replays[number].listed and not left
        states = {"run": BackfillState.RUNNING, "hold": BackfillState.PAUSED}
        expected = BackfillState.DONE if done else states.get(self.replays[number].wish)
        if self.replays[number].wish == "cancel":
            expected = BackfillState.CANCELLED
        assert (found.state, found.left, found.quarantined) == (expected, left, len(waits) - left)
        return found

    @precondition(lambda self: self.replays)
    @rule(data=st.data(), what=st.sampled_from(["pause", "resume", "cancel", "retry", "undo"]))
    def steer(self, data: st.DataObject, what: str) -> None:
        number = data.draw(st.sampled_from(sorted(self.replays)))
        own, replay, state = self.world.ledger.backfills, self.replays[number], self._backfill(number).state
        waiting = [t for t in self.things.values() if t.wait and t.wait.backfill == number]
        match what:
            case "pause" if state is BackfillState.RUNNING:
                own.pause(number, "anna")
                replay.wish = "hold"
            case "resume" if state is BackfillState.PAUSED:
                own.resume(number, "anna")
                replay.wish = "run"
            case "cancel":
                own.cancel(number, "anna")
                replay.wish = "cancel" if state is not BackfillState.DONE else replay.wish
                for thing in waiting:
                    thing.wait = None
            case "retry":
                own.retry(number, "anna", "")
                for thing in waiting:
                    assert thing.wait is not None
                    thing.wait.any_sync |= thing.wait.quarantined
                    thing.wait.quarantined = False
            case "undo":
                if state is not BackfillState.DONE:
                    replay.wish = "cancel"
                for thing in waiting:
                    thing.wait = None
                expected = self._take_back_backfill(number)
                _, undone = backfills.undo(Desk(self.world.ledger), number, "anna")  # type: ignore[arg-type]
                assert (None if undone is None else undone.number) == expected

    # Undo

    @precondition(lambda self: self.acts)
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.acts, reverse=True)[:8]))
        expected = self._take_back(number)
        try:
            assert self.world.ledger.undo.undo(number, "anna", "", lambda _: True).number == expected
        except NotFound:
            assert expected is None

    def _take_back(self, number: int) -> int | None:
        """Undo a sync and all syncs that it continues, one by one. Return the number of the undo; None if it is not needed."""
        parts, earlier = [number], self.acts[number].continues
        while earlier is not None:
            parts.append(earlier)
            earlier = self.acts[earlier].continues
        return self._take_back_parts(parts, {})

    def _take_back_backfill(self, number: int) -> int | None:
        """Undo the syncs of a backfill, and the deliveries of other syncs for it. Return the same as `_take_back`."""
        parts = sorted((n for n, act in self.acts.items() if act.backfill == number), reverse=True)
        return self._take_back_parts(parts, self.replays[number].delivered) if parts else None

    def _take_back_parts(self, parts: list[int], delivered: dict[str, set[int]]) -> int | None:
        undo, is_needed, latest = Act("completed", undoes=parts[0]), False, max(self.acts) + 1
        for name in sorted({name for part in parts for name in self.acts[part].before} | delivered.keys()):
            state = now = self._state(name)
            for part in sorted({*parts, *delivered.get(name, ())}, reverse=True):
                before = self.acts[part].before.get(name, state)
                if self._after(part, name).text == state.text:
                    state = before
                is_needed |= before.text != state.text
            if state.text != now.text:
                is_needed = True
                undo.before[name] = now
                self._restore(name, state, parts, latest)
        if not is_needed:
            return None
        self.acts[latest] = undo
        return latest

    def _after(self, part: int, name: str) -> State:
        later = [n for n in self.acts if n > part and name in self.acts[n].before]
        return self.acts[min(later)].before[name] if later else self._state(name)

    def _restore(self, name: str, then: State, parts: list[int], undo: int) -> None:
        thing, act, now = self.things[name], self.acts[parts[0]], self._state(name)
        job = thing.gone if thing.place == "deleted" else now
        ended = False
        if thing.wait and (thing.wait.repeats or thing.wait.found in parts):
            thing.wait, ended = None, not thing.wait.repeats
        is_ours = act.undoes is not None and job.by_undo in parts and not thing.wait
        if thing.place == "deleted" and not thing.lacking and thing.gone.text == then.text:
            then = thing.gone
        elif is_ours and job.ended and thing.place == "present":
            then, thing.wait = State(then.text), Wait(undo)
        elif is_ours and not (then.text and (then.stopped or job.ended)):
            thing.lacking = False
        elif then.text is None:
            then = State(by_undo=undo, ended=ended)
        else:
            restored = act.backfill is None or job.by != act.backfill
            then = State(then.text, restored, by_undo=undo, ended=ended)
        self.library[name] = State(then.text) if thing.wait else then
        if then.text is None and thing.place == "kept":
            thing.place, thing.gone = "deleted", now
        elif then.text is not None and thing.place == "deleted":
            thing.place = "kept"

    # Failures and repairs

    @precondition(lambda self: any(thing.wait and thing.wait.quarantined for thing in self.things.values()))
    @rule(is_wanted=st.booleans())
    def decide_on_quarantined(self, is_wanted: bool) -> None:
        own = self.world.ledger.quarantine
        if is_wanted:
            own.retry(None, "anna")
        else:
            own.discard([entry.job for entry in own.list()], "anna", "not wanted")
        for name, thing in self.things.items():
            if thing.wait and thing.wait.quarantined and is_wanted:
                thing.wait = replace(thing.wait, quarantined=False, any_sync=True)
            elif thing.wait and thing.wait.quarantined:
                if not thing.wait.repeats:
                    self.library[name] = replace(self._state(name), stopped=True)
                thing.wait = None

    @rule(data=st.data())
    def repair(self, data: st.DataObject) -> None:
        """Read an item again, as after a proof that found a difference."""
        name = data.draw(st.sampled_from(sorted(self.things)))
        thing, state = self.things[name], self._state(name)
        number = self._begin(None)
        item = self.world.ledger.intake.find(name)[0]
        self.world.ledger.proof.read_again(number, [item.id], [], "anna")
        self._end(number, "completed")
        if thing.place == "present":
            wait = thing.wait
            repeats = wait.repeats if wait else state.text is not None and not state.stopped
            its = (wait.found, wait.backfill) if wait else (None, None)
            self._wait(name, Wait(*its, repeats=repeats))

    # Invariants

    @invariant()
    def the_library_is_as_expected(self) -> None:
        if not hasattr(self, "world"):
            return
        names = self.world.ledger.library.names(self.world.source.id)
        texts = {one.locator: self.world.ledger.library.document(one.document).content.text for one in names}
        assert texts == {name: state.text for name, state in self.library.items() if state.text is not None}
        assert self.world.ledger.check(deep=True) == []


class Desk:
    """The part of a desk that the undo of a backfill needs."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @contextmanager
    def writing(self) -> Iterator[Any]:
        yield self._ledger


def test_any_order_of_syncs_replays_and_undos_is_as_expected(sqlite_template: Path) -> None:
    class OnTemplate(Model):
        template = sqlite_template

    run_state_machine_as_test(
        OnTemplate,
        settings=settings(
            max_examples=60,
            stateful_step_count=30,
            database=None,
            phases=(Phase.generate, Phase.shrink),  # explaining would trace every line of the ledger
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        ),
    )
