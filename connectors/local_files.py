"""Files of a folder. What is new, changed or gone is found by `connectors.folders.tree`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, field_validator

from catchment.contracts import Known
from catchment.errors import BadInput
from catchment.model import Change, Item, RawContent
from catchment.settings import FullPath, Home, Policy, Resources, RetryPolicy, SourceSettings, TextEncoding, expanded
from connectors.folders.ignore import IgnoreRules
from connectors.folders.tree import FolderTree

# What fails with a file is mostly over in seconds: it is being written, or a disk hiccups.
FOLDER_POLICY = Policy(
    retry=RetryPolicy(attempts=3, initial=5, maximum=60), resources=Resources(cores=0.3, memory_mb=512, at_once=8)
)
_MEGABYTE = 1_000_000


class FolderSettings(SourceSettings):
    """What every kind of source has that is a folder."""

    root: FullPath = Field(title="Folder", description="The folder to read, as a full path; ~ is your home")
    exclude: tuple[str, ...] = Field(
        (), title="Exclude", description="Patterns of what to leave out, written as in a .gitignore: *.tmp, /build/"
    )
    ignore_file: str | None = Field(
        ".catchmentignore",
        title="Ignore file",
        description="Files of this name, in any folder, hold patterns of what to leave out there",
        pattern=r"^\.[^/]+$",
    )
    encoding: TextEncoding | None = Field(
        None,
        title="Encoding",
        description="How text is written that is not in UTF-8 and names no encoding, such as windows-1251; else it is guessed",
    )

    @classmethod
    def located(cls, location: str) -> Mapping[str, Any]:
        """The folder of this path."""
        root = expanded(Path(location)).absolute()
        if not root.exists():
            raise BadInput(f"{root.name!r} is not there; correct the path, or mount its disk first")
        if root.resolve().is_relative_to(Home.default().path.resolve()):
            raise BadInput(
                f"{root.name!r} is Catchment's own state, which each sync changes; name a folder outside of it"
            )
        return {"root": root}

    @field_validator("exclude", "include", check_fields=False)
    @classmethod
    def _patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                IgnoreRules(exclude=(pattern,)).top()
            except ValueError:
                raise ValueError(f"{pattern!r} is not a pattern; write it as in a .gitignore") from None
        return patterns


class LocalFilesSettings(FolderSettings):
    """The settings of a source of kind `local_files`."""

    include: tuple[str, ...] = Field(
        (), title="Include", description="Patterns of the files that are wanted, such as *.md; none means all files"
    )
    gitignore: bool = Field(True, title="Heed .gitignore", description="Leave out what the .gitignore files leave out")
    hidden: bool = Field(False, title="Hidden files", description="Read files and folders whose name begins with a dot")
    follow_symlinks: bool = Field(
        False, title="Follow links", description="Follow symbolic links that stay inside the folder; others never"
    )


def max_bytes(settings: FolderSettings) -> int:
    """The size up to which a file is read."""
    return int(settings.policy(FOLDER_POLICY).limits.max_mb * _MEGABYTE)


class LocalFiles:
    """The connector for the files of a folder."""

    kind: ClassVar[str] = "local_files"
    settings: ClassVar[type[SourceSettings]] = LocalFilesSettings
    policy: ClassVar[Policy] = FOLDER_POLICY
    fetch_in_parser: ClassVar[bool] = True

    def __init__(self, settings: LocalFilesSettings) -> None:
        names = (".gitignore" if settings.gitignore else None, settings.ignore_file)
        ignore_files = tuple(name for name in names if name)
        rules = IgnoreRules(settings.include, settings.exclude, ignore_files, settings.hidden)
        self._tree = FolderTree(settings.root, rules, max_bytes(settings), settings.follow_symlinks)
        self._encoding = settings.encoding

    def probe(self) -> str:
        """As `Connector.probe`."""
        count = self._tree.probe()
        return f"{self._tree.name}: a folder with {count} entr{'y' if count == 1 else 'ies'} at the top"

    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:
        """As `Connector.changes`."""
        return self._tree.changes(known, deep=deep)

    def changes_at(self, known: Known, paths: Collection[str]) -> Iterator[Change]:
        """As `Watchable.changes_at`. A link that is followed leads to what may have changed elsewhere: then all is compared."""
        return self.changes(known) if self._tree.follow_links else self._tree.changes_at(known, paths)

    def fetch(self, item: Item) -> RawContent:
        """As `Connector.fetch`."""
        data, file = self._tree.read(item)
        return RawContent(data, name=file.name, modified=file.modified, encoding=self._encoding)

    def why_not(self, path: str) -> str | None:
        """Why a path relative to the root is not listed, for a person; None if no rule speaks against it."""
        return self._tree.why_not(path)
