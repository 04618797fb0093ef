"""Lost, duplicated and reordered events: the library finally equals the source, without duplicates."""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from watchdog.observers.inotify_c import InotifyFD

from catchment.runtime.home import Home
from connectors.contract.memory_ledger import MemoryLedger
from connectors.local_files import LocalFiles, LocalFilesSettings
from deployments.sources.sources_file import SourceEntry
from deployments.watch.changes import ChangedPaths
from deployments.watch.rules import FolderRules
from deployments.watch.source import WatchedSource
from deployments.watch.tree import WatchEvent, WatchTree
from tests.connectors.test_any_history import Step, _keep_times, on_disk, steps
from tests.deployments.watch.conftest import StandinServer, announced, serving
from tests.deployments.watch.test_debounce import SCHEDULED, World
from tests.deployments.watch.test_webhook import add_repositories, body, deliver, signed
from tests.deployments.watch.test_webhook import serving as receiving
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.faults

_LAST = "zz-the-last-thing-that-happens"
# A file edited with unchanged size and time and moved before the next listing appears to be only moved.
_STEPS = steps.filter(lambda step: step[0] is not _keep_times)
_ROUNDS = st.lists(st.lists(_STEPS, min_size=1, max_size=6), min_size=1, max_size=4)
_PROPERTY = settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


class Folder:
    """A watched folder, its recorded events, and a watcher that receives them as the test decides."""

    def __init__(self, descriptor: InotifyFD, root: Path, home: Home) -> None:
        self.root = root
        wanted = LocalFilesSettings(root=root)
        self.connector = LocalFiles(wanted)
        self.ledger = MemoryLedger()
        rules = FolderRules("local_files", wanted, home)
        entry = SourceEntry("papers", "local_files", wanted, watch=True)
        self._changes = ChangedPaths()
        self.watcher = WatchedSource(entry, root, rules, self._changes, self._take)
        self.tree = WatchTree(descriptor, root, rules.watches, self._take)
        self._told: SimpleQueue[str | WatchEvent] = SimpleQueue()
        self._rounds = 0

    def change(self, todo: Sequence[Step]) -> list[str]:
        """Change the files; return the kernel's events in order."""
        for step, place, argument in todo:
            step(self.root, place, argument)
        self._rounds += 1
        last = f"{_LAST}-{self._rounds}"
        (self.root / last).touch()
        (self.root / last).unlink()
        told: list[str] = []
        while (sign := self._told.get(timeout=PATIENCE)) != last:
            assert isinstance(sign, str)
            told.append(sign)
        if any(path.rpartition("/")[2] == ".catchmentignore" for path in told):
            # As the watcher does: the set of watched folders may have changed.
            self.tree.start()
        return [path for path in told if not path.startswith(_LAST)]

    def tell(self, told: Sequence[str]) -> None:
        """Pass these events to the watcher and run a sync restricted to the reported paths."""
        for path in told:
            self.watcher.handle(0.0, path)
        if not self._changes.is_taken("papers"):
            hint = self._changes.take("papers")
            self.ledger.sync(self.connector, paths=hint.paths if hint else None)

    def scan(self) -> None:
        """Run a scheduled sync, which compares everything."""
        self.ledger.sync(self.connector)

    def is_in_the_library(self) -> bool:
        return self.ledger.documents() == on_disk(self.root)

    def _take(self, sign: str | WatchEvent) -> None:
        self._told.put(sign)


@pytest.fixture(scope="module")
def descriptor() -> Iterator[InotifyFD]:
    descriptor = InotifyFD()
    descriptor.start()
    yield descriptor
    descriptor.stop()


@contextmanager
def watched(descriptor: InotifyFD) -> Iterator[Folder]:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "root"
        root.mkdir()
        folder = Folder(descriptor, root, Home(Path(name) / "home").make())
        folder.scan()
        folder.tree.start()
        try:
            yield folder
        finally:
            folder.tree.stop()


