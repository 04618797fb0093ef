"""The pairs of acts that write the same rows or files, and which.

A pair is ordered: the second act starts at a step of the first. Each pair writes rows or files of the other act, and the order
of these writes changes the result: two acts decide about the same documents, about the same jobs, about the file of the
ledger, about the key and its checkpoints, or about the copies at a sink. Pairs whose acts only append to the history (a
signing beside a sync) are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.pairs.acts import ACTS, Act
from tests.pairs.office import State


@dataclass(frozen=True, slots=True)
class Pair:
    """Two acts, the state in which they begin, and the tables and files that both write."""

    first: str
    second: str
    shared: str
    state: State = State.PLAIN
    variant: str = ""
    """Distinguishes pairs of the same acts in another state."""

    @property
    def name(self) -> str:
        """The name on the command line."""
        return f"{self.first}+{self.second}{self.variant}"

    @property
    def acts(self) -> tuple[Act, Act]:
        """The acts, in order."""
        return ACTS[self.first], ACTS[self.second]

    def has(self, name: str) -> bool:
        """Return whether one of the acts has this name."""
        return name in (self.first, self.second)


_LIBRARY = "syncs, items, jobs, documents, contents, before-images"
_KEY = "audit/key, audit/checkpoints"
PAIRS = (
    Pair("sync", "undo", _LIBRARY),
    Pair("undo", "sync", _LIBRARY),
    Pair("undo", "sync", _LIBRARY, State.YIELDED, ":yielded"),
    Pair("sync", "replay", "syncs, jobs, documents, contents", State.HALF),
    Pair("replay", "sync", "syncs, jobs, documents, contents", State.STARTED),
    Pair("replay", "undo", f"{_LIBRARY}, backfills", State.STARTED),
    Pair("undo", "replay", f"{_LIBRARY}, backfills", State.HALF),
    Pair("replay", "cancel", "backfills, jobs", State.HALF),
    Pair("cancel", "replay", "backfills, jobs", State.HALF),
    Pair("cancel", "undo", "backfills, jobs, items", State.HALF),
    Pair("cancel", "sync", "backfills, jobs, items", State.HALF),
    Pair("fetch", "sync", "syncs, items, jobs, documents, contents", State.FETCH),
    Pair("sync", "move", "syncs, items, jobs, marks, cache.db"),
    Pair("undo", "move", _LIBRARY),
    Pair("replay", "move", f"{_LIBRARY}, backfills", State.STARTED),
    Pair("sync", "revoke", f"{_LIBRARY}, consents, marks, cache.db"),
    Pair("revoke", "sync", f"{_LIBRARY}, consents, marks, cache.db"),
    Pair("revoke", "undo", f"{_LIBRARY}, consents"),
    Pair("undo", "revoke", f"{_LIBRARY}, consents"),
    Pair("revoke", "replay", f"{_LIBRARY}, consents, backfills", State.HALF),
    Pair("restore", "undo", "ledger.db and its log"),
    Pair("undo", "restore", "ledger.db and its log"),
    Pair("restore", "sync", "ledger.db and its log, cache.db"),
    Pair("restore", "sign", "ledger.db, audit/checkpoints"),
    Pair("sign", "restore", "ledger.db, audit/checkpoints"),
    Pair("restore", "rotate", f"ledger.db, {_KEY}"),
    Pair("restore", "rebuild", "ledger.db (sinks, outbox), the sink"),
    Pair("rotate", "sign", _KEY),
    Pair("sign", "rotate", _KEY),
    Pair("rotate", "export", _KEY),
    Pair("export", "rotate", _KEY),
    Pair("erase", "rotate", f"{_KEY}, history"),
    Pair("rotate", "erase", f"{_KEY}, history"),
    Pair("erase", "sign", "audit/checkpoints, history"),
    Pair("sign", "erase", "audit/checkpoints, history"),
    Pair("erase", "export", "audit/checkpoints, history"),
    Pair("rotate", "rotate", _KEY),
    Pair("rebuild", "sync", "sinks, outbox, documents, the sink"),
    Pair("rebuild", "undo", "sinks, outbox, documents, the sink"),
    Pair("rebuild", "revoke", "sinks, outbox, documents, the sink"),
    Pair("rebuild", "rebuild", "sinks, outbox, the sink"),
)
