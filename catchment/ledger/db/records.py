"""What the ledger answers with: frozen values, times aware UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from catchment.model import (
    Document,
    Entity,
    Extraction,
    FailureClass,
    Item,
    JobState,
    Link,
    Priority,
    Reason,
    SkipReason,
)

SourceState = Literal["active", "paused", "held", "removed"]
Outcome = Literal["completed", "yielded", "failed", "quarantined", "cancelled", "crashed"]


@dataclass(frozen=True, slots=True)
class Source:
    """One configured thing to read. `failures` counts the syncs that failed since the last one that did not."""

    id: int
    name: str
    kind: str
    priority: Priority
    state: SourceState
    state_reason: str | None
    root: str | None
    failures: int


@dataclass(frozen=True, slots=True)
class Sync:
    """A sync that was begun."""

    id: int
    source_id: int
    began: datetime


@dataclass(frozen=True, slots=True)
class SyncRow:
    """A sync as it went; `outcome` is None while it runs. `run` is the id of its Prefect flow run.

    `expected` is when it thought last that it would be done, None where it did not know.
    """

    id: int
    source_id: int
    source: str
    run: str | None
    owner: str
    code_version: str
    outcome: Outcome | None
    began: datetime
    expected: datetime | None
    ended: datetime | None
    summary: Mapping[str, int]
    error: str | None

    @property
    def is_undo(self) -> bool:
        """Whether it took another back, and looked at no source."""
        return "undoes" in self.summary


@dataclass(frozen=True, slots=True)
class IntakeCounts:
    """What recording some changes did to items."""

    new: int = 0
    changed: int = 0
    moved: int = 0
    revived: int = 0
    attributes: int = 0
    missing: int = 0
    skipped: int = 0
    failed: int = 0
    unchanged: int = 0
    enqueued: int = 0


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of the items that were not at the source any more."""

    deleted: int
    held: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Deletions that wait for an operator."""

    id: int
    source_id: int
    source: str
    sync_id: int
    count: int
    reason: str
    held: datetime


@dataclass(frozen=True, slots=True)
class ItemRow:
    """One item with its current job and its document, for a person who asks why it is (not) here."""

    id: int
    source: str
    kind: str
    locator: str
    container: str
    version: str
    identity: str | None
    size: int | None
    modified: datetime | None
    attributes: Mapping[str, Any]
    state: Literal["present", "missing", "deleted", "kept"]
    content_hash: str | None
    first_seen: datetime
    changed: datetime
    gone: datetime | None
    sync_id: int | None
    job: int | None
    job_state: JobState | None
    job_reason: str | None
    not_before: datetime | None
    document: int | None


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A job that is ours to do. `content_hash` is that of the item's last delivered content, None if it has none."""

    id: int
    item_id: int
    attempt: int
    item: Item
    content_hash: str | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Jobs claimed together, under one fencing token."""

    token: int
    jobs: tuple[ClaimedJob, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a source still has to do: `ready` now, `later` not before `next_at`."""

    ready: int
    later: int
    next_at: datetime | None


@dataclass(frozen=True, slots=True)
class Delivered:
    """A job that is done. `document` and `extraction` are None when the library has the content already.

    `content_hash` is the SHA-256 of the raw bytes in hex; `modified` is aware UTC; `metadata` is JSON-compatible.
    """

    job_id: int
    content_hash: str
    normalizer: str
    document: Document | None
    extraction: Extraction | None
    title: str
    modified: datetime | None
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SkippedOutcome:
    """A job that needs no document, with the reason. `unchanged` keeps the document that there is."""

    job_id: int
    reason: SkipReason
    content_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Acks:
    """Which jobs were acknowledged; the stale ones were not ours any more and nothing of them was kept."""

    succeeded: list[int]
    skipped: list[int]
    stale: list[int]


@dataclass(frozen=True, slots=True)
class FailureInfo:
    """Why an attempt failed. `message` is one line and, like `traceback`, holds nothing of the person's content."""

    reason: Reason
    failure_class: FailureClass
    error: str
    message: str
    traceback: str = ""
    retry_helps: bool = False


