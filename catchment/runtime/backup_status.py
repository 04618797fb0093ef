"""The latest backup, in a file: it takes minutes with a large library, and any process may make it or ask about it."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from catchment.runtime import atomic_files
from catchment.runtime.home import Home
from catchment.runtime.process import alive

FILE = "backup.json"


@dataclass(frozen=True, slots=True)
class BackupStatus:
    """The latest backup.

    Attributes:
        process: Identity of the process that makes it.
        ended: None until it is complete, failed or interrupted.
        problem: Why it failed, or the first violated invariant of the copy; empty if there is none.
        is_complete: Whether there is a complete file.
    """

    process: str
    began: datetime
    ended: datetime | None = None
    problem: str = ""
    is_complete: bool = False

    @property
    def is_running(self) -> bool:
        """Whether it is being made now."""
        return self.ended is None and alive(self.process)

    @classmethod
    def read(cls, home: Home) -> BackupStatus | None:
        """Return the status; None before the first backup."""
        try:
            fields = json.loads(_path(home).read_bytes())
            ended = fields["ended"] and datetime.fromisoformat(fields["ended"])
            return cls(**{**fields, "began": datetime.fromisoformat(fields["began"]), "ended": ended})
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            # Written by another version.
            return None

    def write(self, home: Home) -> None:
        """Replace the status. A full disk is ignored: the backup may be on another one."""
        with suppress(OSError):
            atomic_files.write(_path(home), json.dumps(asdict(self), default=datetime.isoformat).encode())


def _path(home: Home) -> Path:
    return home.run / FILE
