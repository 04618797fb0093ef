"""The connector API: the `Connector` protocol, its view of the ledger (`Known`) and the optional protocols.

A connector implements an optional protocol to declare a capability. The engine detects it with `isinstance`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, ClassVar, Literal, NamedTuple, ParamSpec, Protocol, TypeVar, runtime_checkable

from catchment.model import Change, Document, DocumentCopy, Item, KnownItem, RawContent
from catchment.pacing import HostLimits, Pace
from catchment.settings import Policy, SourceSettings

P = ParamSpec("P")
R = TypeVar("R")


class Known(Protocol):
    """The ledger's records of one source. Reads are cheap and never block a writer.

    Items include those of the checkpoints so far, except new locators of possible moves, which wait for the whole listing.
    """

    def marks(self) -> Mapping[str, str]:
        """Return the cursor: all marks that checkpoints of earlier listings stored."""
        ...

    def roots(self) -> Mapping[str, str]:
        """Return the accepted identity of each root (see `Root`). A different one at the source awaits a decision."""
        ...

    def within(self, container: str) -> Mapping[str, KnownItem]:
        """Return the present items listed directly in `container`, by locator. Includes skipped and failing items."""
        ...

    def containers(self) -> frozenset[str]:
        """Return every container that holds at least one present item."""
        ...

    def identities(self) -> Set[str]:
        """Return the identities of the items, including those missing since an interrupted listing."""
        ...


class NothingKnown:
    """The `Known` of a new source, with which a connector lists everything."""

    def marks(self) -> Mapping[str, str]:
        return {}

    def roots(self) -> Mapping[str, str]:
        return {}

    def within(self, container: str) -> Mapping[str, KnownItem]:
        del container
        return {}

    def containers(self) -> frozenset[str]:
        return frozenset()

    def identities(self) -> Set[str]:
        return frozenset()


@dataclass(frozen=True, slots=True)
class Manifest:
    """The words about a kind of source in lists, forms and help pages.

    Attributes:
        title: What is added: "Obsidian vault".
        content: What is synced: "an Obsidian vault".
        label: One word for lists; by default the title.
        place: What LOCATION is, and how it is written: "Vault: path of its folder".
        example: An example of LOCATION.
        deep: What a deep sync does.
        fixed: What a run cannot change.
        is_watched: Whether the watcher hears of its changes. Other sources have a schedule.
        runs_programs: Whether it runs programs that its settings name. Then only a command adds, changes and permits it.
        level: The quality that it claims: bronze, silver or gold (docs/connectors.md).
        exempt: The rules of this level that it does not keep, each with the reason.
    """

    title: str
    content: str
    label: str = ""
    place: str = "Place"
    example: str = ""
    deep: str = "Compare contents, not only sizes and times."
    fixed: str = "Another place to read is refused; edit sources.yaml, or add a source."
    is_watched: bool = False
    runs_programs: bool = False
    level: Literal["", "bronze", "silver", "gold"] = ""
    exempt: Mapping[str, str] = field(default_factory=dict)


class Connector(Protocol):
    """The code for one kind of source. It reads the source and reports changes; it never writes.

    An instance is built from its settings alone. `__init__` has no side effects, and instances pickle, because parser processes
    receive a copy.
    """

    kind: ClassVar[str]
    manifest: ClassVar[Manifest]
    settings: ClassVar[type[SourceSettings]]
    policy: ClassVar[Policy]
    fetch_in_parser: ClassVar[bool]
    """True if `fetch` works in any parser process; False if it needs a connection held by this process."""

    def __init__(self, settings: SourceSettings) -> None: ...

    def probe(self) -> str:
        """Check that the source can be read, and return a one-line summary for display.

        Cheap; may be called at any time. Raises SourceUnavailable, LoginFailed or SourceInvalid, with a remedy in the message.
        """
        ...

    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:
        """Yield the differences from `known`, in any order: `Root` first and a `Checkpoint` last.

        Idempotent: repeating a known item has no effect. Everything up to a checkpoint is committed with it; changes after the
        last checkpoint may be lost. Yield a checkpoint every few thousand changes if the marks permit it. Where it is cheap,
        yield a `Tombstone` before the `Upsert` of a new locator, so that a move is recognized immediately.

        Args:
            deep: Compare contents where the regular comparison trusts a fingerprint.

        Raises SourceError if the source cannot be listed. A problem with a single item is yielded as a `Failure`.
        """
        ...

    def fetch(self, item: Item) -> RawContent:
        """Read one item in the version that `item` names. May prefetch, and serve later calls from memory."""
        ...


@runtime_checkable
class Watchable(Protocol):
    """A connector that can list part of its source, given paths that a watcher reported."""

    def changes_at(self, known: Known, paths: Collection[str]) -> Iterator[Change]:
        """Yield the changes at `paths`: the paths themselves, everything below them, and the folders directly containing them.

        Same contract as `changes`. Paths are relative to the root, in the file system's spelling. They may no longer exist or
        may be excluded by the settings.
        """
        ...


@runtime_checkable
class Unhurried(Protocol):
    """A connector that skips items if their host does not answer now. Until a later listing, they keep their state."""

    def left(self) -> Mapping[str, str]:
        """Return the locators that the last listing left, with the reason."""
        ...


@runtime_checkable
class Openable(Protocol):
    """A connector whose items can be read at any place, so that of a large archive only one part is in memory."""

    def opened(self, item: Item) -> AbstractContextManager[tuple[RawContent, IO[bytes]]]:
        """Open an item, in a parser process; `fetch` without its data. Raises as `fetch`."""
        ...

    def why_not_inside(self, item: Item) -> Callable[[str], str | None]:
        """Return a function that tells why a file inside of an item is excluded, by its address there. Raises SourceError."""
        ...


@runtime_checkable
class Windowed(Protocol):
    """A connector that can request the items of a period from its host, such as those older than its setting `since`."""

    def changes_between(self, known: Known, since: datetime, until: datetime) -> Iterator[Change]:
        """Yield the items with a date from `since` to before `until`, in any order after the `Root`.

        Both are aware UTC, in the years 1970 to 9998.

        Idempotent. Items are equal to those of `changes`, and the marks stay as they are. There are no tombstones, and items
        may be omitted that the next `changes` will report: a listing of a period must not settle missing items.

        Raises SourceError if the source cannot be listed. A problem with a single item is yielded as a `Failure`. If a part of
        the source cannot be listed now, the last checkpoint is torn.
        """
        ...


@runtime_checkable
class Movable(Protocol):
    """A connector with items that may move while it lists them: an item in one place can appear in two listings."""

    def still_there(self, places: Mapping[str, str], roots: Mapping[str, str]) -> set[str]:
        """Return the locators of `places` that still hold the item of this identity, possibly edited since.

        Called after a listing with the identities of its `Root`. Raises SourceUnavailable if a root is now another one.
        """
        ...


@runtime_checkable
class Paced(Protocol):
    """A connector that sends requests to one or several hosts, each inside `with self.pace.transfer()`.

    The initial `Pace` is unlimited; the engine replaces it with a metered one before a sync. A pickled connector carries an
    unlimited pace.
    """

    pace: Pace

    def limits(self) -> HostLimits | None:
        """Return the host and its limits, derived from the settings alone. None: each transfer names its host."""
        ...


class Parse(Protocol):
    """Call a module-level function with untrusted bytes, in a parser process and with a separate time limit.

    Raises an ItemError for any failure: it concerns these bytes alone.
    """

    def __call__(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...


def parse_here(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call the function in this process."""
    return function(*args, **kwargs)


