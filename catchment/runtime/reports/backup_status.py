"""The latest backup, in a file: it takes minutes with a large library, and any process may make it or ask about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from catchment.runtime.process import alive
from catchment.runtime.reports import ProcessReport


@dataclass(frozen=True, slots=True)
class BackupStatus(ProcessReport):
    """The latest backup.

    Attributes:
        process: Identity of the process that makes it.
        ended: None until it is complete, failed or interrupted.
        problem: Why it failed, or the first violated invariant of the copy; empty if there is none.
        is_complete: Whether there is a complete file.
    """

    file: ClassVar = "backup.json"
    process: str
    began: datetime
    ended: datetime | None = None
    problem: str = ""
    is_complete: bool = False

    @property
    def is_running(self) -> bool:
        """Whether it is being made now."""
        return self.ended is None and alive(self.process)
