"""The values that the ledger returns. Frozen; times are aware UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from catchment.errors import FailureClass, Reason, SkipReason
from catchment.model import PART, PARTS, Document, Entity, Extraction, Item, JobState, Link, Priority
from catchment.pacing.waits import Wait, WaitKind

SourceState = Literal["active", "paused", "held", "removed"]
Outcome = Literal["completed", "yielded", "failed", "quarantined", "cancelled", "crashed"]
FAILED_OUTCOMES: tuple[Outcome, ...] = ("failed", "crashed", "quarantined")
"""The outcomes of failed syncs. Syncs that a person or a limit stopped have other outcomes."""


@dataclass(frozen=True, slots=True)
class Source:
    """A configured source. `failures`: consecutive failed syncs. `keep_days`: how long versions of documents are kept."""

    id: int
    name: str
    kind: str
    priority: Priority
    state: SourceState
    state_reason: str | None
    failures: int
    keep_days: int

    @property
    def resume(self) -> str:
        """The command that lets it be read again."""
        return f"catchment sources resume {self.name}"

    @property
    def wait(self) -> Wait | None:
        """Why it is not synced; None if it is active."""
        if self.state == "active":
            return None
        kind = WaitKind.HELD if self.state == "held" else WaitKind.PAUSED
        return kind.of(self.name, why=self.state_reason or "")


@dataclass(frozen=True, slots=True)
class Sync:
    """A started sync."""

    id: int
    source_id: int
    began: datetime


@dataclass(frozen=True, slots=True)
class SyncRow:
    """A sync and its result; `outcome` is None while it runs.

    `run` is the ID of its Prefect flow run. `expected` is its latest ETA, or None if unknown. `cause`: the reason code of its
    `error`, if it has one. `backfill`: the number of the backfill that it worked for. The summary of an undo names the sync.
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
    cause: str | None
    backfill: int | None

    @property
    def is_undo(self) -> bool:
        """True if this is an undo, which does not list the source."""
        return "undoes" in self.summary


@dataclass(frozen=True, slots=True)
class IntakeCounts:
    """Effects of recorded changes on items."""

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
    """Number of missing items by the fate of their deletion: carried out or held."""

    deleted: int
    held: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Deletions that wait for an operator's decision."""

    id: int
    source_id: int
    source: str
    sync_id: int
    count: int
    reason: str
    held: datetime


@dataclass(frozen=True, slots=True)
class ItemRow:
    """An item with its current job and its document, for display."""

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
    """A job claimed by this process.

    `content_hash` is that of the last delivered content, or None. `carrier`: the item, with its ID, that the item is a part of.
    """

    id: int
    item_id: int
    attempt: int
    item: Item
    content_hash: str | None
    carrier: tuple[int, Item] | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Jobs claimed together, under one fencing token."""

    token: int
    jobs: tuple[ClaimedJob, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Jobs of a source: `ready` now, and `later`, the first of them at `next_at`."""

    ready: int
    later: int
    next_at: datetime | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """Pending, running and retrying jobs of a source by state, and when the oldest was enqueued (aware UTC)."""

    jobs: Mapping[JobState, int]
    oldest: datetime


@dataclass(frozen=True, slots=True)
class Delivered:
    """A completed job. `document` and `extraction` are None if the library already has the content.

    `content_hash` is the hexadecimal SHA-256 of the raw bytes and, for a web page, of its address. `modified` is aware UTC.
    `metadata` is JSON-compatible.
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
    """A job without a new document. With reason `unchanged`, the existing document is kept. `message`: problem and remedy."""

    job_id: int
    reason: SkipReason
    content_hash: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Acks:
    """The acknowledged jobs. The results of `stale` jobs were discarded, because their lease was lost."""

    succeeded: list[int]
    skipped: list[int]
    stale: list[int]


@dataclass(frozen=True, slots=True)
class FailureInfo:
    """Reason for a failed attempt. `message` is one line. Neither it nor `traceback` contains user content."""

    reason: Reason
    failure_class: FailureClass
    error: str
    message: str
    traceback: str = ""
    retry_helps: bool = False


@dataclass(frozen=True, slots=True)
class Recovered:
    """Number of recovered jobs of dead processes."""

    released: int
    quarantined: int


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job in its current state. `backfill`: the number of the one that added it. `replay_of`: the job that it repeats.

    `next_attempt`: when it is tried again, if it waits for that.
    """

    job: int
    source: str
    item: str
    state: JobState
    reason: str | None
    attempts: int
    kind: str
    item_id: int
    version: str
    current: bool
    enqueued: datetime
    not_before: datetime
    next_attempt: datetime | None
    finished: datetime | None
    token: int | None
    owner: str | None
    lease_until: datetime | None
    error: str | None
    sync_id: int | None
    backfill: int | None
    replay_of: int | None


