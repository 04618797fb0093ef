"""The running system as others see it: its address and its processes. Quick to import."""

from __future__ import annotations

import fcntl
import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from catchment.runtime import atomic_files
from catchment.runtime.home import Home
from catchment.runtime.process import alive
from deployments.server.environment import auth_string


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
    """What runs for this home, decided by whether its supervisor lives and not by what a file says.

    The file may have come from elsewhere: in a copy of a home it tells of what runs for the other one.
    """
    try:
        state = json.loads(state_file(home).read_text())
        if state.pop("folder") != _folder(home) or not alive(str(state.pop("identity"))):
            return None
        return Running(**{**state, "started": datetime.fromisoformat(state["started"])}, login=auth_string(home))
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        # A file of another version, or none: there is nothing that this program could talk to.
        return None


def starting(home: Home) -> str | None:
    """The identity of the supervisor that holds the lock of this home and has not said yet that all is up; None without one.

    Empty of one that has not said who it is.
    """
    if running(home) is not None:
        return None
    try:
        with lock_file(home).open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return said if alive(said := file.read()) else ""
    except FileNotFoundError:
        pass
    return None


def record(home: Home, state: Running, identity: str) -> None:
    """Say what runs, for `running` to read."""
    fields: dict[str, Any] = asdict(state) | {"started": state.started.isoformat(), "identity": identity}
    fields["folder"] = _folder(home)
    del fields["login"]
    atomic_files.write(state_file(home), json.dumps(fields).encode())


def state_file(home: Home) -> Path:
    """The small file that `up` keeps while it runs."""
    return home.run / "up.json"


def lock_file(home: Home) -> Path:
    """The file that a supervisor holds a lock on as long as it lives, with its identity in it."""
    return home.run / "up.lock"


def _folder(home: Home) -> str:
    """What a home keeps when it is moved, and its copy does not have."""
    found = home.path.stat()
    return f"{found.st_dev}:{found.st_ino}"


def ui_login(home: Home) -> str | None:
    """The file with the `user:password` that the Prefect UI asks for; None before the first `up`."""
    path = home.path / "ui-login"
    return str(path) if path.exists() else None
