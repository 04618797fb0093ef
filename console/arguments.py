"""Values on the command line: durations, times, references to secrets, and the text form of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from catchment.errors import BadInput
from catchment.model import SYNC_FIGURES, duration, leaves
from catchment.runtime.home import expanded
from catchment.typed_settings import pair

Json = Annotated[bool, typer.Option("--json", "--ndjson", help="Print JSON for scripts; --ndjson: an object per line.")]
Why = Annotated[str, typer.Option("--reason", metavar="TEXT", help="A reason, recorded in the history.")]
Hosts = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="HOST[:PORT]", help="A further host that it may contact. Repeatable."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]

NOTHING: Final = "nothing to do"
LARGEST: Final = 2**63 - 1
"""The largest integer that the ledger can store."""

_SUMMARY: Final = (
    *("succeeded", "moved", "deleted", "held", "unchanged", "skipped", "retrying", "quarantined"),
    *("away", "decided", "left"),
)
_REFERENCES: Final = ("env:", "keyring:", "file:", "block:")


def length(text: str) -> timedelta:
    """Parse a duration: "90s", "15m", "2h", "30d", "4w". Raises BadInput."""
    delta = duration(text)
    if delta is None:
        raise BadInput(f"{text!r}: not a duration; examples: 15m, 2h, 30d")
    return delta


def end(text: str) -> datetime:
    """Return now plus a duration. Raises BadInput."""
    try:
        return datetime.now(UTC) + length(text)
    except OverflowError:
        raise BadInput(f"{text!r}: ends after the year 9999; use a shorter duration or omit the option") from None


def moment(text: str) -> datetime:
    """Parse a past time: a duration before now, or an ISO 8601 date or time (local unless it has a time zone)."""
    try:
        if ago := duration(text):
            return datetime.now(UTC) - ago
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadInput(f"{text!r}: not a time; examples: 2h, 7d, 2026-11-20, 2026-11-20T14:00") from None


Since = Annotated[
    datetime | None,
    typer.Option("--since", metavar="TIME", parser=moment, help="Only since a time: 30m, 2h, 7d, or a date."),
]


def secrets(assignments: Sequence[str]) -> dict[str, str]:
    """Parse `name=REF` pairs. A value that is not a secret reference is refused and never repeated in the message."""
    result = dict(map(pair, assignments))
    for name, reference in result.items():
        if not reference.startswith(_REFERENCES):
            forms = "env:VARIABLE, keyring:SERVICE/USER, file:PATH or block:NAME"
            raise BadInput(f"--secret {name}: not a secret reference; use {forms}")
    return {name: located(reference) for name, reference in result.items()}


def located(reference: str) -> str:
    """Make the path of a `file:` reference absolute: syncs run in another working directory."""
    scheme, _, location = reference.partition(":")
    path = expanded(Path(location))
    return f"file:{path.absolute()}" if scheme == "file" and location and not path.is_absolute() else reference


def summary(counts: Mapping[str, int], *, is_complete: bool = True) -> str:
    """Return the result of a sync in words: "3 added or updated, 1 moved". A complete one without changes: "nothing to do"."""
    if "undoes" in counts:
        return f"undid sync {counts['undoes']}"
    parts = [f"{counts[key]} {SYNC_FIGURES[key]}" for key in _SUMMARY if counts.get(key)]
    return ", ".join(parts) or (NOTHING if is_complete else "")


def flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in the form of `--set`: one value per dotted key, without unset ones."""
    return {
        key: ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
        for key, value in leaves(settings).items()
        if value is not None
    }
