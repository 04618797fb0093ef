"""The bundle for a bug report: versions, checks, incidents, metrics and logs, without names.

Secrets, addresses and paths are removed; names of sources, sinks, hosts, people and files and quoted words are replaced by
numbers, the same word by the same number. The name of a file may have spaces, so the words before it are replaced, too.
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
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path

from catchment.content.normalize.formats import UNKNOWN, media_type
from catchment.content.redaction import redact
from catchment.errors import BadInput, CatchmentError
from catchment.ledger import Incident, Ledger
from catchment.runtime import atomic_files
from catchment.runtime.home import Home
from catchment.telemetry.exposition import prometheus
from catchment.telemetry.incidents import Condition, ReasonCode
from catchment.views.telemetry.gauges import current
from connectors.child_program import LOGGED
from deployments.health import checks, doctor
from deployments.sources.sources_file import SourcesFile

_LOG_LINES = 2_000
_INCIDENTS = 200
_QUOTED = re.compile(r"(?<!\w)'[^'\n]*'(?!\w)|“[^”\n]*”")
_NAMED = re.compile(r"[^\s/:,;()\[\]<>\"']*[^\W\d][^\s/:,;()\[\]<>\"']*\.[A-Za-z][A-Za-z0-9]{0,11}\b")
_BETWEEN_MARKS = re.compile(r"[^:,;()\[\]<>\"'|/]+")
_OWN_WORDS = frozenset({"alerts.yaml", "sources.yaml", *ReasonCode})
_OF_CODE = re.compile(
    r"(?:assistant|catchment|connectors|console|deployments|flows|prefect|sqlalchemy|tasks|uvicorn|web)\."
)


class Mask:
    """Replaces names in texts. `names`: the known ones, with what they name, such as "source"."""

    def __init__(self, names: Mapping[str, str]) -> None:
        longest_first = sorted(filter(None, names), key=len, reverse=True)
        self._numbers = {name: f"{names[name]}-{number}" for number, name in enumerate(longest_first, 1)}
        choices = "|".join(map(re.escape, longest_first))
        self._known = re.compile(rf"(?<![\w-])(?:{choices})(?![\w-])") if choices else None
        self._words: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        """Return the text with its lines masked."""
        return "\n".join(map(self._line, text.splitlines()))

    def _line(self, line: str) -> str:
        line = redact(line)
        if self._known:
            line = self._known.sub(lambda match: self._numbers[match[0]], line)
        line = _QUOTED.sub(lambda match: self._word(match[0]), line)
        return _BETWEEN_MARKS.sub(lambda match: self._without_files(match[0]), line)

    def _without_files(self, text: str) -> str:
        end = max((match.end() for match in _NAMED.finditer(text) if _is_file(match[0])), default=0)
        start = len(text) - len(text.lstrip())
        return f"{text[:start]}{self._word(text[start:end])}{text[end:]}" if end else text

    def _word(self, word: str) -> str:
        return self._words.setdefault(word, f"<name {len(self._words) + 1}>")


def _is_file(word: str) -> bool:
    return media_type(b"", word) != UNKNOWN and word not in _OWN_WORDS and not _OF_CODE.match(word)


def contents(home: Home) -> dict[str, str]:
    """Return the files of the bundle by name. Runs the checks: up to ten seconds."""
    names: dict[str, str] = {}
    with suppress(CatchmentError):
        names |= dict.fromkeys((entry.name for entry in SourcesFile.load(home.sources_file).entries), "source")
    files = {"versions.txt": _versions()}
    findings = [*checks.examine(home), *doctor.examine(home)]
    with suppress(CatchmentError), closing(Ledger.inspect(home, read_only=True)) as ledger:
        names |= dict.fromkeys((bucket.key for bucket in ledger.pacing.buckets()), "host")
        names |= dict.fromkeys((host.name for host in ledger.hosts.all()), "host")
        names |= dict.fromkeys((sink.name for sink in ledger.outbox.all()), "sink")
        names |= dict.fromkeys((source.name for source in ledger.sources.all()), "source")
        files["metrics.txt"] = prometheus(current(ledger, home)).decode()
        known = [*ledger.incidents.open(), *ledger.incidents.closed(limit=_INCIDENTS).rows]
        names |= _subjects(known)
        names |= dict.fromkeys(((each.acknowledged_by or "").partition(":")[2] for each in known), "person")
        files["incidents.json"] = _json([asdict(_without_note(incident)) for incident in known])
    names |= _subjects(findings)
    files["health.json"] = _json([asdict(finding) for finding in findings])
    for log in sorted(home.logs.glob("*.log")):
        lines = log.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:]
        # What programs of sources write may name anything.
        files[f"logs/{log.name}"] = "\n".join(line for line in lines if LOGGED not in line)
    mask = Mask(names)
    return {name: text if name == "versions.txt" else mask(text) for name, text in files.items()}


def _subjects(rows: Iterable[Condition | Incident]) -> dict[str, str]:
    """Return the names in the subjects, with what they name. Their sources, sinks and hosts may be removed by now."""
    parts = (row.subject.partition(":") for row in rows)
    return {name: "host" if kind == "machine" else kind for kind, _, name in parts}


def _without_note(incident: Incident) -> Incident:
    """Return an incident without the text that a person typed."""
    timeline = tuple(each for each in incident.timeline if each.event != "acknowledged")
    return replace(incident, note=None, timeline=timeline)


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
