"""One listing of a program: its messages as changes of items, with its state as the cursor."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from catchment.content.foreign_json import read_json
from catchment.contracts import Known
from catchment.errors import ItemError, ParseError, ResourceExhausted, SourceError, SourceInvalid
from catchment.model import Change, Checkpoint, Failure, Item, KnownItem, Tombstone, Upsert, size
from connectors.child_program import ChildProgram, OutputLine
from connectors.folders.excluded import no_longer_listed
from connectors.programs.calls import report
from connectors.programs.document import StreamFields, value_at
from connectors.programs.program_messages import (
    NONSENSE,
    Message,
    MessageProtocol,
    Record,
    State,
    Stream,
    StreamEnd,
    as_json,
)
from connectors.programs.record_store import RecordStore
from connectors.programs.settings import ProgramSettings

_PER_CHECKPOINT = 2_000
_BYTES_PER_CHECKPOINT = 16_000_000
_SECONDS_PER_CHECKPOINT = 2.0
_MOST_UNREADABLE = 100
_LONGEST_KEY = 150
_UNREADABLE = ""
"""The container of messages that cannot be read."""
_UNSAFE = re.compile(r"[%/,\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_OF_A_RUN = ("_sdc_", "_airbyte_")
"""Fields that differ in every run."""
_DELETED = ("_sdc_deleted_at", "_ab_cdc_deleted_at")


class ProgramListing:
    """The messages of one run as changes. `streams`: those of the catalog that are read; None if there is no catalog.

    A stream that is read from its beginning is compared with the known records, if the program has read it to its end. Without
    a catalog, these are all, unless the program prints a state.
    """

    def __init__(
        self,
        settings: ProgramSettings,
        protocol: MessageProtocol,
        store: RecordStore,
        known: Known,
        streams: Mapping[str, Stream] | None,
        state: Any,
    ) -> None:
        self._settings, self._protocol, self._store, self._known = settings, protocol, store, known
        self._catalog, self._streams = streams, dict(streams or {})
        self._full = {stream.name for stream in self._streams.values() if stream.is_full}
        self._full_in_state = {self._streams[name].id or name for name in self._full}
        self._state = state
        self._is_continued = state is not None
        self._rows: list[tuple[str, str, bytes]] = []
        self._changes: list[Change] = []
        self._bytes = 0
        self._stored = time.monotonic()
        self._left: dict[str, dict[str, KnownItem]] = {}
        self._begun: set[str] = set()
        self._ends: dict[str, bool] = {}
        self._is_cut: bool | None = None
        """Whether records follow on its last state: such a program was stopped, also if it ended with code 0."""
        self._lines = self._unreadable = 0

    def of(self, program: ChildProgram, longest: int) -> Iterator[Change]:
        """Yield the changes that the messages of a program mean. `longest`: bytes of one. Raises SourceError."""
        try:
            for line in program.lines(longest):
                if line is not None:
                    self._take(program, line, longest)
                is_full = len(self._changes) >= _PER_CHECKPOINT or self._bytes >= _BYTES_PER_CHECKPOINT
                # Also while it is silent: between two changes, a sync can be stopped.
                if line is None or is_full or time.monotonic() - self._stored > _SECONDS_PER_CHECKPOINT:
                    yield from self._checkpoint()
        except SourceError:
            yield from self._checkpoint()
            raise
        yield from self._checkpoint()

    def ended(self, catalog: Mapping[str, Stream] | None) -> Iterator[Change]:
        """Yield the deletions after a run that ended well: records and streams that are missing or no longer selected."""
        if self._catalog and self._protocol.announces and not self._begun:
            name = self._settings.name
            raise SourceInvalid(
                f"{name}: printed none of its streams; if it is an old program, set protocol=singer-legacy"
            )
        if self._unreadable:
            return  # any of them may be in a message that cannot be read
        if not self._is_continued:
            yield from self._missing(_UNREADABLE)
        names = {container_of(name): name for name in (*self._streams, *(catalog or {}))}
        for container in sorted(self._known.containers() - {_UNREADABLE}):
            name = names.get(container, container)
            is_gone = catalog is not None and name not in catalog and name not in self._streams
            if is_gone or (self._is_full(name) and self._is_complete(name)):
                yield from self._missing(container)
            elif catalog is not None and name not in self._streams:
                excluded = [*self._left_in(container)]
                yield from no_longer_listed(self._known, container, is_deleted=False)
                self._store.drop(excluded)

    def _is_full(self, name: str) -> bool:
        if self._catalog is None:
            return self._state is None and (name not in self._streams or self._streams[name].is_full)
        return name in self._full

    def _is_complete(self, name: str) -> bool:
        if self._ends or self._catalog is None:
            return self._ends.get(name, self._catalog is None)
        return name in self._begun and not self._is_cut

    def _missing(self, container: str) -> Iterator[Change]:
        missing = [*self._left_in(container)]
        yield from (Tombstone(locator) for locator in missing)
        self._store.drop(missing)

    def _take(self, program: ChildProgram, line: OutputLine, longest: int) -> None:
        self._lines += 1
        if line.size > longest:
            problem = f"line {self._lines:,}: a message of {size(line.size)}; raise limits.max_mb, and `sync --deep`"
            self._fail(program, line, ResourceExhausted(problem))
        elif not line.data.lstrip().startswith(b"{"):
            program.say(line.data.decode("utf-8", "replace"))
        else:
            try:
                self._follow(program, self._protocol.understood(read_json(line.data)))
            except NONSENSE:
                problem = f"line {self._lines:,}: no message of its protocol; see the program's documents"
                self._fail(program, line, ParseError(problem))

    def _follow(self, program: ChildProgram, message: Message | None) -> None:
        match message:
            case Record():
                self._add(message)
            case State(value):
                self._state = self._protocol.after(self._state, value, self._full_in_state)
                self._is_cut = False
            case Stream(name=name) if self._is_wanted(name):
                self._begun.add(name)
                is_full = name in self._full if self._catalog is not None else message.is_full
                key = message.key or (self._streams[name].key if name in self._streams else ())
                self._streams[name] = Stream(name, key, is_full)
            case StreamEnd(name, is_complete):
                self._ends[name] = is_complete
            case _:
                report(program, message)

    def _is_wanted(self, name: str) -> bool:
        return not self._settings.streams or name in self._settings.streams

    def _add(self, record: Record) -> None:
        if not self._is_wanted(record.stream):
            return
        self._begun.add(record.stream)
        self._is_cut = self._is_cut is not None
        stream = self._streams.setdefault(record.stream, Stream(record.stream))
        fields = self._settings.fields.get(record.stream, StreamFields())
        values = {name: value for name, value in record.values.items() if not name.startswith(_OF_A_RUN)}
        data = as_json(values)
        container = container_of(record.stream)
        key = tuple(tuple(path.split(".")) for path in fields.key) or stream.key
        locator = f"{container}/{_key(values, key, data)}"
        version = version_of(data, fields)
        before = self._left_in(container).pop(locator, None) if self._is_full(record.stream) else None
        if any(record.values.get(name) for name in _DELETED):
            self._changes.append(Tombstone(locator))
            self._store.drop([locator])
            return
        is_same = before is not None and before.version == version
        if not is_same or self._store.get(locator) != (record.stream, data):
            self._rows.append((locator, record.stream, data))
            self._bytes += len(data)
        if not is_same:
            self._changes.append(Upsert(Item(locator, container, version, None, len(data))))

    def _left_in(self, container: str) -> dict[str, KnownItem]:
        """Return the known items of a container that this run has not listed."""
        if container not in self._left:
            self._left[container] = dict(self._known.within(container))
        return self._left[container]

    def _fail(self, program: ChildProgram, line: OutputLine, error: ItemError) -> None:
        self._unreadable += 1
        if self._unreadable > _MOST_UNREADABLE:
            raise SourceInvalid(f"{program.name}: more than {_MOST_UNREADABLE} lines are no messages; check `protocol`")
        name = digest(line.data + str(line.size).encode())[:16]
        self._changes.append(Failure(Item(f"unreadable/{name}", _UNREADABLE, name, None, line.size), error))

    def _checkpoint(self) -> Iterator[Change]:
        changes, rows, self._changes, self._rows, self._bytes = self._changes, self._rows, [], [], 0
        mark = self._store.put(rows) if rows else self._store.mark
        self._stored = time.monotonic()
        yield from changes
        # Without a state, each run prints all records again.
        state = None if self._state is None else as_json(self._state).decode()
        yield Checkpoint({"state": state, "records": None if state is None else mark})


def digest(data: bytes) -> str:
    """Return 32 hexadecimal digits that differ for other data."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def container_of(stream: str) -> str:
    """Return the container of the records of a stream."""
    return _safe(stream)


def version_of(data: bytes, fields: StreamFields) -> str:
    """Return the version of a record, with the settings of its fields: both decide about its document."""
    if fields.leave_out:
        data = as_json({name: value for name, value in read_json(data).items() if name not in fields.leave_out})
    return digest(data + as_json(fields.model_dump()))


def _key(values: Mapping[str, Any], paths: Collection[tuple[str, ...]], data: bytes) -> str:
    """Return the name of a record in its stream: its key, or without one a digest of its content."""
    parts = [value_at(values, path) for path in paths]
    if not parts or None in parts:
        return digest(data)
    name = ",".join(_safe(part if isinstance(part, str) else as_json(part).decode()) for part in parts)
    return name if len(name) <= _LONGEST_KEY else f"{name[:_LONGEST_KEY]}~{digest(name.encode())[:16]}"


def _safe(text: str) -> str:
    return _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode(errors="surrogatepass")), text)
