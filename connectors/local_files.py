"""The connector for files in a folder. The work is done in `connectors.folders`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, ClassVar

from pydantic import Field

from catchment.contracts import Known, Manifest
from catchment.errors import BadInput
from catchment.model import Change, Item, RawContent
from catchment.settings import FullPath, Home, Policy, RetryPolicy, SourceSettings, TextEncoding, expanded
from connectors.folders.diff import Comparison
from connectors.folders.file import FileEntry, read_all, to_locator
from connectors.folders.ignore import IgnoreRules, PatternList
from connectors.folders.path_diff import PathComparison
from connectors.folders.tree import FolderTree


class FolderSettings(SourceSettings):
    """The settings shared by all kinds of source that read a folder."""

    identity: ClassVar[tuple[str, ...]] = ("root",)
    root: FullPath = Field(title="Folder", description="Full path of the folder; ~ is your home")
    exclude: PatternList = Field(
        (), title="Exclude", description="Patterns of files to exclude, as in a .gitignore: *.tmp, /build/"
    )
    ignore_file: str | None = Field(
        ".catchmentignore",
        title="Ignore file",
        description="Name of the files, in any folder, with patterns of files to exclude there",
        pattern=r"^\.[^/]+$",
    )
    encoding: TextEncoding | None = Field(
        None,
        title="Encoding",
        description="Encoding of text that is not UTF-8 and declares none, such as windows-1251; default: detected",
    )

    @classmethod
    def located(cls, location: str) -> Mapping[str, Any]:
        """Return the settings for a folder's path.

        Raises BadInput if it does not exist or contains Catchment's own state.
        """
        root = expanded(Path(location)).absolute()
        if not root.exists():
            raise BadInput(f"{root.name!r}: not found; correct the path, or mount its disk first")
        if root.resolve().is_relative_to(Home.default().path.resolve()):
            raise BadInput(f"{root.name!r}: Catchment's own state, which every sync changes; choose another folder")
        return {"root": root}

    def locator_of(self, file: Path) -> str | None:
        for root in (self.root, self.root.resolve()):
            if file.is_relative_to(root):
                return to_locator(file.relative_to(root).as_posix())
        return None


class LocalFilesSettings(FolderSettings):
    """Settings of a `local_files` source."""

    include: PatternList = Field(
        (), title="Include", description="Patterns of files to include, such as *.md; none includes all files"
    )
    gitignore: bool = Field(True, title="Use .gitignore", description="Exclude the files that .gitignore files exclude")
    hidden: bool = Field(
        False, title="Hidden files", description="Include files and folders whose names start with a dot"
    )
    follow_symlinks: bool = Field(
        False, title="Follow links", description="Follow symbolic links that stay inside the folder"
    )


class FolderConnector:
    """What the connectors for folders have in common: they compare and read the files of a tree."""

    policy: ClassVar[Policy] = Policy(retry=RetryPolicy(attempts=3, initial=5, maximum=60), at_once=8)
    """File errors usually end within seconds: the file is being written, or a disk hiccups. With 30 s, a second run would be
    needed."""
    fetch_in_parser: ClassVar[bool] = True

    def __init__(
        self, settings: FolderSettings, rules: IgnoreRules | None = None, *, follow_links: bool = False
    ) -> None:
        if rules is None:
            ignore_files = (settings.ignore_file,) if settings.ignore_file else ()
            rules = IgnoreRules(exclude=settings.exclude, ignore_files=ignore_files)
        self._tree = FolderTree(settings.root, rules, settings.policy(self.policy).limits.max_bytes, follow_links)
        self._encoding = settings.encoding

    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:
        yield from Comparison(self._tree, known, deep=deep).changes()

    def changes_at(self, known: Known, paths: Collection[str]) -> Iterator[Change]:
        yield from PathComparison(self._tree, known, paths).changes()

    def still_there(self, places: Mapping[str, str], roots: Mapping[str, str]) -> set[str]:
        return self._tree.still_there(places, roots)

    def fetch(self, item: Item) -> RawContent:
        """Read a file."""
        with self._tree.opened(item) as (handle, file):
            return replace(self._described(file), data=read_all(handle, file.size))

    @contextmanager
    def opened(self, item: Item) -> Iterator[tuple[RawContent, IO[bytes]]]:
        """Open a file, to read a part of it."""
        with self._tree.opened(item) as (handle, file), os.fdopen(os.dup(handle), "rb") as opened:
            yield self._described(file), opened

    def why_not_inside(self, item: Item) -> Callable[[str], str | None]:
        """Return a function that tells why a file inside of a file is excluded."""
        return self._tree.why_not_inside(item)

    def _described(self, file: FileEntry) -> RawContent:
        return RawContent(b"", file.name, modified=file.modified, encoding=self._encoding)

    def why_not(self, path: str) -> str | None:
        """Return why a path relative to the root is excluded, as a phrase for messages; None if it is included."""
        return self._tree.why_not(path)


class LocalFiles(FolderConnector):
    """The connector for files in a folder."""

    kind: ClassVar[str] = "local_files"
    manifest: ClassVar[Manifest] = Manifest(
        "Folder with files",
        "a folder of files",
        "folder",
        "Folder: its path on this machine",
        "~/Documents",
        is_watched=True,
        level="gold",
    )
    settings: ClassVar[type[SourceSettings]] = LocalFilesSettings

    def __init__(self, settings: LocalFilesSettings) -> None:
        names = (".gitignore" if settings.gitignore else None, settings.ignore_file)
        ignore_files = tuple(name for name in names if name)
        rules = IgnoreRules(settings.include, settings.exclude, ignore_files, settings.hidden)
        super().__init__(settings, rules, follow_links=settings.follow_symlinks)

    def probe(self) -> str:
        count = self._tree.probe()
        return f"{self._tree.name}: folder with {count} entr{'y' if count == 1 else 'ies'} at the top"

    def changes_at(self, known: Known, paths: Collection[str]) -> Iterator[Change]:
        """Compare the given paths; all files if links are followed, because changes may then appear elsewhere."""
        return self.changes(known) if self._tree.follow_links else super().changes_at(known, paths)
