"""Which paths of a source count: what its connector lists, and the files that decide what it lists."""

from __future__ import annotations

import os
from typing import Protocol, cast

from catchment.home import Home
from connectors import connector_class
from connectors.local_files import FolderSettings


class _Connector(Protocol):
    def why_not(self, path: str) -> str | None: ...


class Rules:
    """The rules of one source that is a folder. They are read from the disk at every question, as ignore files change."""

    def __init__(self, kind: str, settings: FolderSettings, home: Home) -> None:
        self._connector = cast(_Connector, connector_class(kind)(settings))
        self._ignore_files = {settings.ignore_file, ".gitignore" if getattr(settings, "gitignore", False) else None}
        own = os.path.relpath(os.path.realpath(home.path), os.path.realpath(settings.root))
        self._own_state = own + "/" if not own.startswith("..") else None

    def watches(self, folder: str) -> bool:
        """Whether a folder is to be watched, its own folder being so."""
        if self._is_own(folder):
            return False
        try:
            return self._connector.why_not(folder) is None
        except OSError:
            # A folder on the way may not be entered. The sync says what that means.
            return True

    def counts(self, path: str) -> bool:
        """Whether a change of this path may change what the source has."""
        return self.decides(path) or self.watches(path)

    def decides(self, path: str) -> bool:
        """Whether a path is an ignore file: with it, other files become wanted or unwanted."""
        return path.rpartition("/")[2] in self._ignore_files

    def _is_own(self, path: str) -> bool:
        """Whether a path is in Catchment's own state: each sync changes that, and would lead to the next without end."""
        return self._own_state is not None and f"{path}/".startswith(self._own_state)
