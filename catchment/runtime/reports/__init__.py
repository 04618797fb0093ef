"""Reports: small JSON files in the home's `run` folder by which a process tells others its state.

A report is a frozen dataclass of plain values, times, names of an enumeration, and dataclasses, tuples and mappings of these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Self, get_args, get_origin, get_type_hints

from catchment.runtime import atomic_files
from catchment.runtime.home import Home


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
            report: Self = _decoded(cls, json.loads(cls.path(home).read_bytes()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return report if report.is_valid else None

    @property
    def is_valid(self) -> bool:
        """Whether the report still holds, for example because its process is alive."""
        return True

    def write(self, home: Home) -> bool:
        """Replace the report, and return whether the disk took it. It is not flushed: a power cut ends its process, too."""
        content = json.dumps(asdict(self), default=datetime.isoformat)  # type: ignore[call-overload]
        try:
            atomic_files.write(self.path(home), content.encode(), flushed=False)
        except OSError:
            return False
        return True


def _decoded(hint: Any, value: Any) -> Any:
    arguments, origin = get_args(hint), get_origin(hint)
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{name: _decoded(hints[name], item) for name, item in value.items()})  # type: ignore[operator]
    if origin is tuple:
        return tuple(_decoded(arguments[0], item) for item in value)
    if origin is Mapping:
        return {name: _decoded(arguments[1], item) for name, item in value.items()}
    if arguments:
        # A value, or None.
        return None if value is None else _decoded(arguments[0], value)
    if hint is datetime:
        return datetime.fromisoformat(value)
    if issubclass(hint, StrEnum):
        return hint(value)
    if not isinstance(value, (int, float) if hint is float else hint):
        raise TypeError(value)
    return value