@_PROPERTY
@given(rounds=_ROUNDS, seed=st.integers(0, 1_000))
def test_scan_finds_no_changes_after_doubled_and_reordered_events(
    descriptor: InotifyFD, rounds: list[list[Step]], seed: int
) -> None:
    # The kernel's events differ between runs; their shuffling does not.
    chance = random.Random(seed)
    with watched(descriptor) as folder:
        for todo in rounds:
            told = [path for path in folder.change(todo) for _ in range(chance.choice((1, 1, 2, 3)))]
            chance.shuffle(told)
            middle = chance.randint(0, len(told))
            # The two events of a rename can reach different syncs, the new path first.
            folder.tell(told[:middle])
            folder.tell(told[middle:])
            assert folder.is_in_the_library()
            assert folder.ledger.sync(folder.connector).item_changes == []


@_PROPERTY
@given(rounds=_ROUNDS, seed=st.integers(0, 1_000))
def test_unreported_change_is_found_once_by_the_next_scan(
    descriptor: InotifyFD, rounds: list[list[Step]], seed: int
) -> None:
    chance = random.Random(seed)
    with watched(descriptor) as folder:
        for todo in rounds:
            told = folder.change(todo)
            folder.tell([path for path in told if chance.random() < 0.5])
        folder.scan()
        assert folder.is_in_the_library()
        assert folder.ledger.sync(folder.connector).item_changes == []


@_PROPERTY
@given(rounds=_ROUNDS, seed=st.integers(0, 1_000))
def test_old_events_do_no_harm(descriptor: InotifyFD, rounds: list[list[Step]], seed: int) -> None:
    chance = random.Random(seed)
    with watched(descriptor) as folder:
        told = [path for todo in rounds for path in folder.change(todo)]
        folder.scan()
        chance.shuffle(told)
        folder.tell(told)
        assert folder.is_in_the_library()
        assert folder.ledger.sync(folder.connector).item_changes == []


class Unreliable(World):
    """A server with automations that fire twice, never, or only after the watcher has given up."""

    def automation_fires_twice(self) -> None:
        if self.emitted_at is not None:
            self.automation_answers()
            self.a_run_comes()

    def server_is_killed(self) -> None:
        """The server accepts the event, is killed before acting on it, and restarts."""
        self.emitted_at = None

    def an_old_event_fires(self) -> None:
        self.a_run_comes()


@settings(max_examples=200)
@given(
    st.lists(
        st.one_of(
            *SCHEDULED,
            st.tuples(st.sampled_from(["automation_fires_twice", "server_is_killed", "an_old_event_fires"])),
        ),
        max_size=60,
    )
)
def test_unreliable_server_loses_no_change(actions: list[tuple[str, ...]]) -> None:
    world = Unreliable()
    for name, *values in actions:
        getattr(world, name)(*values)
    world.settles()
    assert world.is_seen
    assert world.debounce.wake_at() == math.inf


def test_repeated_webhook_deliveries_leave_one_pending_run_per_source(home: Home, times: int) -> None:
    standin = StandinServer(immediate=False)
    with serving(standin), announced(home, standin.port):
        add_repositories(home, "weir", "ada/weir")
        add_repositories(home, "dam", "ada/dam")
        with receiving(home) as receiver:
            for seed in range(5 * times):
                before = len(standin.runs)
                deliveries = [
                    (data, signed(data, f"{seed}/{repository}/{number}"))
                    for repository in ("ada/weir", "ada/dam")
                    for number in range(10)
                    if (data := body(repository, action=f"{seed}/{number}"))
                ] * 2
                random.Random(seed).shuffle(deliveries)
                answered = [deliver(receiver, data, headers) for data, headers in deliveries]
                assert sorted(answered) == [202] * 20 + [409] * 20
                until(lambda since=before: len(standin.runs) - since >= 2)  # type: ignore[misc]
                until(receiver._deliveries.empty)
                waiting = [run["deployment"] for run in standin.runs if run["state_type"] == "SCHEDULED"]
                assert sorted(waiting) == ["dam", "weir"]
                for run in standin.runs:
                    run["state_type"] = "COMPLETED"
