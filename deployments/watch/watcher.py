"""The watcher's loop: connects the sources file, the watched sources, the clock and the server with the `Debounce`s."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection
from queue import Empty, SimpleQueue
from typing import Protocol

from watchdog.observers.inotify_c import InotifyFD

from catchment.errors import CatchmentError, TryAgain
from catchment.runtime.home import Home
from catchment.runtime.system.linux import BOOT_CLOCK
from catchment.runtime.watch_status import Watching, WatchState, read, write
from catchment.views.waits import without_consent
from connectors.local_files import FolderSettings
from deployments.sources.sources_file import SourceEntry, SourcesFile
from deployments.watch.changes import ChangedPaths
from deployments.watch.debounce import Debounce
from deployments.watch.inotify import open_inotify
from deployments.watch.rules import CloneRules, FolderRules
from deployments.watch.source import WatchedSource
from deployments.watch.sync_requests import Server
from deployments.watch.tree import Descriptor, WatchEvent

_CHECK = 5.0
"""Seconds between two checks of the sources file, the consents, the roots and the clock, which emit no events."""
_COMPLETE = 60.0
"""Seconds between two attempts to watch folders that exceeded a system limit."""
_FALLBACK = 900.0
"""Seconds between two full syncs of a watched source without a schedule; they find changes that the kernel did not report."""
_SLEPT = 2.0
_SERVER = ""
"""In place of a source's name: an event of the server's deployments."""
_AT_ONCE = 2_000
"""Events processed before the clock is read again."""

Announce = Callable[[str], None]


class Watched(Protocol):
    """A watched source: a folder, a mail account or a GitHub source. All times are of one monotonic clock."""

    entry: SourceEntry
    debounce: Debounce

    def check(self, now: float, descriptor: Callable[[], Descriptor]) -> None: ...
    def complete(self) -> None: ...
    def handle(self, now: float, event: str | WatchEvent) -> None: ...
    def rebuild(self, now: float) -> None: ...
    def close(self) -> None: ...
    def state(self) -> WatchState: ...


class Watcher:
    """Watches the sources of sources.yaml from `run` until `stop`, and records the changed paths in `changes`.

    `announce` receives lines for the log, without paths.
    """

    def __init__(
        self,
        home: Home,
        changes: ChangedPaths,
        announce: Announce,
        *,
        open_descriptor: Callable[[], Descriptor] | None = None,
    ) -> None:
        self._home = home
        self._changes = changes
        self._announce = announce
        self._open = open_descriptor or open_inotify
        self._descriptor: Descriptor | None = None
        self._server = Server(home)
        self._events: SimpleQueue[tuple[str, str | WatchEvent] | None] = SimpleQueue()
        self._sources: dict[str, Watched] = {}
        self._unwatchable: dict[str, WatchState] = {}
        self._closed: Collection[str] = ()
        """The sources without consent, which are not watched."""
        self._file: tuple[int, int, int] | None = None
        self._deployments: dict[str, str] | None = None
        self._reported: dict[str, WatchState] | None = None
        self._asleep = _asleep()
        self._check_at = 0.0
        self._complete_at = 0.0
        self._scanned: dict[str, float] = {}

    def stop(self) -> None:
        """Stop `run` soon. Thread-safe."""
        self._events.put(None)

    def look(self) -> None:
        """Read the status of the sources that wait for a deployment again, because one has changed. Thread-safe."""
        self._events.put((_SERVER, ""))

    def run(self) -> None:
        """Watch until `stop`."""
        if read(self._home) is None:
            # The first walk through a large folder takes long. Report before it, or the watcher appears to be missing.
            self._report()
        try:
            while self._take(self._wait()):
                now = time.monotonic()
                if now >= self._check_at:
                    self._check(now)
                for source in self._sources.values():
                    if source.debounce.needs_status(now):
                        self._request_sync(source)
                self._report()
        finally:
            for source in self._sources.values():
                source.close()
            if isinstance(self._descriptor, InotifyFD):
                self._descriptor.stop()
            self._server.close()

    def _wait(self) -> float:
        wakes = [source.debounce.wake_at() for source in self._sources.values()]
        return max(0.0, min([self._check_at, *wakes]) - time.monotonic())

    def _take(self, seconds: float) -> bool:
        """Process the queued events, waiting up to `seconds` for the first one. False if `stop` was called."""
        with contextlib.suppress(Empty):
            for count in range(_AT_ONCE):
                queued = self._events.get(timeout=seconds) if count == 0 else self._events.get_nowait()
                if queued is None:
                    return False
                name, event = queued
                if name == _SERVER:
                    for watched in self._sources.values():
                        watched.debounce.look(time.monotonic())
                if name not in self._closed and (source := self._sources.get(name)):
                    source.handle(time.monotonic(), event)
                    if isinstance(event, WatchEvent):
                        self._check_at = 0.0
        return True

    def _check(self, now: float) -> None:
        self._check_at = now + _CHECK
        self._reload()
        slept, self._asleep = _asleep() - self._asleep > _SLEPT, _asleep()
        complete = now >= self._complete_at
        if complete:
            self._complete_at = now + _COMPLETE
        self._drop_dead_descriptor()
        self._closed = without_consent(self._home, self._sources)
        for name, source in self._sources.items():
            if name in self._closed:
                source.close()
                continue
            source.check(now, self._opened)
            if slept:
                source.rebuild(now)
            elif complete and source.state().state is Watching.LIMITED:
                source.complete()
            if not source.entry.schedules and now >= self._scanned.setdefault(name, now) + _FALLBACK:
                self._scanned[name] = now
                source.rebuild(now)
        if self._deployments is None:
            self._ensure()

    def _drop_dead_descriptor(self) -> None:
        """Discard the inotify instance if the thread that reads it has died; the next check opens another."""
        if isinstance(self._descriptor, InotifyFD) and not self._descriptor.is_alive():
            self._announce("the watching thread died; watching restarts")
            for source in self._sources.values():
                source.close()
            self._descriptor = None

    def _opened(self) -> Descriptor:
        if self._descriptor is None:
            self._descriptor = self._open()
        return self._descriptor

    def _reload(self) -> None:
        """Read the sources file if it changed. An invalid file is ignored."""
        signature = _signature(self._home)
        if signature == self._file:
            return
        self._file = signature
        try:
            entries = SourcesFile.load(self._home.sources_file).entries
        except CatchmentError as error:
            self._announce(f"sources.yaml not applied, watching as before: {error}")
            return
        to_watch = {entry.name: entry for entry in entries if entry.watch}
        for name in [name for name, source in self._sources.items() if source.entry != to_watch.get(name)]:
            self._sources.pop(name).close()
            self._changes.forget(name)
        self._unwatchable = {}
        for name, entry in to_watch.items():
            if name not in self._sources:
                watched = self._watched(entry)
                if watched is None:
                    self._unwatchable[name] = _no_folder(entry)
                else:
                    self._sources[name] = watched
        self._deployments = None

    def _watched(self, entry: SourceEntry) -> Watched | None:
        """The watcher for a source of this kind; None if the kind cannot be watched."""
        notify = self._listener(entry.name)
        if isinstance(entry.settings, FolderSettings):
            rules = FolderRules(entry.kind, entry.settings, self._home)
            return WatchedSource(entry, entry.settings.root, rules, self._changes, notify)
        if entry.kind == "imap":
            # Imported here: it loads 10 MB that a watcher of folders does not need.
            from connectors.imap.settings import ImapSettings
            from deployments.watch.idle_source import WatchedMailbox

            assert isinstance(entry.settings, ImapSettings)
            return WatchedMailbox(entry, entry.settings, self._home, notify)
        if entry.kind == "github":
            from connectors.github.git.clone import store
            from connectors.github.settings import GitHubSettings
            from deployments.watch.webhook_source import WatchedHook

            assert isinstance(entry.settings, GitHubSettings)
            if entry.settings.clone is not None:
                return WatchedSource(entry, store(entry.settings.clone), CloneRules(), self._changes, notify)
            return WatchedHook(entry, self._home)
        return None

    def _listener(self, name: str) -> Callable[[str | WatchEvent], None]:
        return lambda event: self._events.put((name, event))

    def _request_sync(self, source: Watched) -> None:
        name = source.entry.name
        try:
            status = self._server.status(source.entry.kind, name)
            is_new = status.deployment is not None and (self._deployments or {}).get(name) != status.deployment
            emits = source.debounce.should_emit(time.monotonic(), status)
            if is_new or (emits and source.debounce.unanswered):
                # It was deployed after the automations were made, or its automation was deleted and answered no event.
                self._ensure()
            if emits:
                self._server.emit(name)
                source.debounce.emitted(time.monotonic(), status)
        except TryAgain:
            source.debounce.failed(time.monotonic())

    def _ensure(self) -> None:
        try:
            self._deployments = self._server.ensure([source.entry for source in self._sources.values()])
        except TryAgain:
            self._deployments = None

    def _report(self) -> None:
        watched = {name: source.state() for name, source in self._sources.items() if name not in self._closed}
        states = watched | self._unwatchable
        if states == self._reported:
            return
        if not write(self._home, states):
            # The disk is full, or the home is being removed. The next round writes the report.
            return
        for name, state in states.items():
            before = (self._reported or {}).get(name)
            if before is None or (before.state, before.reason) != (state.state, state.reason):
                self._announce(f"{name}: {state.state}" + (f": {state.reason}; {state.remedy}" if state.reason else ""))
        self._reported = states


def _no_folder(entry: SourceEntry) -> WatchState:
    return WatchState(Watching.LIMITED, f"{entry.kind} sources have no folder to watch", "add a schedule")


def _asleep() -> float:
    """Seconds that this machine has slept since its start; 0 if the system does not report it."""
    return time.clock_gettime(BOOT_CLOCK) - time.clock_gettime(time.CLOCK_MONOTONIC)


def _signature(home: Home) -> tuple[int, int, int] | None:
    try:
        status = home.sources_file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
