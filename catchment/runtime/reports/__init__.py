"""Reports: small JSON files in the home's `run` folder by which a process shares its state with others.

A report is a record, as `catchment.runtime.reports.record_json` reads and writes it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar, Self

from catchment.runtime import atomic_files
from catchment.runtime.home import Home
from catchment.runtime.reports.record_json import from_json, to_json


class ProcessReport:
    """Base of a report. `file` is its name in the `run` folder."""

    __slots__ = ()
    file: ClassVar[str]

    @classmethod
    def path(cls, home: Home) -> Path:
        """Return the path of the file."""
        return home.run / cls.file

    @classmethod
    def read(cls, home: Home) -> Self | None:
        """Return the latest report; None without a valid one, also if another version wrote it. Takes 0.1 ms."""
        try:
            report: Self = from_json(cls, json.loads(cls.path(home).read_bytes()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return report if report.is_valid else None

    @property
    def is_valid(self) -> bool:
        """Whether the report still holds, for example because its process is alive."""
        return True

    def write(self, home: Home) -> bool:
        """Replace the report, and return whether the disk took it. It is not flushed: a power cut ends its process, too."""
        try:
            atomic_files.write(self.path(home), to_json(self).encode(), flushed=False)
        except OSError:
            return False
        return True
