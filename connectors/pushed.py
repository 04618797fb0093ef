"""The connector for documents that programs push: a folder of the home, into which the web process writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from catchment.content import pushed_files
from catchment.contracts import Manifest
from catchment.model import RawContent
from catchment.settings import FullPath, Home, Limits, Policy, SourceName, SourceSettings
from connectors.folders.file import FileEntry
from connectors.local_files import FolderConnector, FolderSettings


class PushedSettings(FolderSettings):
    """Settings of a `pushed` source. `root` follows from the home and `folder`, so that the home can be moved."""

    identity: ClassVar[tuple[str, ...]] = ("folder", "root")
    folder: SourceName = Field(title="Folder", description="Name of the source, and of its folder in the home")
    max_gb: float = Field(10, gt=0, title="Size", description="Gigabytes that all of its documents may take")
    root: SkipJsonSchema[FullPath] = Field(Path("/"), exclude=True, description="Its folder in the home")

    @classmethod
    def located(cls, location: str) -> Mapping[str, Any]:
        """Return the settings for the name of a source."""
        return {"folder": location}

    @model_validator(mode="before")
    @classmethod
    def _rooted(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        return {**values, "root": Home.default().pushed / str(values.get("folder"))}


class Pushed(FolderConnector):
    """The connector for pushed documents."""

    kind: ClassVar[str] = "pushed"
    manifest: ClassVar[Manifest] = Manifest(
        "Pushed documents",
        "pushed documents",
        "pushed",
        "Pushed documents: NAME of the source",
        "clips",
        is_watched=True,
        level="gold",
        exempt={"moves": "a program that pushes knows a document by its key alone"},
    )
    settings: ClassVar[type[SourceSettings]] = PushedSettings
    policy: ClassVar[Policy] = FolderConnector.policy.model_copy(update={"limits": Limits(max_mb=50)})
    """The web process has a document in memory while it arrives."""

    def __init__(self, settings: PushedSettings) -> None:
        super().__init__(settings)
        self.root, self.max_bytes = settings.root, settings.policy(self.policy).limits.max_bytes
        self.most_bytes = settings.max_gb * 1e9

    def probe(self) -> str:
        self._tree.probe()
        return f"{self._tree.name}: documents that programs push"

    def _described(self, file: FileEntry) -> RawContent:
        raw = pushed_files.described(self.root, file.name)
        return replace(raw, modified=raw.modified or file.modified, encoding=raw.encoding or self._encoding)
