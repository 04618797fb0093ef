"""The running system as others see it: its address and its processes. Quick to import."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from catchment.runtime import atomic_files
from catchment.runtime.home import Home
from catchment.runtime.process import identity
from deployments.server.environment import auth_string

_PROBED_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Running:
    """A system that `up` keeps running. `pid` is the supervisor's, `started` aware UTC, `login` `user:password`.

    `stopping`: it was asked to end, which may take half a minute.
    """

    port: int
    pid: int
    started: datetime
    server_pid: int
    worker_pid: int
    login: str = field(repr=False)
    stopping: bool = False

    @property
    def url(self) -> str:
        """The address of the Prefect UI."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def api_url(self) -> str:
        """The address of the Prefect API."""
        return f"{self.url}/api"

    def run_url(self, run_id: str) -> str:
        """Where the Prefect UI shows a flow run."""
        return f"{self.url}/v2/runs/flow-run/{run_id}"


def running(home: Home) -> Running | None:
    """What runs for this home: the recorded system, if the supervisor that recorded it still holds the lock."""
    try:
        state = json.loads(state_file(home).read_text())
        if state.pop("identity") != holder(home):
            return None
        state.pop("folder", None)  # in files of earlier versions
        return Running(**{**state, "started": datetime.fromisoformat(state["started"])}, login=auth_string(home))
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        # A file of another version, or none: there is nothing that this program could talk to.
        return None


def starting(home: Home) -> str | None:
    """The identity of the supervisor that holds the lock of this home and is not ready yet; None without one.

    Empty if the supervisor has not written it yet.
    """
    return None if running(home) is not None else holder(home)


def transition(home: Home) -> str | None:
    """What `up` does while it does not serve: "starting" or "stopping". None if it serves, or nothing runs."""
    if (state := running(home)) is not None:
        return "stopping" if state.stopping else None
    return None if starting(home) is None else "starting"


def holder(home: Home) -> str | None:
    """The identity that the supervisor wrote into the lock file; None if no supervisor holds the lock.

    The lock is valid across PID namespaces, where a pid is not, and a copy of a home does not have it.
    """
    try:
        with lock_file(home).open(encoding="utf-8") as file:
            return None if _locked(file, fcntl.LOCK_SH) else file.read()
    except FileNotFoundError:
        return None


@contextmanager
def supervisor_lock(home: Home) -> Iterator[bool]:
    """Hold the lock of the home, with the identity of this process in it. False if another process has the lock.

    The system releases it when this process ends, in whatever way.
    """
    with _open_lock(home) as file:
        # `holder` takes the lock for a moment.
        deadline = time.monotonic() + _PROBED_SECONDS
        while not (is_held := _locked(file, fcntl.LOCK_EX)) and time.monotonic() < deadline:
            time.sleep(0.05)
        if is_held:
            file.truncate(0)
            file.write(identity())
            file.flush()
        yield is_held


@contextmanager
def kept_down(home: Home) -> Iterator[bool]:
    """Keep `up` from starting during the block. False if a supervisor holds the lock: the system runs or starts."""
    with _open_lock(home) as file:
        yield _locked(file, fcntl.LOCK_SH)


def _open_lock(home: Home) -> TextIO:
    # Opening must not empty it: another process may hold the lock.
    return open(lock_file(home), "a", opener=lambda path, flags: os.open(path, flags, 0o600), encoding="utf-8")


def _locked(file: TextIO, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def record(home: Home, state: Running) -> None:
    """Record what this process runs, for `running` to read; the process must hold the lock."""
    fields: dict[str, Any] = asdict(state) | {"started": state.started.isoformat(), "identity": identity()}
    del fields["login"]
    atomic_files.write(state_file(home), json.dumps(fields).encode())


def state_file(home: Home) -> Path:
    """The small file that `up` keeps while it runs."""
    return home.run / "up.json"


def lock_file(home: Home) -> Path:
    """The file that a supervisor holds a lock on as long as it lives, with its identity in it."""
    return home.run / "up.lock"


def ui_login(home: Home) -> str | None:
    """The file with the `user:password` that the Prefect UI asks for; None before the first `up`."""
    path = home.path / "ui-login"
    return str(path) if path.exists() else None
