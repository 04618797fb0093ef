"""The values that travel through Catchment: frozen, small, and free of any library.

What a document has many of (`Chunk`, `Link`, `Entity`) are named tuples: they are made, sent and stored by the hundred
thousand, and a tuple costs a third of a frozen dataclass.

What a connector says about its source (`Change`), what content is before and after it was understood (`RawContent`,
`Document`, `Extraction`), and the names of states and reasons. The ledger's rows are not here: see `catchment.ledger`.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from catchment.errors import ItemError


class FailureClass(StrEnum):
    """What kind of failure it was; decides whether trying again can help."""

    TRANSIENT = "transient"
    RATE_LIMITED = "rate_limited"
    PERMANENT = "permanent"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Why an item is in quarantine."""

    PARSE_ERROR = "parse_error"
    PERMISSION_DENIED = "permission_denied"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    CONNECTOR_ERROR = "connector_error"
    TIMEOUT = "timeout"
    INVALID_STATE = "invalid_state"
    DEPENDENCY_FAILURE = "dependency_failure"
    PROCESS_KILLED = "process_killed"
    UNKNOWN = "unknown"


class SkipReason(StrEnum):
    """Why an item became no document, on purpose."""

    UNCHANGED = "unchanged"
    UNSUPPORTED = "unsupported"
    TOO_LARGE = "too_large"
    EXCLUDED = "excluded"


class JobState(StrEnum):
    """Where a job stands; the arrows between the states are in `catchment.ledger.db.job_states`."""

    PENDING = "pending"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    QUARANTINED = "quarantined"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


class Priority(StrEnum):
    """How soon a job is wanted; a waiting job ages, so that low is late but never starved."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class Item:
    """One addressable thing in a source, as the connector sees it now.

    `locator` is where it is, unique within its source and readable ("Projects/Plan.md", "INBOX;UIDVALIDITY=7;UID=42",
    "owner/repo#12"). `container` is the listing that it belongs to (a folder, a mailbox, a repository; "" for the root).
    `version` is the connector's fingerprint of its present state: a different one means "look again". After a plus may stand
    why it was skipped, or, from a deep listing, the beginning of its content's hash.
    `identity` survives a move within the source (inode, Message-ID, node id, each with what changes with the content); None
    where there is none. Two items of equal identity have equal content: a move is not read again, unless the new name says
    another type.
    `size` is in bytes, `modified` is aware UTC; both None where the source does not tell.
    `attributes` is what the listing itself tells (flags, labels, open or closed), JSON-compatible; a change of the attributes
    alone costs one row and no fetch.
    """

    locator: str
    container: str
    version: str
    identity: str | None = None
    size: int | None = None
    modified: datetime | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


# Python knows more encodings than text is written in; some take quadratic time or make half characters.
_CHARSET = re.compile(
    r"(?:utf-?(?:8|16|32)|(?:us-)?ascii|latin-?\d|l\d|iso-?(?:8859|2022)|windows-|cp-?\d|koi8|shift|sjis|ms932|euc|gb|big5|hz|mac|tis)",
    re.IGNORECASE,
)


def is_charset(name: str) -> bool:
    """Whether this names an encoding that text is written in."""
    try:
        return _CHARSET.match(name) is not None and codecs.lookup(name) is not None
    except (LookupError, ValueError):
        return False


def fingerprint(version: str) -> str:
    """A version without what may stand after a plus."""
    return version.partition("+")[0]


@dataclass(frozen=True, slots=True)
class Root:
    """The first change of every listing: which root this is (device and inode, UIDVALIDITY, repository id).

    When the identity differs from the one the ledger remembers, deletions of this sync are held.
    """

    identity: str


@dataclass(frozen=True, slots=True)
class Upsert:
    """An item is there, new or in another version. Saying it of an unchanged item is allowed and does nothing.

    `came_from` is the locator where it was before, where the source itself tells so: it is the same item then, even if its
    content has changed on the way. Nothing may be there any more: a `Tombstone` says so before.
    """

    item: Item
    came_from: str | None = None


@dataclass(frozen=True, slots=True)
class Tombstone:
    """An item that the ledger knows is not at the source any more."""

    locator: str


@dataclass(frozen=True, slots=True)
class Skip:
    """An item is there and is not wanted, with the reason; recorded, so that `why` can tell."""

    item: Item
    reason: SkipReason


@dataclass(frozen=True, slots=True)
class Failure:
    """An item is there and even its listing failed (a name that cannot be read, a stat that is refused)."""

    item: Item
    error: ItemError


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All changes yielded before this one may be committed, together with these marks of the cursor.

    The cursor of a source is a set of marks: keys and values of the connector's own choice (a folder and the digest of its
    listing, a mailbox and its UIDVALIDITY and MODSEQ, an address and its ETag). A value of None removes the mark.
    """

    marks: Mapping[str, str | None] = field(default_factory=dict)


