"""The disk under a folder: whether it is a network disk, and whether another disk was mounted in its place."""

from __future__ import annotations

from pathlib import Path

from catchment.runtime.system.linux import file_system

# Magic numbers of statfs(2), for file systems on which another computer can change files without an inotify event.
_NETWORK = {
    0x6969: "NFS",
    0x517B: "SMB",
    0xFF534D42: "SMB",
    0xFE534D42: "SMB",
    0x5346414F: "AFS",
    0x6B414653: "AFS",
    0x00C36400: "Ceph",
    0x01021997: "9P",
    0x786F4256: "a folder shared with this virtual machine",
    0x65735546: "FUSE",
    0x73757245: "Coda",
    0x47504653: "GPFS",
    0x0BD00BD0: "Lustre",
}


def network_disk(path: Path) -> str | None:
    """Return the name of the network file system of a path, or of its first parent that exists; None for a local one.

    None also if the system does not report it.
    """
    kinds = map(file_system, (path, *path.parents))
    return _NETWORK.get(next((kind for kind in kinds if kind is not None), 0))


def same_disk(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a folder, which change when another one takes its path. None if there is no folder."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if path.is_dir() else None