@runtime_checkable
class Parsing(Protocol):
    """A connector that parses untrusted content while it lists its source.

    `parse` is first `parse_here`; the engine replaces it before a sync and a probe. It is not pickled.
    """

    parse: Parse


@runtime_checkable
class Guarded(Protocol):
    """A connector that reads data outside this machine's own files and therefore needs consent.

    For connectors without this protocol, adding the source is the consent. The exception is a `Paced` connector: it needs
    consent for the whole source, as one scope.
    """

    def scopes(self) -> Mapping[str, str]:
        """Return the scopes that need consent, as name and description, derived from the settings alone.

        Empty if the settings only cover this machine's own files. Settings that read more than before must produce a new name.
        """
        ...

    def scope_of(self, locator: str) -> str:
        """Return the scope that contains the item. Withdrawing consent for a scope purges the items in it."""
        ...


@runtime_checkable
class Connected(Protocol):
    """A connector that keeps connections open between calls."""

    def expect(self, items: Sequence[Item]) -> None:
        """Announce the items that this thread will fetch next, in order, so that one request can read several."""
        ...

    def close(self) -> None:
        """Close the connections. Idempotent; later calls reconnect."""
        ...


class Ended(NamedTuple):
    """Result of a program: the exit code (None if a limit of `Shell` stopped it) and its output."""

    code: int | None
    output: str