Change = Root | Upsert | Tombstone | Skip | Failure | Checkpoint


@dataclass(frozen=True, slots=True)
class KnownItem:
    """What the ledger holds of an item: enough for a connector to tell whether it changed."""

    version: str
    identity: str | None
    content_hash: str | None


@dataclass(frozen=True, slots=True)
class RawContent:
    """The bytes of an item as they were read, and what the connector knows about them.

    `name` is a file name (with suffix) that hints at the type; `title` overrides whatever title the content has (an Obsidian
    note is called after its file); `media_type` is only a hint from the source. `metadata` is JSON-compatible and becomes
    the document's `source` metadata. `modified` is aware UTC. `encoding` is that of text which is not UTF-8 and names none.
    """

    data: bytes
    name: str
    title: str | None = None
    media_type: str | None = None
    modified: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    encoding: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """What content says, independent of where it lies: the same bytes give the same Document, byte for byte.

    `text` is Markdown with its structure kept; every offset elsewhere counts its characters (code points).
    `title` is the content's own (frontmatter, first heading, PDF metadata), or None. `properties` is the frontmatter or the
    file's metadata, JSON-compatible with sorted keys. `created` and `modified` come from the content, aware UTC.
    `warnings` says what was odd but readable ("frontmatter is not valid YAML").
    """

    text: str
    media_type: str
    title: str | None = None
    language: str | None = None
    author: str | None = None
    created: datetime | None = None
    modified: datetime | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Chunk(NamedTuple):
    """A passage: `text[start:end]` of its document, under the heading path `heading` ("Plan > Costs")."""

    start: int
    end: int
    heading: str = ""


ASIDE = ">"
"""The heading of a passage of mail that is quoted or a signature. It holds no word, so that nobody finds it by the heading."""

PART = ";PART="
"""What stands in the locator of an item between that of the message it is attached to, and the number of its part there."""


class LinkKind(StrEnum):
    """How a link is written."""

    WIKILINK = "wikilink"
    EMBED = "embed"
    MARKDOWN = "markdown"
    URL = "url"
    FRONTMATTER = "frontmatter"
    CANVAS = "canvas"


class Link(NamedTuple):
    """A link as it is written at `text[start:end]`; where it leads is resolved against the vault as it is when asked.

    `target` has neither anchor nor label; `anchor` is "Heading#Sub" or "^block" or "".
    """

    kind: LinkKind
    target: str
    anchor: str = ""
    label: str = ""
    start: int = 0
    end: int = 0


class EntityKind(StrEnum):
    """What was found in a document."""

    TAG = "tag"
    ALIAS = "alias"
    PERSON = "person"
    EMAIL = "email"
    DATE = "date"
    TASK = "task"
    FIELD = "field"
    CALLOUT = "callout"
    HEADING = "heading"
    BLOCK = "block"
    FOOTNOTE = "footnote"
    SYMBOL = "symbol"


class Entity(NamedTuple):
    """Something named in a document, at `text[start:end]`; `value` is normalized, `detail` is kind-specific.

    Details: task → its status character; field → its value; callout → its title; heading → its level;
    symbol → what it is (class, function); others "".
    `confidence` is 1.0 where the syntax says it, lower where it was inferred.
    """

    kind: EntityKind
    value: str
    detail: str = ""
    start: int = 0
    end: int = 0
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class Extraction:
    """What was extracted from one document."""

    chunks: tuple[Chunk, ...]
    links: tuple[Link, ...] = ()
    entities: tuple[Entity, ...] = ()
