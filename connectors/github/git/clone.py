"""A local clone: its commits, read without network access and without writing to it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from catchment.errors import SourceInvalid, SourceUnavailable
from connectors.folders.file import to_locator
from connectors.github.git.git import SECONDS, object_store, resolve_commit, share_history
from connectors.github.git.objects import Objects


def store(clone: Path) -> Path:
    """Return the folder with the git data of a clone, whether or not it exists."""
    inner = clone / ".git"
    try:
        if inner.is_file():
            # A linked work tree: its shared data is elsewhere.
            return object_store(inner).parent
        return clone if (clone / "HEAD").is_file() and not inner.exists() else inner
    except (OSError, SourceUnavailable):
        return inner


class Clone:
    """A folder that contains a repository, or a bare one.

    `empty` is a folder of ours; `seconds` limits each git command.
    """

    def __init__(self, folder: Path, empty: Path, seconds: float = SECONDS) -> None:
        self._folder = folder
        self._empty = empty
        self._seconds = seconds

    @property
    def name(self) -> str:
        """The clone's name for messages, which must not contain full paths."""
        return to_locator(self._folder.name)

    @cached_property
    def objects(self) -> Objects:
        """The objects of the clone. Raises as `heads` does."""
        return Objects(object_store(self._directory(), self._seconds), self._empty, self._seconds)

    def heads(self, branches: Sequence[str]) -> Mapping[str, str]:
        """Return the latest commit of each branch, or of the checked-out one under the name "". Branches without
        commits are omitted.

        Raises SourceUnavailable if the folder is missing, and SourceInvalid if it contains no repository.
        """
        directory = self._directory()
        names = {branch: f"refs/heads/{branch}" for branch in branches} or {"": "HEAD"}
        commits = {label: resolve_commit(directory, name, self._seconds) for label, name in names.items()}
        return {label: commit for label, commit in commits.items() if commit is not None}

    def shares_history(self, old: str, new: str) -> bool:
        """Return whether two commits are known to have a common ancestor."""
        return share_history(self._directory(), old, new, self._seconds)

    def identity(self) -> str:
        """Return a string that identifies the folder: its file system and inode. Raises as `heads` does."""
        self._directory()
        return f"{os.statvfs(self._folder).f_fsid:x}.{self._folder.stat().st_ino:x}"

    def describe(self) -> str:
        """Describe the clone in one line. Raises as `heads` does."""
        commit = self.heads(()).get("")
        return f"{self.name}: clone {f'at {commit[:10]}' if commit else 'without commits'}"

    def is_complete(self) -> bool:
        """Return True: only the owner of a clone can repair it."""
        return True

    def mark_damaged(self) -> None:
        """Raise as `heads` does if the clone is missing. Any other damage can only be repaired by its owner."""
        self._directory()

    def close(self) -> None:
        """End the git process that reads objects, if there is one."""
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
            raise SourceUnavailable(
                f"clone {self.name!r}: permission denied; grant read access to the user that runs Catchment"
            ) from None
        except OSError as error:
            what = os.strerror(error.errno or 0)
            raise SourceUnavailable(f"clone {self.name!r}: read error ({what}); check its disk") from error
        if present:
            raise SourceInvalid(f"{self.name!r}: not a clone of a repository; choose the folder that contains .git")
        raise SourceUnavailable(f"clone {self.name!r}: not found; mount its disk, or correct `clone` of the source")
