"""An Obsidian vault: a folder tree with a `.obsidian` folder, whose notes are called after their files.

What a note means is not here: it is read like any other Markdown, links included, further on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import PurePath
from typing import ClassVar

from catchment.contracts import Known
from catchment.errors import BadInput, SourceUnavailable
from catchment.model import Change, Item, RawContent
from catchment.settings import Policy, Resources, SourceSettings
from connectors.folders.ignore import IgnoreRules
from connectors.folders.tree import FolderTree
from connectors.local_files import FOLDER_POLICY, FolderSettings, max_bytes

_MARKER = ".obsidian"
_POLICY = FOLDER_POLICY.model_copy(update={"resources": Resources(cores=0.4, memory_mb=512, at_once=8)})
# Obsidian shows these without their suffix; any other file it calls by its full name.
_CALLED_BY_STEM = frozenset({".md", ".canvas", ".base"})


class ObsidianSettings(FolderSettings):
    """The settings of a source of kind `obsidian`."""


class Obsidian:
    """The connector for an Obsidian vault.

    As in Obsidian, hidden folders (`.obsidian`, `.trash`) are no part of it. What Obsidian's own "Excluded files" names is:
    Obsidian only shows it less.
    """

    kind: ClassVar[str] = "obsidian"
    settings: ClassVar[type[SourceSettings]] = ObsidianSettings
    policy: ClassVar[Policy] = _POLICY
    fetch_in_parser: ClassVar[bool] = True

    def __init__(self, settings: ObsidianSettings) -> None:
        ignore_files = (settings.ignore_file,) if settings.ignore_file else ()
        self._tree = FolderTree(
            settings.root, IgnoreRules(exclude=settings.exclude, ignore_files=ignore_files), max_bytes(settings)
        )
        self._encoding = settings.encoding

    def probe(self) -> str:
        """As `Connector.probe`; a folder without `.obsidian` is BadInput."""
        self._tree.probe()
        if not self._is_vault():
            raise BadInput(
                f"{self._tree.name} has no {_MARKER} folder: open it once in Obsidian, or add it as local_files"
            )
        return f"{self._tree.name}: an Obsidian vault"

    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:
        """As `Connector.changes`. A vault that has lost its `.obsidian` folder is not listed: it may be half there."""
        self._check()
        return self._tree.changes(known, deep=deep)

    def changes_at(self, known: Known, paths: Collection[str]) -> Iterator[Change]:
        """As `Watchable.changes_at`; as `changes` where the vault has lost its `.obsidian` folder."""
        self._check()
        return self._tree.changes_at(known, paths)

    def fetch(self, item: Item) -> RawContent:
        """As `Connector.fetch`; the title is the one that Obsidian shows."""
        data, file = self._tree.read(item)
        name = PurePath(file.name)
        title = name.stem if name.suffix.lower() in _CALLED_BY_STEM else None
        metadata = {"vault": self._tree.name, "vault_id": self._vault_id}
        return RawContent(
            data, name=file.name, title=title, modified=file.modified, metadata=metadata, encoding=self._encoding
        )

    def vault_id(self) -> str:
        """An id that stays when the vault is renamed or moved on its disk, and tells it from a copy of it."""
        return hashlib.sha256(self._tree.identity().encode()).hexdigest()[:16]

    @cached_property
    def _vault_id(self) -> str:
        return self.vault_id()

    def why_not(self, path: str) -> str | None:
        """Why a path relative to the vault is not listed, for a person; None if no rule speaks against it."""
        return self._tree.why_not(path)

    def _check(self) -> None:
        self._tree.probe()
        if not self._is_vault():
            raise SourceUnavailable(
                f"{self._tree.name} has no {_MARKER} folder any more; nothing was changed: bring the vault back, "
                "open it once in Obsidian, or remove the source"
            )

    def _is_vault(self) -> bool:
        try:
            return (self._tree.root / _MARKER).is_dir()
        except OSError as error:
            raise self._tree.unavailable(error) from error
