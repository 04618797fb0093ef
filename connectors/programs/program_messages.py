"""The messages of programs, in the form that both protocols share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import orjson

KeyPaths = tuple[tuple[str, ...], ...]
"""The fields that identify a record, each as the path to it; empty if there are none."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One kind of record of a program: a table.

    Attributes:
        is_full: Whether the program prints all of its records each time, so that the missing ones are deleted.
        cursor: The field by which only new records are read, if it is not full; "" if the program decides.
        entry: Its entry in the program's catalog.
        id: Its name in the state, if that is another one.
    """

    name: str
    key: KeyPaths = ()
    is_full: bool = True
    cursor: str = ""
    entry: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""


class Record(NamedTuple):
    """A record of a stream."""

    stream: str
    values: Mapping[str, Any]


class State(NamedTuple):
    """The place up to which the program has read. It gets it at its next start."""

    value: Any


class NotAccepted(NamedTuple):
    """Why the program cannot work with its configuration."""

    text: str


class LogLine(NamedTuple):
    """A line for the log."""

    text: str


class StreamEnd(NamedTuple):
    """The program has read a stream, to its end or not."""

    stream: str
    is_complete: bool


NONSENSE = (ValueError, KeyError, TypeError, AttributeError, IndexError)
"""The errors from reading other data as messages."""

Message = Stream | Record | State | LogLine | NotAccepted | StreamEnd

Put = Callable[[str, Any], str]
"""Writes a JSON file by its name, and returns its path."""


class MessageProtocol(Protocol):
    """The calls and the messages of a program. `state` is a result of `after`."""

    describe: tuple[str, ...]
    """The arguments with which it describes its configuration; empty if it cannot."""
    check: tuple[str, ...]
    """The arguments with which it checks its configuration; empty if it cannot."""
    announces: bool
    """Whether each stream begins with a `Stream`, also without records."""
    discover: tuple[str, ...]
    """The arguments with which it prints its catalog; empty if it has none."""

    def is_record(self, line: bytes) -> bool:
        """Return whether a line of another output is a record already. Raises as `understood`."""
        ...

    def schema(self, output: bytes) -> Mapping[str, Any]:
        """Return the JSON schema of the configuration. Raises as `understood`."""
        ...

    def streams(self, output: bytes) -> Mapping[str, Stream]:
        """Return the streams of a catalog. Raises as `understood`."""
        ...

    def arguments(self, streams: Collection[Stream], state: Any, put: Put) -> Sequence[str]:
        """Return the arguments with which it reads these streams."""
        ...

    def understood(self, message: Mapping[str, Any]) -> Message | None:
        """Return the meaning of a message; None if it has none. Raises one of `NONSENSE` for other data."""
        ...

    def after(self, state: Any, new: Any, full: Collection[str]) -> Any:
        """Return the state with a newer one, without the streams that are read from their beginning each time."""
        ...


def as_json(value: Any) -> bytes:
    """Return a value as JSON, with sorted keys."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
