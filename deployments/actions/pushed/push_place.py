"""The documents of a source as a pushing program stores, removes and follows them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catchment.content import pushed_files
from catchment.errors import BadInput, NoConsent, NotFound
from catchment.model import JobState, RawContent, fingerprint
from catchment.runtime import atomic_files
from connectors.folders.file import FileEntry
from connectors.pushed import Pushed, PushedSettings
from deployments.actions.desk import Desk
from deployments.actions.pushed.tokens import PushToken

if TYPE_CHECKING:
    from catchment.ledger import Ledger

_STATES = {JobState.SUCCEEDED: "ready", JobState.QUARANTINED: "quarantined", JobState.SKIPPED: "skipped"}


@dataclass(frozen=True, slots=True)
class PushPlace:
    """The source of a token, which may be read now. `read_until`: when its last good sync began.

    All methods may be repeated.
    """

    source: str
    max_bytes: int
    read_until: datetime | None
    _root: Path
    _connector: Pushed
    _ledger: Ledger

    @classmethod
    def of(cls, desk: Desk, ledger: Ledger, token: PushToken) -> PushPlace:
        """Return the place of a token. Raises NotFound, NoConsent, Refused on another host, or ConfigError."""
        entry = desk.entry(token.source)
        connector, settings = desk.connector_here(entry), entry.settings
        if not isinstance(connector, Pushed) or not isinstance(settings, PushedSettings):
            raise NotFound(f"{token.source}: not a source of the kind pushed any more")
        if not ledger.consents.agreed(token.source):
            raise NoConsent(f"{token.source}: no consent given; run: catchment consent give {token.source}")
        last = ledger.syncs.last_good(ledger.sources.get(token.source).id)
        max_bytes = settings.policy(Pushed.policy).limits.max_bytes
        return cls(token.source, max_bytes, last.began if last else None, settings.root, connector, ledger)

    def put(self, key: str, raw: RawContent) -> dict[str, Any]:
        """Store a document durably. Return its state, and whether it `changed`. Raises BadInput, HomeUnavailable."""
        if reason := self._connector.why_not(pushed_files.locator(key)):
            raise BadInput(f"key: {reason}; choose another one")
        with atomic_files.explained():
            changed = pushed_files.put(self._root, key, raw)
        return {**({"state": "waiting"} if changed else self.state(key)), "changed": changed}

    def remove(self, key: str) -> bool:
        """Remove a document. Return whether it was there. Raises HomeUnavailable."""
        with atomic_files.explained():
            return pushed_files.remove(self._root, key)

    def state(self, key: str) -> dict[str, Any]:
        """Return the state of the present version of a document. Raises NotFound without a file and a document."""
        locator, version = pushed_files.locator(key), None
        with suppress(FileNotFoundError):
            version = FileEntry.of(key, (self._root / locator).lstat()).fingerprint
        rows = self._ledger.intake.find(locator, self.source)
        row = next((row for row in rows if row.locator == locator), None)
        if version is None:
            if row is None or row.document is None:
                raise NotFound(f"{key}: no such document")
            return {"state": "removed", "document": row.document}
        if row is None or fingerprint(row.version) != version or row.job_state not in _STATES:
            return {"state": "waiting", "document": row and row.document}
        return {"state": _STATES[row.job_state], "document": row.document, "reason": row.job_reason}