@dataclass(frozen=True, slots=True)
class Recovered:
    """What became of jobs whose worker died."""

    released: int
    quarantined: int


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job as it stands."""

    id: int
    source: str
    kind: str
    item_id: int
    item: str
    version: str
    current: bool
    state: JobState
    reason: str | None
    attempt: int
    enqueued: datetime
    not_before: datetime
    finished: datetime | None
    token: int | None
    owner: str | None
    lease_until: datetime | None
    error: str | None
    sync_id: int | None


@dataclass(frozen=True, slots=True)
class QuarantineEntry:
    """A quarantined item: what failed, how often, since when, and what the operator noted.

    `document` is the last good version of the item, if one is in the library.
    """

    job: int
    source: str
    kind: str
    item_id: int
    item: str
    version: str
    reason: Reason
    failure_class: FailureClass
    error: str
    message: str
    traceback: str
    retry_helps: bool
    attempts: int
    first_failed: datetime
    last_failed: datetime
    cluster: str
    notes: tuple[str, ...]
    run: str | None
    document: int | None


@dataclass(frozen=True, slots=True)
class Cluster:
    """Quarantined items that failed for the same cause."""

    id: str
    reason: Reason
    error: str
    message: str
    count: int
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the history. `event` is the state a job went to, or what happened to an item or a source."""

    id: int
    at: datetime
    actor: str
    event: str
    source_id: int | None
    item_id: int | None
    job_id: int | None
    sync_id: int | None
    attempt: int | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Hit:
    """One content that was found. The words in `snippet` stand in [brackets]; a higher `score` is a better match.

    `thread` is the number of a message's thread, None for what is no message. Where only the best of each thread was asked
    for, `alike` is how many contents of it were found, this one among them. `moment`: when a message was sent, or anything
    else last modified; aware UTC.
    """

    document: int
    title: str
    source: str
    item: str
    snippet: str
    score: float
    places: tuple[tuple[str, str], ...]
    thread: int | None
    alike: int
    media_type: str
    author: str | None
    moment: datetime | None


class Found(NamedTuple):
    """One page of hits, and how many documents matched in all."""

    hits: list[Hit]
    total: int


class InThread(NamedTuple):
    """One message of a thread; `sent` is aware UTC, None where its date makes no sense."""

    document: int
    title: str
    author: str | None
    sent: datetime | None
    source: str
    item: str


class Attached(NamedTuple):
    """A file in a message; `document` is what became of it, None where nothing did."""

    part: str
    name: str
    media_type: str
    document: int | None


@dataclass(frozen=True, slots=True)
class Shown:
    """One document with all that is known of it. `places` are all the (source, item) that have this content.

    `mentions` are links elsewhere in the source whose target has this item's file name: candidates for backlinks.
    Of a message, `thread` are all messages of its conversation, the earliest first and itself among them, and `attached` what
    it carries; of a file in a message, `carrier` is the document of that message.
    """

    document: int
    title: str
    source: str
    item: str
    item_id: int
    modified: datetime | None
    metadata: Mapping[str, Any]
    content_hash: str
    normalizer: str
    content: Document
    aliases: tuple[str, ...]
    links: tuple[Link, ...]
    entities: tuple[Entity, ...]
    places: tuple[tuple[str, str], ...]
    mentions: tuple[tuple[str, Link], ...]
    thread: tuple[InThread, ...]
    attached: tuple[Attached, ...]
    carrier: int | None


class Named(NamedTuple):
    """What a document of a source is called, for resolving links."""

    item_id: int
    locator: str
    title: str
    document: int
    aliases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """What a content itself says of its title and when it was last changed; None where it says nothing."""

    title: str | None
    modified: datetime | None


@dataclass(frozen=True, slots=True)
class LibraryCounts:
    """How much of the library comes from one source; shared contents count for each."""

    documents: int
    contents: int
    chunks: int