class Shell(Protocol):
    """Run a program to completion, with `environment` added to the environment of this process.

    The program and its child processes are killed after `seconds`, after `silence` seconds without output (if set), or when the
    output exceeds `MOST_OUTPUT` bytes.
    """

    def __call__(
        self, command: Sequence[str], environment: Mapping[str, str], seconds: float, silence: float | None = None
    ) -> Ended: ...


MOST_OUTPUT = 64_000_000
"""Maximum output of a program, in bytes. A remote host may control the output."""


@runtime_checkable
class Keeping(Protocol):
    """A connector that keeps files of its source in `folder`, which the engine assigns and deletes together with the source.

    It is not included when the connector is pickled.
    """

    folder: Path | None


@runtime_checkable
class Stocking(Keeping, Protocol):
    """A connector that keeps all its items in its folder: what it listed before a failure is read at once."""

    keeps_items: ClassVar[bool]


@runtime_checkable
class Mirrored(Keeping, Protocol):
    """A connector with files made by other programs. `shell` runs them, can be replaced, and is not pickled."""

    shell: Shell


@runtime_checkable
class Telling(Protocol):
    """A connector that runs programs, and passes what they report to `log`, line by line and without secrets.

    The engine replaces it by the log of the sync. It is not included when the connector is pickled.
    """

    log: Callable[[str], None]


class FileReader(Protocol):
    """The reader of a file format, made without arguments, in the parser processes only. It uses no files and no network."""

    media_type: ClassVar[str]

    def score(self, data: bytes, name: str) -> float:
        """Return how well it reads a file, by its content and its name; 0 if it cannot. Fast, as it is called for every file.

        The reader with the highest score reads the file. Catchment bids 1 for the formats that it reads, also for any text.
        """
        ...

    def read(self, data: bytes, name: str) -> Document:
        """Return the document, with its text in Markdown. Raises ParseError for damaged or encrypted content."""
        ...


class Destination(Protocol):
    """A place that documents are written to. One process writes to it at a time.

    Every method raises SinkUnavailable if the place cannot be reached or written now; the call is then repeated later.
    """

    batch: int
    """Maximum number of documents in one call of `write`."""
    wants_vectors: bool
    """Whether it receives embeddings, and documents again when these were made."""

    def write(self, changed: Sequence[DocumentCopy], removed: Collection[int]) -> None:
        """Store documents in place of their earlier versions, and delete others by ID. May be repeated.

        Raises DocumentRefused with the reason if a document cannot be stored. It is no error if the place does not have a
        removed document.
        """
        ...

    def close(self) -> None:
        """Close connections and files."""
        ...


class Sink(Destination, Protocol):
    """A place that is kept equal to the library. After a kill at any moment, the next calls bring it up to date."""

    is_folder: bool
    """Whether the place is a folder, and not an address."""

    def versions(self, after: int, last: int) -> Mapping[int, str]:
        """Return the versions of the documents that the place has, by ID, above `after` and up to `last`.

        If the place can detect that a document was altered there, its version differs from the written one.
        """
        ...

    def mark(self, stamp: str) -> None:
        """Store a short text in place of the previous one, once all documents written before are stored."""
        ...

    def stamp(self) -> str | None:
        """Return the text that `mark` stored last; None if there is none. Cheap: it reads no document.

        It belongs to the documents: a copy of the place has that of the time when the copy was made.
        """
        ...
