"""A folder of scans as a source, and the recognition of their text as its process does it, in this process."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Mapping
from contextlib import closing, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from catchment.ledger import Ledger
from catchment.settings import Home, Limits, SourceSettings
from connectors.local_files import LocalFilesSettings
from deployments.ocr import __main__ as process
from tests.documents import document_named
from tests.engine.papers import Papers
from tests.pictures.scans import scanned

LIMITS = Limits(stall_seconds=15, total_seconds=60, memory_mb=512)


class ScannedPapers(Papers):
    """Papers whose pages are recognized."""

    def scan(self, name: str, *pages: str) -> Path:
        """Write a scan of pages as a PDF."""
        file = self.folder / name
        file.write_bytes(scanned(*pages))
        return file

    def recognize(self) -> list[dict[str, Any]]:
        """Recognize the waiting pages, and return what the run is told. Raises what ends the process."""
        return recognize(self.home, self.folder)

    def work(self) -> None:
        """Sync, recognize the pages, and read them again."""
        self.sync()
        self.recognize()
        self.sync()

    def warnings(self, name: str) -> tuple[str, ...]:
        return document_named(self.ledger, name).content.warnings

    def problems(self) -> dict[str, str]:
        """Return the reasons of the items in quarantine."""
        return {entry.item: entry.message for entry in self.ledger.quarantine.page("papers").rows}


def recognize(home: Home, folder: Path) -> list[dict[str, Any]]:
    """Recognize the waiting pages of the source `papers` in a folder. Returns what the run is told."""
    settings: Mapping[str, SourceSettings] = {"papers": LocalFilesSettings(root=folder)}
    told = io.StringIO()
    permitted = patch.object(sys, "stdin", io.StringIO("\n" * 10_000))
    configured = patch.multiple(process, _LIMITS=LIMITS, _settings=lambda: settings)
    at_home = patch.dict(os.environ, CATCHMENT_HOME=str(home.path))
    with redirect_stdout(told), permitted, configured, at_home, closing(Ledger.inspect(home)) as ledger:
        process.recognize(ledger)
    return [json.loads(line) for line in told.getvalue().splitlines()]
