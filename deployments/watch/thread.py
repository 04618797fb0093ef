"""The watcher as a thread of the worker process: restarted after a crash, and stopped with the worker."""

from __future__ import annotations

import threading
from logging import Logger

from catchment.runtime.child_process import RestartPause
from catchment.runtime.home import Home
from catchment.runtime.watch_status import Watching, WatchReport, WatchState, read, write
from deployments.watch.changes import ChangedPaths
from deployments.watch.watcher import Watcher

_STOP_SECONDS = 5.0


class WatcherThread:
    """Runs one watcher at a time, and holds the changes that it recorded."""

    def __init__(self, home: Home, log: Logger) -> None:
        self.changes = ChangedPaths()
        self._home = home
        self._log = log
        self._watcher: Watcher | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def start(self) -> None:
        """Start the thread. Call once."""
        self._thread.start()

    def look(self) -> None:
        """Read the status of the sources that wait for a deployment again."""
        if self._watcher is not None:
            self._watcher.look()

    def stop(self) -> None:
        """Stop watching, and wait up to five seconds for the thread."""
        self._stopped.set()
        if self._watcher is not None:
            self._watcher.stop()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        for file in self._home.run.glob("dirty-*"):
            # Earlier versions kept the changed paths in files.
            file.unlink(missing_ok=True)
        pause = RestartPause()
        while not self._stopped.is_set():
            self._watcher = Watcher(self._home, self.changes, self._log.info)
            if self._stopped.is_set():
                break
            pause.begin()
            try:
                self._watcher.run()
            except Exception as error:  # noqa: BLE001 - a defect of the watcher must not stop the runs of this process
                self._log.error("The watcher crashed; it restarts in %.0f s", pause.died(), exc_info=error)
                self._report_crash(error)
                self._stopped.wait(pause.left)
        WatchReport.path(self._home).unlink(missing_ok=True)

    def _report_crash(self, error: Exception) -> None:
        remedy = "it restarts automatically, see `catchment logs worker`; until then the schedule finds changes"
        state = WatchState(Watching.LIMITED, f"the watcher crashed ({type(error).__name__})", remedy)
        # The log has the crash, too, if the disk is full or the home was removed.
        write(self._home, dict.fromkeys(read(self._home) or {}, state))
