"""What changed at a source since a sync last took note: the watcher says it in a small file at home, a sync takes it away.

It is a hint. A sync that has none compares the whole source, and so does one that nobody's watching led to.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from catchment.runtime import atomic_files
from catchment.runtime.home import Home


@dataclass(frozen=True, slots=True)
class Dirty:
    """The `paths` that changed, relative to the root and spelled as `os` does; None: anything may have.

    `quiet_at` is the monotonic second at which they are taken to be written, if nothing more happens.
    """

    paths: frozenset[str] | None
    quiet_at: float


class DirtyFile:
    """The file of one source; not flushed to the disk, for a watcher that begins says that anything may have changed."""

    def __init__(self, home: Home, source: str) -> None:
        self._path = str(home.run / f"dirty-{source}.json")

    def read(self) -> Dirty | None:
        """What is to be taken note of; None where that is nothing."""
        return _read(self._path)

    def take(self) -> Dirty | None:
        """As `read`; whatever changes from now on is told anew. Raises HomeUnavailable."""
        taken = f"{self._path}.taken"
        with atomic_files.explained(), contextlib.suppress(FileNotFoundError):
            Path(self._path).rename(taken)
            return _read(taken)
        return None

    def is_taken(self) -> bool:
        """Whether a sync has taken note of all that was told."""
        return not os.path.exists(self._path)  # noqa: PTH110 - asked for each of thousands of changes

    def tell(self, dirty: Dirty) -> None:
        """Replace what was told before; whoever reads sees either the old or the new."""
        new = f"{self._path}.new"
        paths = None if dirty.paths is None else sorted(dirty.paths)
        with open(new, "w", encoding="ascii", opener=_for_the_owner) as file:
            json.dump({"paths": paths, "quiet_at": dirty.quiet_at}, file)
        Path(new).replace(self._path)

    def forget(self) -> None:
        """Leave nothing of what was told; may be called again."""
        for ending in ("", ".taken", ".new"):
            Path(f"{self._path}{ending}").unlink(missing_ok=True)


def _read(path: str) -> Dirty | None:
    try:
        said = json.loads(Path(path).read_bytes())
        return Dirty(None if said["paths"] is None else frozenset(said["paths"]), float(said["quiet_at"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        # Of another version, or what a power cut left.
        return None


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
