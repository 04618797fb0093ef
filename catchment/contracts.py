"""What a plug-in must meet. One contract: a connector, its view of the ledger, and what it may have besides."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

from catchment.model import Change, Item, KnownItem, RawContent
from catchment.pacing import HostLimits, Pace
from catchment.settings import Policy, SourceSettings


class Known(Protocol):
    """What the ledger knows of one source, as it was when the sync began. Reading it is cheap and never blocks a writer."""

    def marks(self) -> Mapping[str, str]:
        """The cursor: every mark that earlier checkpoints left."""
        ...

    def within(self, container: str) -> Mapping[str, KnownItem]:
        """The present items listed directly in `container`, by locator; skipped and failing ones too, deleted ones not."""
        ...

    def containers(self) -> frozenset[str]:
        """Every container that holds at least one present item."""
        ...


class Connector(Protocol):
    """The code for one kind of source. Pure: it reads its source and says what it sees; it never writes anything.

    An instance is made from its settings alone, does nothing in `__init__`, and pickles (a parser process gets a copy).
    """

    kind: ClassVar[str]
    settings: ClassVar[type[SourceSettings]]
    policy: ClassVar[Policy]
    fetch_in_parser: ClassVar[bool]
    """True where `fetch` may run in any parser process; False where it needs the connection of this one."""

    def __init__(self, settings: SourceSettings) -> None: ...

    def probe(self) -> str:
        """Check that the source can be read and say so in one line for a person.

        Raises SourceUnavailable, LoginFailed or BadInput with the remedy. Cheap; may be called at any time.
        """
        ...

    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:
        """Say what is different from `known`, in any order, `Root` first and a `Checkpoint` last.

        Idempotent: saying again what is known does nothing. May yield tens of thousands of changes between two checkpoints,
        but should checkpoint at least every few thousand where its marks allow it. Where it costs little, the `Tombstone`s
        come before the `Upsert`s of new locators, so that a move is recognised at once. Nothing before a checkpoint is lost
        and nothing after it is counted on. `deep` compares contents where the ordinary comparison trusts a fingerprint.
        Raises SourceError when the source as a whole cannot be listed; a single odd item is a `Failure`, never an exception.
        """
        ...

    def fetch(self, item: Item) -> RawContent:
        """Read one item, in exactly the version that `item` says; may read ahead and serve the next ones from memory.

        Raises ItemError (`Vanished`, `StillChanging`, `AccessDenied`, `Skipped`, …) or SourceError.
        """
        ...


@runtime_checkable
class Watchable(Protocol):
    """What a connector has besides when somebody can see which items change, and need not compare the others then."""

    def changes_at(self, known: Known, paths: Collection[str]) -> Iterator[Change]:
        """As `changes`, of what is at these paths, below them, and directly in the folders that they are in; nothing else has
        changed. Paths are relative to the root, as the system spells them; some may be gone, or not wanted.
        """
        ...


@runtime_checkable
class Paced(Protocol):
    """What a connector has besides when it asks a host: it does each exchange `with self.pace.transfer()`.

    It begins with a `Pace` of its own, which lets everything pass; the engine sets a metered one before a sync, and so does
    whoever wants another. A pace may be pickled with its connector: the copy is free.
    """

    pace: Pace

    def limits(self) -> HostLimits:
        """The host, and how it is to be treated; from the settings alone."""
        ...


@runtime_checkable
class Guarded(Protocol):
    """What a connector has besides when it reads what a person must have agreed to: more than this machine's own files.

    Of a connector that has none of it, adding the source is the consent; unless it asks a host (`Paced`): then a person is
    asked about all of it at once.
    """

    def scopes(self) -> Mapping[str, str]:
        """What a person must have agreed to before anything is read, by name, in words that say what. From the settings alone:
        none where they lead to this machine's own files only, and a new one where they ask for more than before.
        """
        ...

    def scope_of(self, locator: str) -> str:
        """The scope that an item belongs to: what is purged with it when consent is taken back."""
        ...


@runtime_checkable
class Connected(Protocol):
    """What a connector has besides when it reads over connections that it keeps."""

    def expect(self, items: Sequence[Item]) -> None:
        """This thread asks for these items next, in this order: several may be read with one request."""
        ...

    def close(self) -> None:
        """Give up the connections; may be called again, and whatever is asked next connects anew."""
        ...


class Ended(NamedTuple):
    """How a program ended: its exit code, None where it was stopped at a limit of `Shell`, and all that it wrote."""

    code: int | None
    said: str


class Shell(Protocol):
    """Runs a program to its end. What goes into the environment is added to that of this process.

    The program is killed, with all that it started, after so many `seconds`, after `silence` seconds without output if that
    is given, and once it has written more than `MOST_OUTPUT` bytes.
    """

    def __call__(
        self, command: Sequence[str], environment: Mapping[str, str], seconds: float, silence: float | None = None
    ) -> Ended: ...


MOST_OUTPUT = 64_000_000
"""Bytes that a program may write: it passes on what a host sends."""


@runtime_checkable
class Mirrored(Protocol):
    """What a connector has besides when it keeps a copy of its source on this machine, made by another program.

    The engine says which `folder` is the source's own; it goes with the source. Who runs syncs may say by which `shell`
    programs are run. Neither travels with a pickled connector.
    """

    folder: Path | None
    shell: Shell
