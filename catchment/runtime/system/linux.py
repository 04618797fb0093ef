"""Calls of Linux, and their results on other systems. Calls for parser processes and inotify are in their packages."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

IS_LINUX: Final = sys.platform.startswith("linux")
BOOT_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The monotonic clock that includes time asleep; on other systems, the monotonic clock without it."""
PATH_ONLY: Final[int] = getattr(os, "O_PATH", os.O_RDONLY)
"""Flag to open a folder as a place only, without the right to list it."""
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15

Address = tuple[str, int]


# Processes


@cache
def boot_id() -> str | None:
    """Return the ID of the machine's boot; None if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None


@cache
def pid_namespace() -> str:
    """Return the name of the PID namespace, which differs between containers; empty without one."""
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]")
    return ""


def start_time(pid: int) -> str | None:
    """Return when a process started, in the system's unit; None if this is unknown. A zombie counts as ended.

    Raises ProcessLookupError.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        if Path("/proc/self").exists():
            raise ProcessLookupError(pid) from None
        return None
    fields = stat.rpartition(")")[2].split()
    if fields[0] in "ZX":
        raise ProcessLookupError(pid)
    return fields[19]


def die_with_parent() -> bool:
    """Have the system kill this process when its parent exits. Return whether the system can."""
    if IS_LINUX:
        _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return IS_LINUX


def name_process(name: str) -> None:
    """Set the name of this process in `top` and `ps -o comm`, at most 15 characters. No effect elsewhere."""
    if IS_LINUX:
        _libc().prctl(_PR_SET_NAME, name.encode())


def trim_memory() -> None:
    """Return freed memory to the system. The allocator of glibc would keep it for reuse; elsewhere no effect."""
    if (trim := getattr(_libc(), "malloc_trim", None)) is not None:
        trim(0)


# Files

_STATFS_SIZE, _STATX_SIZE = 512, 256
_STATX_BTIME = 0x800
_AT_FDCWD, _AT_SYMLINK_NOFOLLOW = -100, 0x100


def file_system(path: str | Path) -> int | None:
    """Return the magic number of the file system of a path (statfs(2)); None if unknown."""
    if not IS_LINUX:
        return None
    import ctypes

    answer = ctypes.create_string_buffer(_STATFS_SIZE)
    if _libc().statfs(os.fsencode(path), answer):
        return None
    # `f_type` is the first field, a long on every common Linux.
    return ctypes.c_long.from_buffer(answer).value & 0xFFFFFFFF


def birth_time(path: str, inode: int) -> int:
    """Return the creation time of a file in nanoseconds; 0 if unknown. On Linux, `os.stat` does not provide it."""
    import ctypes

    if (statx := getattr(_libc(), "statx", None)) is None:
        try:
            return int(getattr(os.lstat(path), "st_birthtime", 0) * 1_000_000_000)
        except OSError:
            return 0
    answer = ctypes.create_string_buffer(_STATX_SIZE)
    if statx(_AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, answer):
        return 0
    raw = memoryview(answer).cast("B")
    mask, present = int.from_bytes(raw[0:4], "little"), int.from_bytes(raw[32:40], "little")
    if not mask & _STATX_BTIME or present != inode:
        return 0
    seconds, nanoseconds = int.from_bytes(raw[80:88], "little", signed=True), int.from_bytes(raw[88:92], "little")
    return seconds * 1_000_000_000 + nanoseconds


def is_open_for_writing(handle: int) -> bool:
    """Return whether a process has a file open for writing; False if the system cannot determine it."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        # The system grants a read lease only if no process has the file open for writing. A process that opens the file during
        # the lease waits for its release; the signal about it, which would kill us by default, becomes SIGURG.
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        # Other errors mean that leases do not work here: a file of another user, or a file system without leases.
        return error.errno == errno.EAGAIN
    return False


# Sockets

_FAMILY, _PROTOCOL, _REQUEST, _BY_FAMILY = 16, 4, 1, 20
"""AF_NETLINK, NETLINK_SOCK_DIAG, NLM_F_REQUEST and SOCK_DIAG_BY_FAMILY; see sock_diag(7)."""
_HEADER, _QUERY, _SOCKET = struct.Struct("=IHHII"), struct.Struct("=BBBxI"), struct.Struct("!HH4s12x4s12x")
_ANY_INTERFACE = struct.pack("=I8s", 0, b"\xff" * 8)
_ALL_STATES = 0xFFFFFFFF
_OWNER = struct.Struct("=II")
_OWNER_AT = _HEADER.size + 4 + _SOCKET.size + len(_ANY_INTERFACE) + 12
_ANSWER_BYTES = 4096


def user_of_socket(source: Address, destination: Address) -> int | None:
    """Return the user ID of the process that has the socket of these addresses; None without such a process. Raises OSError."""
    ports, hosts = (source[1], destination[1]), (socket.inet_aton(source[0]), socket.inet_aton(destination[0]))
    query = _QUERY.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, _ALL_STATES) + _SOCKET.pack(*ports, *hosts)
    size = _HEADER.size + len(query) + len(_ANY_INTERFACE)
    with socket.socket(_FAMILY, socket.SOCK_RAW, _PROTOCOL) as kernel:
        kernel.send(_HEADER.pack(size, _BY_FAMILY, _REQUEST, 1, 0) + query + _ANY_INTERFACE)
        answer = kernel.recv(_ANSWER_BYTES)
    if _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    user, inode = _OWNER.unpack_from(answer, _OWNER_AT)
    # Without an inode, no process has the socket, and the kernel names root.
    return int(user) if inode else None


@cache
def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None)
