"""The values passed between the parts of Catchment: frozen, small, and independent of any library.

Defines the changes that a connector reports (`Change`), content before and after parsing (`RawContent`, `Document`,
`Extraction`), and the names of states. Rows of the ledger are defined in `catchment.ledger`.

`Chunk`, `Link` and `Entity` are named tuples because documents contain hundreds of thousands of them, and a tuple costs a third
of a frozen dataclass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, Self

from catchment.errors import ItemError, SkipReason

WARNING = "warning"
"""Attribute of an item: why its document is not that of the latest look, in words for a person."""
_DURATION = re.compile(r"(\d{1,6})\s*(s|m|min|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class JobState(StrEnum):
    """State of a job. `catchment.ledger.db.job_states` defines the transitions."""

    PENDING = "pending"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    QUARANTINED = "quarantined"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


class Priority(StrEnum):
    """Urgency of a job. Waiting jobs age, so that low priority delays but never starves a job."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class Item:
    """One addressable object in a source, in its current state.

    Attributes:
        locator: Readable path, unique within the source ("Projects/Plan.md", "INBOX;UIDVALIDITY=7;UID=42", "owner/repo#12").
        container: The listing that contains the item: a folder, mailbox or repository; "" for the root.
        version: The connector's fingerprint of the current state; a different one triggers a new fetch. A plus sign may
            precede a skip reason or, after a deep listing, the start of the content hash.
        identity: Identifier that survives a move within the source (inode, Message-ID or node ID, combined with a value that
            changes with the content), or None. Items of equal identity have equal content, so a moved item is not fetched
            again unless its new name implies another type.
        size: Bytes, or None if the source does not report it.
        modified: Aware UTC, or None if the source does not report it.
        attributes: JSON-compatible facts from the listing (flags, labels, open or closed). If only these change, one row is
            updated without a fetch.
    """

    locator: str
    container: str
    version: str
    identity: str | None = None
    size: int | None = None
    modified: datetime | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


_FIRST_TIME = datetime.min.replace(tzinfo=UTC) + timedelta(days=1)
_LAST_TIME = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)


def time_of(text: Any, read: Callable[[Any], datetime] = datetime.fromisoformat) -> datetime | None:
    """Return the time that data of others states, in aware UTC; without a zone it is taken as UTC.

    `read` parses the notation (default: ISO 8601). None for text that it cannot parse, and for a time that does not exist in
    every time zone.
    """
    try:
        moment = read(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, TypeError, LookupError, OverflowError):
        return None
    return moment if _FIRST_TIME <= moment <= _LAST_TIME else None


def duration(text: str) -> timedelta | None:
    """Parse a duration: "90s", "15m", "2h", "30d", "4w". None if it is not one."""
    match = _DURATION.fullmatch(text.strip().lower())
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]]) if match else None


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: "1 document", "1,204 documents"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def size(number: int) -> str:
    """Return a number of bytes with a unit: "340 B", "1.2 MB"."""
    power = next((power for power in range(4) if number < 1_000 ** (power + 1)), 4)
    scaled, unit = number / 1_000**power, ("B", "KB", "MB", "GB", "TB")[power]
    return f"{scaled:.1f} {unit}" if power and scaled < 100 else f"{scaled:.0f} {unit}"


def in_words(seconds: float, *, exact: bool = False) -> str:
    """Return a duration in its largest unit, rounded down: "24 min"; `exact`: in the largest that it is a multiple of."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds % size == 0 if exact else seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{seconds:g} s" if exact else f"{int(seconds)} s"


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """Return a time relative to now: "3 min ago", "in 2 h", "never"."""
    if moment is None:
        return "never"
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{in_words(seconds)} ago" if seconds > 0 else f"in {in_words(-seconds)}"


def local_time(moment: datetime) -> datetime:
    """Return the time in this machine's time zone, or unchanged if that is outside the years 1 to 9999."""
    try:
        return moment.astimezone()
    except (OverflowError, ValueError, OSError):
        return moment


