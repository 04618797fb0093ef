"""The paths of a source that trigger a sync: the paths that its connector lists, and the ignore files that it reads."""

from __future__ import annotations

import os
from typing import Protocol, cast

from catchment.runtime.home import Home
from connectors import connector_class
from connectors.local_files import FolderSettings


class _Connector(Protocol):
    def why_not(self, path: str) -> str | None: ...


class WatchRules(Protocol):
    """Which paths of a source matter. Paths are relative to the root, in the form that `os` functions return."""

    def watches(self, folder: str) -> bool:
        """Whether to watch a folder whose parent is watched."""
        ...

    def counts(self, path: str) -> bool:
        """Whether a change of this path can change the content of the source."""
        ...

    def decides(self, path: str) -> bool:
        """Whether a change of this path can include or exclude other files."""
        ...


class CloneRules:
    """The rules of a git clone. The root is its git directory: only commits matter."""

    def watches(self, folder: str) -> bool:
        """True for the folders in which git writes the references."""
        first, *rest = folder.split("/")
        return first == "reftable" or (first == "refs" and rest[:1] in ([], ["heads"])) or _is_worktree(first, rest)

    def counts(self, path: str) -> bool:
        """True for references. Git writes a `.lock` file and renames it."""
        folder, _, name = path.rpartition("/")
        if not folder or folder.startswith("worktrees/"):
            return name in ("HEAD", "packed-refs")
        return self.watches(folder) and not name.endswith(".lock")

    def decides(self, path: str) -> bool:  # noqa: ARG002 - required by the protocol
        """Always False."""
        return False


def _is_worktree(first: str, rest: list[str]) -> bool:
    return first == "worktrees" and len(rest) <= 1


class FolderRules:
    """The rules of a folder source. Ignore files are read again at every call, because they change."""

    def __init__(self, kind: str, settings: FolderSettings, home: Home) -> None:
        self._connector = cast(_Connector, connector_class(kind)(settings))
        self._ignore_files = {settings.ignore_file, ".gitignore" if getattr(settings, "gitignore", False) else None}
        own = os.path.relpath(os.path.realpath(home.path), os.path.realpath(settings.root))
        self._own_state = own + "/" if not own.startswith("..") else None

    def watches(self, folder: str) -> bool:
        """Whether the connector lists the folder and it is not Catchment's own state."""
        if self._is_own(folder):
            return False
        try:
            return self._connector.why_not(folder) is None
        except OSError:
            # A parent folder may not be entered. The sync reports the error.
            return True

    def counts(self, path: str) -> bool:
        """Whether the path is an ignore file, or listed by the connector."""
        return self.decides(path) or self.watches(path)

    def decides(self, path: str) -> bool:
        """Whether the path is an ignore file."""
        return path.rpartition("/")[2] in self._ignore_files

    def _is_own(self, path: str) -> bool:
        """Whether a path is in Catchment's own state. Each sync changes that state, and would trigger the next sync forever."""
        return self._own_state is not None and f"{path}/".startswith(self._own_state)
