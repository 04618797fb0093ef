"""Why an item is in the library, or why not: its state as a sentence, its last sync and its history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from catchment.errors import NotFound, SkipReason
from catchment.model import WARNING, JobState
from catchment.pacing.waits import Wait
from catchment.records import record_of
from catchment.records.rows import Event, ItemRow
from catchment.records.standing import Consent
from catchment.runtime.home import Home
from catchment.views import waits
from catchment.views.work import recognition

if TYPE_CHECKING:
    from catchment.ledger import Ledger

_SYNCS = 500


@dataclass(frozen=True, slots=True)
class ItemWhy:
    """How an item entered the library, or why it is not there.

    Attributes:
        item: Its path.
        because: The reason in words.
        attempts, next_attempt: Of its present job; `next_attempt` only if it waits for one.
        waits: Why it is not in the library yet, what must end first coming first; empty if it is, or will not be.
        consents: All consents to its source.
        sync: The sync that listed it last; with its `run` and `code_version` if it is one of the last 500 of its source.
        history: Its events, oldest first.
    """

    item: str
    source: str
    state: str
    because: str
    document: int | None
    job: int | None
    job_state: JobState | None
    attempts: int
    next_attempt: datetime | None
    waits: tuple[Wait, ...]
    version: str
    content_hash: str | None
    size: int | None
    consents: tuple[Consent, ...]
    first_seen: datetime
    changed: datetime
    gone: datetime | None
    sync: int | None
    run: str | None
    code_version: str | None
    history: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class WhyView:
    """The items that have a name, or, as far as that was looked up, the reasons why there is none."""

    asked: str
    items: tuple[ItemWhy, ...]
    not_here: tuple[str, ...] = ()


def why(ledger: Ledger, home: Home, item: ItemRow, when: Callable[[datetime | None], str]) -> ItemWhy:
    """Explain an item. `when` formats the time of the next attempt."""
    waiting = waits.of_item(ledger, home, item)
    job = ledger.queue.job(item.job) if item.job is not None else None
    recent = ledger.syncs.recent(ledger.sources.get(item.source).id, limit=_SYNCS)
    sync = next((row for row in recent if row.id == item.sync_id), None)
    return record_of(
        ItemWhy,
        item,
        item=item.locator,
        because=because(ledger, item, waiting, when),
        attempts=job.attempts if job else 0,
        next_attempt=job.next_attempt if job else None,
        waits=waiting,
        consents=tuple(ledger.consents.all(item.source)),
        sync=item.sync_id,
        run=sync.run if sync else None,
        code_version=sync.code_version if sync else None,
        history=tuple(ledger.history.of_item(item.id)),
    )


def because(ledger: Ledger, item: ItemRow, waiting: Sequence[Wait], when: Callable[[datetime | None], str]) -> str:
    """Return why an item is, or is not, in the library. `waiting`: of `waits.of_item`. `when` formats times."""
    if item.state == "missing":
        return f"missing at the last sync; the deletion is held, see `catchment deletions list {item.source}`"
    if item.state == "kept":
        return f"deleted at the source and restored by `catchment undo` as document {item.document}"
    if item.state == "deleted":
        return "deleted at the source"
    match item.job_state:
        case JobState.SUCCEEDED:
            document = f"in the library as document {item.document}"
            unread = recognition.unread(ledger, id=item.document)
            return "; ".join(filter(None, (document, item.attributes.get(WARNING), unread)))
        case JobState.SKIPPED:
            document = f"; document {item.document} is kept" if item.document is not None else ""
            # The type as listed: a link, a submodule, vendored.
            kind = f" ({item.attributes['type']})" if "type" in item.attributes else ""
            job = ledger.queue.job(item.job) if item.job is not None else None
            message = job.error if job and item.job_reason != SkipReason.UNSUPPORTED else None
            return f"skipped: {message or plain(item.job_reason)}{kind}{document}"
        case JobState.QUARANTINED if item.job is not None:
            entry = ledger.quarantine.show(item.job)
            return f"quarantined ({entry.reason}: {entry.message}); see `catchment quarantine show {item.job}`"
        case JobState.RETRYING:
            error = ledger.queue.job(item.job).error if item.job is not None else None
            message = (error or "").partition(": ")[2]
            return (
                f"failed{f' ({item.job_reason}: {message})' if message else ''}; next attempt {when(item.not_before)}"
            )
        case JobState.RUNNING:
            return "being processed"
        case JobState.CANCELLED:
            with suppress(NotFound):
                entry = ledger.quarantine.show(item.job or 0)
                return f"discarded from quarantine ({entry.reason}: {entry.message}); read again when it changes"
            return f"job cancelled: {plain(item.job_reason)}"
        case _:
            first = next((f": {wait.sentence(when)}; {wait.remedy}" for wait in waiting), "")
            return f"waiting to be processed{first}"


def plain(reason: str | None) -> str:
    """Return a recorded reason in words."""
    return (reason or "no reason recorded").replace("_", " ")
