"""A clone on this machine, as it is: what was committed there, read without any network and without writing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from catchment.errors import BadInput, SourceUnavailable
from connectors.folders.file import to_locator
from connectors.github.git.git import SECONDS, Objects, commit_of, store_of


def store(clone: Path) -> Path:
    """The folder in which git keeps what is committed in a clone, whether that is there or not."""
    inner = clone / ".git"
    try:
        if inner.is_file():
            # One of several work trees: git knows where it keeps what they share.
            return store_of(inner).parent
        return clone if (clone / "HEAD").is_file() and not inner.exists() else inner
    except (OSError, SourceUnavailable):
        return inner


class Clone:
    """A folder with a repository in it, or a bare one. `empty` is a folder of our own; `seconds` limits each git."""

    def __init__(self, folder: Path, empty: Path, seconds: float = SECONDS) -> None:
        self._folder = folder
        self._empty = empty
        self._seconds = seconds

    @property
    def name(self) -> str:
        """What to call it in a message, which must not hold a full path."""
        return to_locator(self._folder.name)

    @cached_property
    def objects(self) -> Objects:
        """What is in it. Raises as `heads` does."""
        return Objects(store_of(self._directory(), self._seconds), self._empty, self._seconds)

    def heads(self, branches: Sequence[str]) -> Mapping[str, str]:
        """The newest commits: of these branches, or of what is checked out, under the name "". An unborn one is left out.

        Raises SourceUnavailable for a folder that is not there, and BadInput for one without a repository.
        """
        directory = self._directory()
        names = {branch: f"refs/heads/{branch}" for branch in branches} or {"": "HEAD"}
        found = {label: commit_of(directory, name, self._seconds) for label, name in names.items()}
        return {label: commit for label, commit in found.items() if commit is not None}

    def identity(self) -> str:
        """Which folder this is: its file system and its inode. Raises as `heads` does."""
        self._directory()
        return f"{os.statvfs(self._folder).f_fsid:x}.{self._folder.stat().st_ino:x}"

    def describe(self) -> str:
        """What it is, in one line. Raises as `heads` does."""
        commit = self.heads(()).get("")
        return f"{self.name}: a clone, {f'at {commit[:10]}' if commit else 'in which nothing is committed yet'}"

    def is_whole(self) -> bool:
        """What is missing in it only its owner knows."""
        return True

    def check(self) -> None:
        """Raises as `heads` does."""
        self._directory()

    def distrust(self) -> None:
        """What is missing in it only its owner can bring back."""

    def close(self) -> None:
        """End what reads it, if anything does."""
        if "objects" in vars(self):
            self.objects.close()

    def _directory(self) -> Path:
        try:
            if (inner := self._folder / ".git").exists():
                return inner
            if (self._folder / "HEAD").is_file() and (self._folder / "objects").is_dir():
                return self._folder
            present = self._folder.is_dir()
        except PermissionError:
            raise SourceUnavailable(f"the clone {self.name!r} may not be read; give the right to the user") from None
        except OSError as error:
            what = os.strerror(error.errno or 0)
            raise SourceUnavailable(f"the clone {self.name!r} cannot be read ({what}); check its disk") from error
        if present:
            raise BadInput(f"{self.name!r} is no clone of a repository; give the folder that has .git in it")
        raise SourceUnavailable(
            f"the clone {self.name!r} is not there; mount its disk, or correct `clone` of the source"
        )
