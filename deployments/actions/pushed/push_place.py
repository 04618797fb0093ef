"""The documents of a source as a pushing program stores and follows them. All functions may be repeated."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from catchment.content import pushed_files
from catchment.errors import BadInput, NoConsent, NotFound, SkipReason
from catchment.model import JobState, RawContent, fingerprint
from catchment.runtime import atomic_files
from catchment.views.items import because
from connectors.folders.file import FileEntry
from connectors.pushed import Pushed
from deployments.actions.desk import Desk

if TYPE_CHECKING:
    from catchment.ledger import Ledger

_STATES: dict[JobState | None, str] = {
    JobState.QUARANTINED: "quarantined",
    JobState.SKIPPED: "skipped",
    # An undo took the document out.
    JobState.CANCELLED: "skipped",
}
PushPlace = Pushed
"""A source to which programs may push now, as `place` returns it."""


def place(desk: Desk, ledger: Ledger, source: str) -> PushPlace:
    """Return the connector of a source to which programs may push now.

    Raises NotFound, NoConsent, Refused on another host, or ConfigError.
    """
    connector = desk.connector_here(desk.entry(source))
    if not isinstance(connector, Pushed):
        raise NotFound(f"{source}: not a source of the kind pushed")
    if not ledger.consents.agreed(source):
        raise NoConsent(f"{source}: no consent given; run: catchment consent give {source}")
    # A withdrawal of the consent deleted it.
    connector.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    return connector


def store(source: PushPlace, key: str, raw: RawContent) -> bool:
    """Store a document durably. Return whether it differs from the present one.

    Raises BadInput, HomeUnavailable, and NotFound if the source was removed or its consent withdrawn meanwhile.
    """
    if len(raw.data) > source.max_bytes:
        raise BadInput(f"{raw.name}: larger than {source.max_bytes / 1e6:g} MB; see limits.max_mb of the source")
    if reason := source.why_not(pushed_files.locator(key)):
        raise BadInput(f"key: {reason}; choose another one")
    try:
        with atomic_files.explained():
            return pushed_files.put(source.root, key, raw)
    except FileNotFoundError:
        raise NotFound("the source was removed meanwhile") from None


def state(ledger: Ledger, name: str, source: PushPlace, key: str) -> dict[str, Any]:
    """Return the state of the present version of a document. Raises BadInput, NotFound without a file and a document."""
    locator, version = pushed_files.locator(key), None
    with suppress(FileNotFoundError):
        version = FileEntry.of(key, (source.root / locator).lstat()).fingerprint
    row = next((row for row in ledger.intake.find(locator, name) if row.locator == locator), None)
    document = row and row.document
    if version is None:
        if document is None:
            raise NotFound(f"{key}: no such document")
        return {"state": "removed", "document": document}
    if row is None or fingerprint(row.version) != version:
        return {"state": "waiting", "document": document}
    if row.job_state is JobState.SUCCEEDED or row.job_reason == SkipReason.UNCHANGED:
        return {"state": "ready", "document": document}
    return {
        "state": _STATES.get(row.job_state, "waiting"),
        "document": document,
        "reason": because(ledger, row, (), str),
    }
