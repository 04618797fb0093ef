"""The backups in the home, and whether one is being made."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from catchment.runtime.home import Home
from catchment.runtime.reports.backup_status import BackupStatus


@dataclass(frozen=True, slots=True)
class BackupFile:
    """A backup, verified when it was made, and the time of that (aware UTC)."""

    file: Path
    size: int
    made: datetime


@dataclass(frozen=True, slots=True)
class BackupsView:
    """The latest backups in the home, newest first.

    Attributes:
        latest: The latest backup, also to another folder; None before the first one.
        is_running: Whether it is being made. If it is not and has no end, its process was killed.
    """

    files: tuple[BackupFile, ...]
    latest: BackupStatus | None
    is_running: bool


def backups(home: Home, *, most: int | None = 20) -> BackupsView:
    """Return the backups. `most`: maximum number of files."""
    files = []
    for file in home.backups.glob("*.db"):
        # It may be deleted meanwhile.
        with suppress(FileNotFoundError):
            status = file.stat()
            files.append(BackupFile(file, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC)))
    latest = BackupStatus.read(home)
    newest = sorted(files, key=lambda backup: backup.made, reverse=True)[:most]
    return BackupsView(tuple(newest), latest, latest is not None and latest.is_running)
