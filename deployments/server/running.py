"""The record of the running system: its address and its processes, for other processes. Quick to import."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from catchment.errors import Refused, TryAgain
from catchment.runtime import atomic_files
from catchment.runtime.home import Home
from catchment.runtime.membership import Membership
from catchment.runtime.process import identity, is_local
from deployments.server.environment import auth_string, authorities

_PROBED_SECONDS = 0.2
ELSEWHERE = "Catchment runs in another container"


@dataclass(frozen=True, slots=True)
class Running:
    """A system that `up` keeps running. `pid` is the supervisor's; `started` is aware UTC; `login` is `user:password`.

    `stopping`: a stop was requested; it may take half a minute. `page_port`: of the web page; 0 in a record of a version
    without it. `is_elsewhere`: it runs in another container, where this process can reach neither its ports nor its processes.
    `listen`, `host`: the address beyond this machine that the page also listens on, and its host there; empty without.
    `server`, `authorities`: the address of the server that a joined host uses, and the file of the authorities that it
    trusts; empty for the home's own server, which is on the loopback interface.
    """

    port: int
    pid: int
    started: datetime
    server_pid: int
    worker_pid: int
    login: str = field(repr=False)
    stopping: bool = False
    page_port: int = 0
    is_elsewhere: bool = False
    listen: str = ""
    host: str = ""
    server: str = ""
    authorities: str = ""

    @property
    def page_url(self) -> str:
        """The address of the web page."""
        return f"http://{self.host or f'127.0.0.1:{self.page_port}'}"

    @property
    def url(self) -> str:
        """The address of the Prefect UI."""
        return self.server or f"http://127.0.0.1:{self.port}"

    @property
    def api_url(self) -> str:
        """The address of the Prefect API."""
        return f"{self.url}/api"

    def run_url(self, run_id: str) -> str:
        """Where the Prefect UI shows a flow run."""
        return f"{self.url}/v2/runs/flow-run/{run_id}"


def running(home: Home) -> Running | None:
    """Return the recorded system of this home if the supervisor that recorded it still holds the lock."""
    try:
        state = json.loads(state_file(home).read_text())
        if (name := state.pop("identity")) != holder(home):
            return None
        state.pop("folder", None)  # in files of earlier versions
        read = {"started": datetime.fromisoformat(state["started"]), "is_elsewhere": not is_local(name)}
        return Running(**{**state, **read}, login=auth_string(home))
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        # The file is missing, or was written by an incompatible version.
        return None


def shared_server(home: Home, membership: Membership) -> Running:
    """Return the access of a command to the server of all hosts, also while this host is stopped."""
    now = datetime.now(UTC)
    return Running(0, 0, now, 0, 0, auth_string(home), server=membership.server, authorities=authorities(home))


def starting(home: Home) -> str | None:
    """Return the identity of the supervisor that holds the lock of this home but is not ready yet; None without one.

    Empty if the supervisor has not written its identity yet.
    """
    return None if running(home) is not None else holder(home)


def transition(home: Home) -> str | None:
    """Return "starting" or "stopping" while `up` does not serve; None if it serves, or no system is running."""
    if (state := running(home)) is not None:
        return "stopping" if state.stopping else None
    return None if starting(home) is None else "starting"


def require_running(home: Home) -> Running:
    """Return the running system. Raises TryAgain if none runs here or it starts or stops, Refused if it runs elsewhere."""
    if changes := transition(home):
        raise TryAgain(f"still {changes}; try again in a minute")
    if server := running(home):
        if server.is_elsewhere:
            raise Refused(f"{ELSEWHERE}; run the command there")
        return server
    raise TryAgain("not running; start Catchment with `catchment up --detach`")


def holder(home: Home) -> str | None:
    """Return the identity that the supervisor wrote to the lock file; None if no supervisor holds the lock.

    The lock works across PID namespaces, where pids differ, and a copied home does not have it.
    """
    try:
        with lock_file(home).open(encoding="utf-8") as file:
            return None if _locked(file, fcntl.LOCK_SH) else file.read()
    except FileNotFoundError:
        return None


@contextmanager
def supervisor_lock(home: Home) -> Iterator[bool]:
    """Hold the lock of the home, with the identity of this process. Yields False if another process has the lock.

    The system releases the lock when this process exits.
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
def kept_down(home: Home, command: str) -> Iterator[None]:
    """Keep `up` from starting during the block. Raises Refused if a supervisor holds the lock: the system runs or starts."""
    with _open_lock(home) as file:
        if not _locked(file, fcntl.LOCK_SH):
            raise Refused(f"{command}: not possible while Catchment runs; stop it with `catchment down`")
        yield


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
    """Write the record that `running` reads. This process must hold the lock."""
    fields: dict[str, Any] = asdict(state) | {"started": state.started.isoformat(), "identity": identity()}
    del fields["login"], fields["is_elsewhere"]
    atomic_files.write(state_file(home), json.dumps(fields).encode())


def state_file(home: Home) -> Path:
    """The file with the record, which exists while `up` runs."""
    return home.run / "up.json"


def lock_file(home: Home) -> Path:
    """The file that a supervisor locks during its life, with its identity."""
    return home.run / "up.lock"


def ui_login(home: Home) -> str | None:
    """The file with the `user:password` of the Prefect UI; None before the first `up`, and in a joined host."""
    path = home.path / "ui-login"
    return str(path) if path.exists() and Membership.of(home) is None else None
