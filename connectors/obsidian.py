"""The connector for Obsidian vaults: folders that contain `.obsidian`, with notes titled by their file names.

Notes are parsed like other Markdown, links included, in `catchment.content`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import ClassVar

from catchment.contracts import Known, Manifest
from catchment.errors import SourceInvalid, SourceUnavailable
from catchment.model import Change, RawContent
from catchment.settings import SourceSettings
from connectors.folders.file import FileEntry
from connectors.local_files import FolderConnector, FolderSettings

_MARKER = ".obsidian"
# Obsidian shows these files without their suffix, other files with it.
_CALLED_BY_STEM = frozenset({".md", ".canvas", ".base"})


class ObsidianSettings(FolderSettings):
    """Settings of an `obsidian` source."""


class Obsidian(FolderConnector):
    """The connector for an Obsidian vault.

    As in Obsidian, hidden folders (`.obsidian`, `.trash`) are excluded. Obsidian's own "Excluded files" setting is
    ignored: those files are still part of the vault, only less prominent in its search.
    """

    kind: ClassVar[str] = "obsidian"
    manifest: ClassVar[Manifest] = Manifest(
        "Obsidian vault",
        "an Obsidian vault",
        "Obsidian",
        "Vault: path of its folder",
        "~/Vault",
        is_watched=True,
        level="gold",
    )
    settings: ClassVar[type[SourceSettings]] = ObsidianSettings

    def probe(self) -> str:
        """Check that the vault can be read. Raises SourceInvalid for a folder without `.obsidian`."""
        self._tree.probe()
        if not self._is_vault():
            raise SourceInvalid(
                f"{self._tree.name}: no {_MARKER} folder; open it once in Obsidian, or add it as local_files"
            )
        return f"{self._tree.name}: Obsidian vault"

    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:
        """Yield the changes. Raises SourceUnavailable if `.obsidian` is missing: the vault may be incomplete."""
        self._check()
        return super().changes(known, deep=deep)

    def changes_at(self, known: Known, paths: Collection[str]) -> Iterator[Change]:
        """Yield the changes at the given paths. Raises as `changes` does."""
        self._check()
        return super().changes_at(known, paths)

    def _described(self, file: FileEntry) -> RawContent:
        """Return a file without its content; the title is the one shown by Obsidian."""
        name = PurePath(file.name)
        title = name.stem if name.suffix.lower() in _CALLED_BY_STEM else None
        metadata = {"vault": self._tree.name, "vault_id": self.vault_id()}
        return replace(super()._described(file), title=title, metadata=metadata)

    def vault_id(self) -> str:
        """Return an id that survives renames and moves of the vault on the same disk, and differs for a copy."""
        return hashlib.sha256(self._tree.identity().encode()).hexdigest()[:16]

    def _check(self) -> None:
        self._tree.probe()
        if not self._is_vault():
            raise SourceUnavailable(
                f"{self._tree.name}: its {_MARKER} folder is missing, nothing was changed; restore the vault, "
                "open it once in Obsidian, or remove the source"
            )

    def _is_vault(self) -> bool:
        try:
            return (self._tree.root / _MARKER).is_dir()
        except OSError as error:
            raise self._tree.unavailable(error) from error
