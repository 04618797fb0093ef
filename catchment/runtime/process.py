"""Process identities that stay unique although the system reuses pids, and across containers."""

from __future__ import annotations

import fcntl
import getpass
import os
from contextlib import suppress
from pathlib import Path

from catchment.runtime.system import linux


def identity(pid: int | None = None) -> str:
    """Return a name that no later process will have: boot ID, PID namespace, pid, start time. Raises ProcessLookupError."""
    pid = os.getpid() if pid is None else pid
    return f"{boot()}-{linux.pid_namespace()}:{pid}:{_started(pid)}"


def alive(name: str) -> bool:
    """Return whether the process with this identity is still running.

    A process in another container counts as running while any process of that container has announced itself in the home of
    this process: pids have no meaning here.
    """
    place, _, rest = name.partition(":")
    pid, _, started = rest.partition(":")
    if place.partition("-")[0] != boot() or not pid.isdigit():
        return False
    if not is_local(name):
        return _is_inhabited(place.partition("-")[2])
    try:
        return _started(int(pid)) == started
    except ProcessLookupError:
        return False


OPERATOR = "operator"
"""Beginning of the names of people in the history."""
IN_PREFECT = "prefect"
"""The name in the history for actions in the Prefect UI."""


def operator() -> str:
    """Return the name of the current user as the history records it."""
    try:
        return f"{OPERATOR}:{getpass.getuser()}"
    except (KeyError, OSError):
        return OPERATOR


def pid_of(name: str) -> int:
    """Return the pid in an identity."""
    return int(name.split(":")[1])


def place_of(name: str) -> str:
    """Return the boot and the PID namespace in an identity."""
    return name.partition(":")[0]


def is_local(name: str) -> bool:
    """Return whether the process was started in this container, or this machine, since its last boot."""
    # Earlier versions recorded no namespace.
    return name.partition(":")[0] in (f"{boot()}-{linux.pid_namespace()}", boot())


class _Census:
    """The folder in which a locked file for each PID namespace shows that processes are alive there."""

    folder: Path | None = None
    announced: tuple[Path, int] | None = None


def look_in(folder: Path) -> None:
    """Look for processes of other containers in this folder, which they share."""
    _Census.folder = folder


def announce_in(folder: Path) -> None:
    """Let other containers see, until this process exits, that processes of this one are alive. Idempotent."""
    look_in(folder)
    if _Census.announced is not None and _Census.announced[0] == folder:
        return
    # On a disk without locks, or a full disk, other containers do not see this one. All else works.
    with suppress(OSError):
        file = os.open(_census_file(linux.pid_namespace()), os.O_RDONLY | os.O_CREAT, 0o600)
        fcntl.flock(file, fcntl.LOCK_SH)
        if _Census.announced is not None:
            os.close(_Census.announced[1])
        _Census.announced = folder, file


def _is_inhabited(namespace: str) -> bool:
    with suppress(FileNotFoundError):
        file = os.open(_census_file(namespace), os.O_RDONLY)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
    return False


def _census_file(namespace: str) -> Path:
    return (_Census.folder or Path()) / f"alive-{namespace}.lock"


def boot() -> str:
    """Return the ID of the machine's boot."""
    return (linux.boot_id() or "-")[:8]


def _started(pid: int) -> str:
    """Return the start time in the system's unit. A zombie counts as ended. Raises ProcessLookupError."""
    if (started := linux.start_time(pid)) is not None:
        return started
    import psutil

    try:
        return f"{psutil.Process(pid).create_time():.3f}"
    except psutil.NoSuchProcess:
        raise ProcessLookupError(pid) from None


def memory_of_tree(pid: int) -> int:
    """Return the bytes of resident memory of a process and all below it; 0 if it has ended."""
    import psutil

    try:
        process = psutil.Process(pid)
        return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))
    except psutil.Error:
        return 0


def kill_in_environment(name: str, value: str) -> None:
    """Kill all processes with this variable in their environment."""
    import psutil

    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(name) == value:
                process.kill()