@dataclass(frozen=True, slots=True)
class QuarantineEntry:
    """A quarantined item: its failure, attempts, times and notes.

    `document` is the last good version of the item in the library, or None.
    """

    job: int
    source: str
    item: str
    reason: Reason
    attempts: int
    message: str
    kind: str
    item_id: int
    version: str
    failure_class: FailureClass
    error: str
    traceback: str
    retry_helps: bool
    first_failed: datetime
    last_failed: datetime
    cluster: str
    notes: tuple[str, ...]
    run: str | None
    document: int | None


@dataclass(frozen=True, slots=True)
class ClosedCluster:
    """Quarantine entries with one cause that were closed in the same way, such as "discarded"; `at`: the latest of them."""

    message: str
    resolution: str
    count: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Cluster:
    """Quarantined items with the same cause.

    Attributes:
        reason, error, message, retry_helps: Of the latest failure.
        by_source: Number of items by source.
        first, last: Time of the first and of the latest failure.
        example, item: The job that failed last, and its item.
    """

    id: str
    reason: Reason
    error: str
    message: str
    retry_helps: bool
    by_source: Mapping[str, int]
    first: datetime
    last: datetime
    example: int
    item: str

    @property
    def count(self) -> int:
        """Number of items."""
        return sum(self.by_source.values())

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of the items, in order."""
        return tuple(sorted(self.by_source))


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the history. `event` is the new state of a job, or an event of an item or a source."""

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
class Ranked:
    """A matching content and its best chunk (None if only a name matched), with its rank and score in each lane.

    Attributes:
        score: Higher is better.
        conversation: Conversation of a message, None for other documents.
        alike: Number of matching messages in the conversation, if results are grouped by conversation.
        lexical_rank: Rank by words, from 1; None if the words do not match.
        semantic_rank: Rank by meaning, from 1; None if its meaning is not near.
        cosine: Similarity of meaning, if it was found by it.
        part: Place of the nearest part in the chunk, if the chunk was found by meaning alone.
    """

    content_id: int
    chunk_id: int | None
    score: float
    conversation: int | None = None
    alike: int = 1
    lexical_rank: int | None = None
    lexical_score: float | None = None
    semantic_rank: int | None = None
    cosine: float | None = None
    part: int | None = None


class Ranking(NamedTuple):
    """A part of the ranked contents, and the number of matching contents; `is_capped` if there are more than `total`."""

    ranked: list[Ranked]
    total: int
    is_capped: bool = False


@dataclass(frozen=True, slots=True)
class ConversationMessage:
    """A message in a conversation. `sent` is aware UTC, or None if its date is invalid."""

    document: int
    title: str
    author: str | None
    sent: datetime | None
    source: str
    item: str


@dataclass(frozen=True, slots=True)
class Attached:
    """A file attached to a message, and its document, if any. Also a file inside of another: its part begins with `PARTS`.

    `left_out`: why a file inside of another was skipped or quarantined.
    """

    part: str
    name: str
    media_type: str
    document: int | None
    left_out: str | None = None

    def locator(self, holder: str) -> str:
        """Return its locator, by that of the message or file that it is in."""
        return holder + self.part if self.part.startswith(PARTS) else f"{holder}{PART}{self.part}"


class MessageBody(NamedTuple):
    """The content of a message, and its attachments."""

    content: Document
    attached: tuple[Attached, ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """A live document of a content. `moment`: time of sending, or of the last change; aware UTC.

    `carrier`: as in `Shown`; `file`: as in `Hit`.
    """

    document: int
    title: str
    source: str
    item: str
    media_type: str
    author: str | None
    moment: datetime | None
    metadata: Mapping[str, Any]
    attributes: Mapping[str, Any]
    carrier: int | None
    file: str | None


@dataclass(frozen=True, slots=True)
class Shown:
    """A document with all related records.

    Attributes:
        places: All (source, item) with this content.
        mentions: Links from elsewhere in the source to this item's file name; candidates for backlinks.
        conversation: All messages of the conversation, oldest first, including this one.
        attached: The attachments of a message.
        carrier: For an attachment, the document of its message.
        copies: Its documents, including this one.
        file: As in `Hit`.
    """

    document: int
    content_id: int
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
    conversation: tuple[ConversationMessage, ...]
    attached: tuple[Attached, ...]
    carrier: int | None
    copies: tuple[Copy, ...] = ()
    file: str | None = None


class Named(NamedTuple):
    """Names of a document, for resolving links."""

    item_id: int
    locator: str
    title: str
    document: int
    aliases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ContentFacts:
    """Title and modification time found in a content itself, or None."""

    title: str | None
    modified: datetime | None