def leaves(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return settings by dotted key."""
    values: dict[str, Any] = {}
    for key, value in settings.items():
        values |= leaves(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return values


def fingerprint(version: str) -> str:
    """Return the version without the suffix after a plus sign."""
    return version.partition("+")[0]


@dataclass(frozen=True, slots=True)
class Root:
    """The first change of every listing. Identifies the root by device and inode, UIDVALIDITY or repository ID.

    `identities` has one entry for each part of the source with a separate root, by name; "" names the only root of a source.
    If one differs from the accepted one, the deletions of this sync are held, except versioned ones. A new part is accepted.
    """

    identities: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Upsert:
    """An item is present, possibly new or changed. Reporting an unchanged item has no effect.

    `came_from` is the previous locator, if the source reports moves. The item keeps its history even if its content has changed
    too. A `Tombstone` must already have removed any item at the new locator.
    """

    item: Item
    came_from: str | None = None


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A known item no longer exists in the source.

    `versioned`: the source's own history proves the deletion, so that the guard against mass deletion does not hold it.
    """

    locator: str
    versioned: bool = False


@dataclass(frozen=True, slots=True)
class Skip:
    """An item is present but excluded. The reason is recorded for `catchment why`."""

    item: Item
    reason: SkipReason


@dataclass(frozen=True, slots=True)
class Failure:
    """An item is present but could not be listed, for example because of an undecodable name or a denied stat."""

    item: Item
    error: ItemError


SYNC_FIGURES = {
    "succeeded": "added or updated",
    "moved": "moved",
    "deleted": "deleted",
    "held": "deletions held",
    "unchanged": "unchanged",
    "skipped": "skipped",
    "masked": "with secrets masked",
    "retrying": "waiting for a retry",
    "quarantined": "quarantined",
    "left": "changed since the plan, left for the next sync",
    "away": "of its hosts did not answer",
    "caches_thrown_away": "damaged caches replaced",
    "decided": "deletions held, decided since",
}
"""The words after a figure of a sync's summary, by the name of the figure."""

HOST = "host:"
"""Prefix of the marks of hosts that do not answer. The values have the start and the problem: `AwayHost.of`."""


@dataclass(frozen=True, slots=True)
class AwayHost:
    """A host of a source with several that does not answer. `until`: the next sync asks it only after that (aware UTC)."""

    host: str
    since: datetime
    problem: str
    until: datetime | None = None

    @classmethod
    def of(cls, host: str, mark: str) -> Self:
        """Return the host of a mark. Earlier versions kept the start alone, or between a number and another time."""
        since, _, problem = (json.loads(mark)[1] if mark.startswith("[") else mark).partition(" ")
        return cls(host, datetime.fromisoformat(since), problem)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All changes yielded so far may be committed, together with these marks.

    The cursor of a source is a set of marks: keys and values chosen by the connector (a folder and the digest of its listing, a
    mailbox and its UIDVALIDITY and MODSEQ, a URL and its ETag). A value of None removes the mark.

    If the last checkpoint of a listing `is_torn`, items moved all the time and may have been missed: those that went missing
    lately are not deleted yet. Such a listing has no versioned tombstones. A torn listing of a period is repeated later.

    `again`: when the source should be listed again (aware UTC), if not sooner for another reason. The last one counts.
    """

    marks: Mapping[str, str | None] = field(default_factory=dict)
    is_torn: bool = False
    again: datetime | None = None


Change = Root | Upsert | Tombstone | Skip | Failure | Checkpoint


@dataclass(frozen=True, slots=True)
class KnownItem:
    """The recorded state of an item, with which a connector detects changes."""

    version: str
    identity: str | None
    content_hash: str | None
    attributes: Mapping[str, Any] = field(default_factory=dict)


SUMMARY_END = "\f"
"""Separates the summaries of several feeds for a web page. No summary contains it."""


@dataclass(frozen=True, slots=True)
class RawContent:
    """The bytes of an item as read, with metadata from the connector.

    Attributes:
        name: File name with suffix, used as a hint of the type.
        title: Overrides any title in the content (an Obsidian note is named after its file).
        media_type: The source's claim, used only as a hint.
        modified: Aware UTC.
        metadata: JSON-compatible; becomes the `source` metadata of the document. `from` and `sent` (ISO 8601) are the sender
            and the date of the message that a file is attached to; `sent` precedes all other dates.
        encoding: Of a web page: as its host declares it. Of anything else: the encoding of text that declares none.
        address: Of a web page. Its links are resolved against it, and only its main text is read. "" for anything else.
        summary: The summaries of a web page in the feeds that name it, as HTML, with `SUMMARY_END` between them. "" for
            anything else.
    """

    data: bytes
    name: str
    title: str | None = None
    media_type: str | None = None
    modified: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    encoding: str | None = None
    address: str = ""
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """Parsed content, independent of its location: equal bytes produce an equal Document.

    Attributes:
        text: Markdown that keeps the structure. All offsets into it count code points.
        title: Title from the content: declared there, or else its only heading of the first level; or None.
        properties: Frontmatter or file metadata; JSON-compatible, with sorted keys.
        created, modified: Dates from the content, aware UTC.
        warnings: Recoverable problems ("frontmatter is not valid YAML").
        pictures: The pages whose text is only on a picture, and was not recognized yet; the picture of an image file is page 1.
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
    pictures: tuple[int, ...] = ()

    @property
    def recognized(self) -> Mapping[str, Any]:
        """What is known of its recognized text, as in the property `RECOGNIZED`; empty without any."""
        return recognized(self.media_type, self.properties)


RECOGNIZED = "recognized"
"""The property of a document with recognized text: its mean `confidence`, and if other text is typed, its `pages` and `places`.

A place is the start and the end of a page in the text.
"""


WITH_RECOGNIZED = "; recognized="
"""Follows the name of the normalizer of a content with recognized text."""


def recognized(media_type: str, properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the property `RECOGNIZED`; empty without it. A note may have one of its own with this name."""
    is_of_pages = media_type == "application/pdf" or media_type.startswith("image/")
    about: Mapping[str, Any] = properties.get(RECOGNIZED, {}) if is_of_pages else {}
    return about


class PlacedWord(NamedTuple):
    """A word on a picture. Its place is in thousandths of the picture's width and height, from the left upper corner."""

    text: str
    left: int
    top: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class PageText:
    """The text that was recognized on the picture of a page, without secrets.

    Attributes:
        confidence: From 0 to 1.
        turn: Clockwise degrees that make the picture upright.
        problem: Why there is no text; "" if there is.
        lacks: Tesseract's name of the language that the text is probably in, if it is not installed.
    """

    text: str
    confidence: float
    turn: int = 0
    words: tuple[PlacedWord, ...] = ()
    problem: str = ""
    lacks: str = ""

    @property
    def warning(self) -> str:
        """What is wrong with the text, or ""."""
        if self.lacks:
            package = tesseract_package(self.lacks)
            return f"text on the picture may be in another language; install {package}, and replay it from `recognize`"
        return "the text on the picture is not legible" if self.confidence and not self.text else ""


def tesseract_package(language: str) -> str:
    """Return Debian's package with the files of a language, by Tesseract's name of it."""
    return f"tesseract-ocr-{language.replace('_', '-')}"


class ReplayStage(StrEnum):
    """The first stage that a backfill repeats. `FETCH` asks the source, the others need no network."""

    FETCH = "fetch"
    RECOGNIZE = "recognize"
    NORMALIZE = "normalize"
    EXTRACT = "extract"
    EMBED = "embed"

    @property
    def words(self) -> str:
        """A description of the stage for people."""
        return _STAGES[self]


_STAGES = {
    ReplayStage.FETCH: "fetch from the source",
    ReplayStage.RECOGNIZE: "recognize the text of pictures again",
    ReplayStage.NORMALIZE: "read again",
    ReplayStage.EXTRACT: "extract again",
    ReplayStage.EMBED: "make embeddings again",
}


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as the library has it, with the facts from its item. `normalizer` names the code that made it."""

    document: Document
    content_hash: str
    normalizer: str
    title: str
    modified: datetime | None
    metadata: Mapping[str, Any]


class Chunk(NamedTuple):
    """A passage, `text[start:end]` of its document, under the heading path `heading` ("Plan > Costs")."""

    start: int
    end: int
    heading: str = ""


ASIDE = ">"
"""Heading of a mail passage that is a quotation or a signature. Not a word, so that no search matches it."""

GUESSED = "≈"
"""Heading of a passage of recognized text. Not a word, so that no search matches it."""

PARTS = "!/"
"""Separates the locator of an item from the path of a file inside of it; the container of such an item ends with it."""

PART = ";PART="
"""Separates the locator of a message from the part number of its attachment."""


def outer_files(locator: str) -> list[str]:
    """Return the locators of what an item may be inside of, outermost first; also of folders whose names end with `!`."""
    steps = locator.split(PARTS)
    return [PARTS.join(steps[:number]) for number in range(1, len(steps))]


def holder_of(locator: str) -> str:
    """Return the locator of the container or message that an item is inside of or attached to; "" for another item."""
    return locator.rpartition(PARTS)[0] or locator.rpartition(PART)[0]


class LinkKind(StrEnum):
    """Syntax of a link."""

    WIKILINK = "wikilink"
    EMBED = "embed"
    MARKDOWN = "markdown"
    URL = "url"
    FRONTMATTER = "frontmatter"
    CANVAS = "canvas"


class Link(NamedTuple):
    """A link at `text[start:end]`, as written. Its target is resolved at query time, against the vault's current state.

    `target` contains neither anchor nor label. `anchor` is "Heading#Sub", "^block" or "".
    """

    kind: LinkKind
    target: str
    anchor: str = ""
    label: str = ""
    start: int = 0
    end: int = 0


class EntityKind(StrEnum):
    """Type of an entity."""

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
    """Something named in a document, at `text[start:end]`.

    Attributes:
        value: Normalized.
        detail: Depends on the kind. Task: its status character; field: its value; callout: its title; heading: its level;
            symbol: its type (class, function); otherwise "".
        confidence: 1.0, because each entity is marked by syntax.
    """

    kind: EntityKind
    value: str
    detail: str = ""
    start: int = 0
    end: int = 0
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class Extraction:
    """The chunks, links and entities of one document."""

    chunks: tuple[Chunk, ...]
    links: tuple[Link, ...] = ()
    entities: tuple[Entity, ...] = ()


class ChunkVector(NamedTuple):
    """The embedding of a part of a chunk by a model. `values`: signed bytes; only their direction has a meaning."""

    chunk: int
    part: int
    model: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DocumentCopy:
    """A document as a sink receives it.

    Attributes:
        id: Never changes, also if the item is renamed or moves, and is never used for another document.
        version: Differs whenever anything that a sink receives differs.
        kind: The kind of the source.
        modified: Of the item, or else as the content states it. Times are aware UTC.
        vectors: Only for a sink that wants them: the vectors that exist when the document is sent.
        properties: Of the content, such as frontmatter. `metadata`: from the source, such as `url`.
    """

    id: int
    version: str
    source: str
    kind: str
    item: str
    title: str
    media_type: str
    language: str | None
    author: str | None
    created: datetime | None
    modified: datetime | None
    text: str
    properties: Mapping[str, Any]
    metadata: Mapping[str, Any]
    aliases: tuple[str, ...]
    links: tuple[Link, ...]
    entities: tuple[Entity, ...]
    chunks: tuple[Chunk, ...]
    vectors: tuple[ChunkVector, ...] = ()

    def named(self, *kinds: EntityKind) -> list[str]:
        """Return the values of its entities of these kinds, sorted, each once."""
        return sorted({entity.value for entity in self.entities if entity.kind in kinds})

    def columns(self) -> dict[str, Any]:
        """Return it as a row of a table, without its links, passages and embeddings. docs/sinks.md has names and order."""
        return {
            **{field.name: getattr(self, field.name) for field in fields(self) if field.name not in _OTHER_TABLES},
            "tags": self.named(EntityKind.TAG),
            "people": self.named(EntityKind.PERSON),
            "addresses": self.named(EntityKind.EMAIL),
        }


_OTHER_TABLES = ("links", "entities", "chunks", "vectors")
