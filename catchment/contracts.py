"""What a plug-in must meet. One contract: a connector, and the view of the ledger that it is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Protocol, runtime_checkable

from catchment.model import Change, Item, KnownItem, RawContent
from catchment.pacing import Limits, Pace
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
    fetch_in_sandbox: ClassVar[bool]
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
class Paced(Protocol):
    """What a connector has besides when it asks a host: it does each exchange `with self.pace.transfer()`.

    It begins with a `Pace` of its own, which lets everything pass; the engine sets a metered one before a sync, and so does
    whoever wants another. A pace may be pickled with its connector: the copy is free.
    """

    pace: Pace

    def limits(self) -> Limits:
        """The host, and how it is to be treated; from the settings alone."""
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
