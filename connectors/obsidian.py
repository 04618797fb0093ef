"""The connector for Obsidian vaults: folders that contain `.obsidian`, with notes titled by their file names.

Notes are parsed like other Markdown, links included, in `catchment.content`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import PurePath
from typing import ClassVar

from catchment.contracts import Known
from catchment.errors import SourceInvalid, SourceUnavailable
from catchment.model import Change, Item, RawContent
from catchment.settings import Policy, SourceSettings
from connectors.folders import diff, path_diff
from connectors.folders.ignore import IgnoreRules
from connectors.folders.tree import FolderTree
from connectors.local_files import FOLDER_POLICY, FolderSettings, max_bytes

_MARKER = ".obsidian"
_POLICY = FOLDER_POLICY.model_copy(update={"at_once": 8})
# Obsidian shows these files without their suffix, other files with it.
_CALLED_BY_STEM = frozenset({".md", ".canvas", ".base"})


class ObsidianSettings(FolderSettings):
    """Settings of an `obsidian` source."""


class Obsidian:
    """The connector for an Obsidian vault.

    As in Obsidian, hidden folders (`.obsidian`, `.trash`) are excluded. Obsidian's own "Excluded files" setting is
    ignored: those files are still part of the vault, only less prominent in its search.
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
        return diff.changes(self._tree, known, deep=deep)

    def changes_at(self, known: Known, paths: Collection[str]) -> Iterator[Change]:
        """Yield the changes at the given paths. Raises as `changes` does."""
        self._check()
        return path_diff.changes_at(self._tree, known, paths)

    def still_there(self, places: Mapping[str, str], roots: Mapping[str, str]) -> set[str]:
        return self._tree.still_there(places, roots)

    def fetch(self, item: Item) -> RawContent:
        """Read a file; the title is the one shown by Obsidian."""
        data, file = self._tree.read(item)
        name = PurePath(file.name)
        title = name.stem if name.suffix.lower() in _CALLED_BY_STEM else None
        metadata = {"vault": self._tree.name, "vault_id": self._vault_id}
        return RawContent(
            data, name=file.name, title=title, modified=file.modified, metadata=metadata, encoding=self._encoding
        )

    def vault_id(self) -> str:
        """Return an id that survives renames and moves of the vault on the same disk, and differs for a copy."""
        return hashlib.sha256(self._tree.identity().encode()).hexdigest()[:16]

    @cached_property
    def _vault_id(self) -> str:
        return self.vault_id()

    def why_not(self, path: str) -> str | None:
        """Return why a path relative to the vault is excluded, as a phrase for messages; None if it is included."""
        return self._tree.why_not(path)

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
