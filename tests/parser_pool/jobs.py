"""Functions that the parser pool runs in these tests: well-behaved ones and every kind of accident."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from catchment.errors import ParseError, RateLimited
from catchment.parser_pool import keeping, progress

_mappings: list[mmap.mmap] = []
_kept: list[bytes] = []


def double(number: int) -> int:
    return number * 2


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def blob(data: bytes) -> bytes:
    return data + data[: len(data) // 2]


def misbehave(task: tuple[str, str]) -> str:
    """Add a byte to the task's file, then cause the accident of that name."""
    path, deed = task
    with Path(path).open("ab") as file:
        file.write(b".")
    accident = globals().get(f"_{deed}")
    return str(accident()) if accident else deed


def identify(_task: Any) -> int:
    return os.getpid()


def _raise() -> None:
    raise ValueError("the secret text of a note")


def _refuse() -> None:
    raise ParseError("it is not a PDF")


def _wait_for_host() -> None:
    raise RateLimited("api.example.org", 30)


def _hang() -> None:
    threading.Event().wait()


def _spin() -> None:
    while True:
        pass


def _swell() -> None:
    bytes(4 << 30)


def _swell_in_shared_memory() -> None:
    import mmap

    memory = mmap.mmap(-1, 1 << 30)
    for start in range(0, len(memory), 1 << 20):
        memory[start : start + (1 << 20)] = b"x" * (1 << 20)
    threading.Event().wait()


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _segfault() -> None:
    ctypes.string_at(0)


def _leave() -> None:
    os._exit(0)


def _exit_python() -> None:
    sys.exit(3)


def _close_everything() -> None:
    os.closerange(3, 256)


def _recurse() -> None:
    _recurse()


def _abort_for_memory() -> None:
    """Abort as a Rust library does when an allocation fails."""
    os.write(2, b"memory allocation of 4294967296 bytes failed\n")
    os.abort()


def return_a_lock(_task: Any) -> Any:
    return threading.Lock()


class Unreadable:
    """A result that can be pickled but not unpickled."""

    def __reduce__(self) -> Any:
        return (_raise, ())


def return_unreadable(_task: Any) -> Any:
    return Unreadable()


def large(size: int) -> bytes:
    return b"x" * size


def advance(seconds: float) -> str:
    """Work for this many seconds and report progress continuously."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        progress()
        time.sleep(0.01)
    return "done"


def announce(path: str) -> None:
    """Write the process ID, then block forever."""
    Path(path).write_text(str(os.getpid()))
    threading.Event().wait()


def surroundings(_task: Any) -> dict[str, Any]:
    os.write(1, b"x" * 1_000_000)
    os.write(2, b"x" * 1_000_000)
    mask = os.umask(0)
    return {
        "umask": mask,
        "stdin": sys.stdin.read() if sys.stdin else "",
        "environment": dict(os.environ),
        "adjustment": Path("/proc/self/oom_score_adj").read_text().strip(),
        "descriptors": sorted(str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.exists()),
        "prefect": [name for name in sys.modules if name.split(".")[0] in ("prefect", "sqlalchemy")],
    }


def crash_and_leave_a_child(path: str) -> None:
    """Start a process, write its ID to the file, and die."""
    child = os.fork()
    if child == 0:
        threading.Event().wait()
    Path(path).write_text(str(child))
    os._exit(7)


def _garble() -> None:
    for descriptor in range(3, 32):
        with contextlib.suppress(OSError):
            os.write(descriptor, b"this is not a message of a parser process")
    threading.Event().wait()


def grow(megabytes: int) -> int:
    return len(b"x" * (megabytes << 20)) >> 20


def keep(megabytes: int) -> int:
    """Keep memory for the tasks that follow, as of an open archive. Returns the process ID."""
    with keeping():
        _kept.append(b"x" * (megabytes << 20))
    time.sleep(0.03)  # after a shorter task, the memory is not looked at
    return os.getpid()


def map_file(path: str) -> int:
    """Map a file for the life of the process and read it, as a library is. Returns the process ID."""
    with Path(path).open("rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    _mappings.append(mapping)
    sum(mapping[:: mmap.PAGESIZE])
    time.sleep(0.03)  # after a shorter task, the memory is not looked at
    return os.getpid()


def mark_and_return_a_megabyte(path: str) -> bytes:
    Path(path).touch()
    return b"x" * (1 << 20)


def wait_for(path: str) -> int:
    """Create the file, wait until it is removed, and return the process ID."""
    Path(path).touch()
    while Path(path).exists():
        time.sleep(0.01)
    return os.getpid()


def main_module(_task: Any) -> str | None:
    return getattr(sys.modules["__main__"], "__file__", None)
