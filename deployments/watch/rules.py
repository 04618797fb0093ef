"""Which paths of a source count: what its connector lists, and the files that decide what it lists."""

from __future__ import annotations

import os
from typing import Protocol, cast

from catchment.runtime.home import Home
from connectors import connector_class
from connectors.local_files import FolderSettings


class _Connector(Protocol):
    def why_not(self, path: str) -> str | None: ...


class WatchRules(Protocol):
    """Which paths below the root of a source matter. They are relative to it, as the system spells them."""

    def watches(self, folder: str) -> bool:
        """Whether a folder is to be watched, its own folder being so."""
        ...

    def counts(self, path: str) -> bool:
        """Whether a change of this path may change what the source has."""
        ...

    def decides(self, path: str) -> bool:
        """Whether with a change of this path other files become wanted or unwanted."""
        ...


class CloneRules:
    """The rules of a clone of a repository, whose root is where git keeps it: only what was committed matters."""

    def watches(self, folder: str) -> bool:
        """As `WatchRules.watches`: where git writes the names of commits."""
        first, *rest = folder.split("/")
        return first == "reftable" or (first == "refs" and rest[:1] in ([], ["heads"])) or _is_worktree(first, rest)

    def counts(self, path: str) -> bool:
        """As `WatchRules.counts`. Git writes beside a file and renames."""
        folder, _, name = path.rpartition("/")
        if not folder or folder.startswith("worktrees/"):
            return name in ("HEAD", "packed-refs")
        return self.watches(folder) and not name.endswith(".lock")

    def decides(self, path: str) -> bool:  # noqa: ARG002 - of the protocol
        """As `WatchRules.decides`: nothing does."""
        return False


def _is_worktree(first: str, rest: list[str]) -> bool:
    return first == "worktrees" and len(rest) <= 1


class FolderRules:
    """The rules of one source that is a folder. They are read from the disk at every question, as ignore files change."""

    def __init__(self, kind: str, settings: FolderSettings, home: Home) -> None:
        self._connector = cast(_Connector, connector_class(kind)(settings))
        self._ignore_files = {settings.ignore_file, ".gitignore" if getattr(settings, "gitignore", False) else None}
        own = os.path.relpath(os.path.realpath(home.path), os.path.realpath(settings.root))
        self._own_state = own + "/" if not own.startswith("..") else None

    def watches(self, folder: str) -> bool:
        """As `WatchRules.watches`."""
        if self._is_own(folder):
            return False
        try:
            return self._connector.why_not(folder) is None
        except OSError:
            # A folder on the way may not be entered. The sync says what that means.
            return True

    def counts(self, path: str) -> bool:
        """As `WatchRules.counts`."""
        return self.decides(path) or self.watches(path)

    def decides(self, path: str) -> bool:
        """As `WatchRules.decides`: ignore files do."""
        return path.rpartition("/")[2] in self._ignore_files

    def _is_own(self, path: str) -> bool:
        """Whether a path is in Catchment's own state: each sync changes that, and would lead to the next without end."""
        return self._own_state is not None and f"{path}/".startswith(self._own_state)
