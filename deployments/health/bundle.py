"""The bundle for a bug report: versions, checks, incidents, metrics and logs, without names.

Secrets, addresses and paths are removed; names of sources and files and quoted words are replaced by numbers, the same word by
the same number.
"""

from __future__ import annotations

import io
import json
import platform
import re
import sqlite3
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path

from catchment.content.normalize.formats import UNKNOWN, media_type
from catchment.content.redaction import redact
from catchment.errors import BadInput, CatchmentError
from catchment.ledger import Ledger
from catchment.runtime import atomic_files
from catchment.runtime.home import Home
from catchment.telemetry.exposition import prometheus
from catchment.views.telemetry.gauges import current
from deployments.health import checks, doctor
from deployments.sources.sources_file import SourcesFile

_LOG_LINES = 2_000
_INCIDENTS = 200
_QUOTED = re.compile(r"(?<!\w)'[^'\n]*'(?!\w)|“[^”\n]*”")
_NAMED = re.compile(r"[^\s/:,;()\[\]<>\"']*[^\W\d][^\s/:,;()\[\]<>\"']*\.[A-Za-z][A-Za-z0-9]{0,11}\b")
_OF_CODE = re.compile(
    r"(?:assistant|catchment|connectors|console|deployments|flows|prefect|sqlalchemy|tasks|uvicorn|web)\."
)


class Mask:
    """Replaces names in texts. `sources`: the names of the sources."""

    def __init__(self, sources: Iterable[str]) -> None:
        names = sorted(sources, key=len, reverse=True)
        self._numbers = {name: f"source-{number}" for number, name in enumerate(names, 1)}
        self._sources = (
            re.compile(r"(?<![\w-])(?:" + "|".join(map(re.escape, names)) + r")(?![\w-])") if names else None
        )
        self._words: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        """Return the text with its lines masked."""
        return "\n".join(map(self._line, text.splitlines()))

    def _line(self, line: str) -> str:
        line = redact(line)
        if self._sources:
            line = self._sources.sub(lambda match: self._numbers[match[0]], line)
        line = _QUOTED.sub(lambda match: self._word(match[0]), line)
        return _NAMED.sub(lambda match: self._word(match[0]) if _is_file(match[0]) else match[0], line)

    def _word(self, word: str) -> str:
        return self._words.setdefault(word, f"<name {len(self._words) + 1}>")


def _is_file(word: str) -> bool:
    return media_type(b"", word) != UNKNOWN and not _OF_CODE.match(word)


def contents(home: Home) -> dict[str, str]:
    """Return the files of the bundle by name. Runs the checks: up to ten seconds."""
    names: set[str] = set()
    with suppress(CatchmentError):
        names |= {entry.name for entry in SourcesFile.load(home.sources_file).entries}
    files = {"versions.txt": _versions()}
    findings = [*checks.examine(home), *doctor.examine(home)]
    with suppress(CatchmentError), closing(Ledger.inspect(home, read_only=True)) as ledger:
        names |= {source.name for source in ledger.sources.all()}
        files["metrics.txt"] = prometheus(current(ledger, home)).decode()
        known = [*ledger.incidents.open(), *ledger.incidents.closed(limit=_INCIDENTS).rows]
        files["incidents.json"] = _json([asdict(incident) for incident in known])
    files["health.json"] = _json([asdict(finding) for finding in findings])
    for log in sorted(home.logs.glob("*.log")):
        lines = log.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:]
        files[f"logs/{log.name}"] = "\n".join(lines)
    mask = Mask(names)
    return {name: text if name in ("versions.txt", "metrics.txt") else mask(text) for name, text in files.items()}


def write(file: Path, files: Mapping[str, str]) -> None:
    """Write the files into a new zip archive. Raises BadInput if it exists, and HomeUnavailable."""
    require_free(file)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for name, text in files.items():
            target.writestr(name, text)
    with atomic_files.explained():
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_files.write(file, archive.getvalue())


def require_free(file: Path) -> None:
    """Raise BadInput if the file exists."""
    if file.exists():
        raise BadInput(f"{file}: exists already; choose another name")


def _versions() -> str:
    packages = sorted(f"{package.name} {package.version}" for package in distributions())
    system = [f"Python {platform.python_version()}", f"SQLite {sqlite3.sqlite_version}", platform.platform()]
    return "\n".join([f"made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC", *system, "", *packages])


def _json(rows: object) -> str:
    return json.dumps(rows, indent=1, default=str, ensure_ascii=False)
