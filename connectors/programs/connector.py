"""The connector for programs that print records."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import ClassVar

from catchment.content.foreign_json import read_json
from catchment.contracts import Known, Manifest, Parse, parse_here
from catchment.errors import SourceInvalid, SourceUnavailable, StillChanging, Vanished
from catchment.model import Change, Checkpoint, Item, RawContent, Root, Upsert, count
from catchment.runtime import atomic_files
from catchment.runtime.process import kill_in_environment
from catchment.settings import Limits, Policy, SourceSettings
from connectors.child_program import masked_words, on_one_line
from connectors.own_folder import own_folder
from connectors.programs.airbyte import Airbyte
from connectors.programs.calls import MOST_TOLD, ProgramCalls, end_of
from connectors.programs.document import StreamFields, content_of
from connectors.programs.program_listing import ProgramListing, container_of, digest, version_of
from connectors.programs.program_messages import MessageProtocol, Stream, as_json
from connectors.programs.record_store import RecordStore
from connectors.programs.settings import ProgramSettings
from connectors.programs.singer import Singer

_READ_AGAIN = "`catchment sync NAME --deep` reads all again"


class Program:
    """The connector for a program that prints records: each record is a document."""

    kind: ClassVar[str] = "program"
    manifest: ClassVar[Manifest] = Manifest(
        "Program",
        "the records that a program prints",
        place="Command: a program that prints Singer or Airbyte messages, with its arguments",
        example="tap-csv",
        deep="Read all streams from their beginning.",
        runs_programs=True,
        level="gold",
        exempt={
            "moves": "a record is known by its key alone",
            "parsers": "a listing parses only JSON, within limits of size and depth",
        },
    )
    settings: ClassVar[type[SourceSettings]] = ProgramSettings
    policy: ClassVar[Policy] = Policy(limits=Limits(max_mb=10))
    fetch_in_parser: ClassVar[bool] = False
    keeps_items: ClassVar[bool] = True

    def __init__(self, settings: ProgramSettings) -> None:
        self.configured = settings
        self.folder: Path | None = None
        self.log: Callable[[str], None] = lambda _line: None
        self.parse: Parse = parse_here
        self._protocol: MessageProtocol = Airbyte() if settings.is_airbyte else Singer(settings.protocol or "singer")
        self._max_bytes = settings.policy(self.policy).limits.max_bytes
        self._records: RecordStore | None = None

    def __reduce__(self) -> tuple[type[Program], tuple[ProgramSettings]]:
        return Program, (self.configured,)

    def scopes(self) -> Mapping[str, str]:
        command = masked_words(shlex.join(self.configured.command))
        return {self._scope: f"all that `{command}` does: it can read and send what you can"}

    def scope_of(self, locator: str) -> str:
        del locator
        return self._scope

    @property
    def _scope(self) -> str:
        """Another name for every other command, configuration and environment."""
        decisive = self.configured.model_dump(include={"command", "protocol", "config", "secrets", "environment"})
        return f"{self.configured.name} {digest(as_json(decisive))[:16]}"

    def probe(self) -> str:
        with self._run_folder() as run:
            run.require_configuration()
            catalog = end_of(run.catalog())
        if catalog is None:
            return f"{self.configured.name}: prints records"
        selected = self._selected(catalog)
        adding = count(sum(not stream.is_full for stream in selected.values()), "only adds", "only add")
        more = "" if adding.startswith("0") else f", of which {adding}"
        return f"{self.configured.name}: {len(selected)} of {count(len(catalog), 'stream')}{more}"

    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:
        yield Root({"": self.kind})
        store, marks = self._store(), known.marks()
        selected = digest(as_json(self.configured.streams))
        # A stream that was not read has records from before the state.
        is_continued = not deep and store.follows(marks.get("records")) and marks.get("streams") == selected
        state = read_json(marks["state"].encode()) if is_continued and "state" in marks else None
        if is_continued and marks.get("fields") != self._fields_mark:
            yield from self._with_other_fields(known)
        if not is_continued:
            yield Checkpoint({"streams": selected, "state": None})
        with self._run_folder() as run:
            catalog = yield from run.catalog()
            streams = None if catalog is None else self._selected(catalog)
            listing = ProgramListing(self.configured, self._protocol, store, known, streams, state)
            with run.started(self._protocol.arguments([*(streams or {}).values()], state, run.put)) as program:
                yield from listing.of(program, self._max_bytes)
        yield from listing.ended(catalog)
        yield Checkpoint({"fields": self._fields_mark})

    def fetch(self, item: Item) -> RawContent:
        if (row := self._store().get(item.locator)) is None:
            if not self._store().mark:
                raise SourceUnavailable(f"{self.configured.name}: its records are no longer kept; {_READ_AGAIN}")
            raise Vanished(f"its record is no longer kept; {_READ_AGAIN}")
        stream, data = row
        fields = self.configured.fields.get(stream, StreamFields())
        if version_of(data, fields) != item.version:
            raise StillChanging("changed since it was listed; the next sync reads it")
        return content_of(read_json(data), stream, item.locator.rpartition("/")[2], fields, self.parse)

    def expect(self, items: Sequence[Item]) -> None:
        """Do nothing: the records are on this machine."""

    def close(self) -> None:
        if self._records is not None:
            self._records.close()
            self._records = None

    @property
    def _fields_mark(self) -> str:
        return digest(as_json({name: each.model_dump() for name, each in self.configured.fields.items()}))

    def _with_other_fields(self, known: Known) -> Iterator[Change]:
        """List the kept records with other documents since the settings of their fields changed."""
        for stream, rows in groupby(self._store(), lambda row: row[1]):
            fields = self.configured.fields.get(stream, StreamFields())
            before = known.within(container_of(stream))
            for locator, _, data in rows:
                version = version_of(data, fields)
                if locator in before and before[locator].version != version:
                    yield Upsert(Item(locator, container_of(stream), version, None, len(data)))
            yield Checkpoint()

    def _selected(self, catalog: Mapping[str, Stream]) -> dict[str, Stream]:
        """Return the streams to read. Raises SourceInvalid if one of the settings is unknown."""
        names = self.configured.streams or tuple(catalog)
        if unknown := [name for name in (*names, *self.configured.fields) if name not in catalog]:
            present = on_one_line(", ".join(catalog))[:MOST_TOLD] or "none"
            raise SourceInvalid(f"{unknown[0]}: no stream of {self.configured.name}; it has {present}")
        cursors = {name: fields.cursor for name, fields in self.configured.fields.items() if fields.cursor}
        return {
            name: replace(catalog[name], is_full=False, cursor=cursors[name]) if name in cursors else catalog[name]
            for name in names
        }

    def _store(self) -> RecordStore:
        if self._records is None:
            self._records = RecordStore(self._own_folder())
        return self._records

    def _own_folder(self) -> Path:
        """Return the folder of this source, which it makes."""
        folder = own_folder(self)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    @contextmanager
    def _run_folder(self) -> Iterator[ProgramCalls]:
        """Yield a private folder with the configuration of the program. It is deleted, also after a kill: by the next run."""
        with atomic_files.explained():
            before = [*self._own_folder().glob(atomic_files.TEMPORARY)]
            folder = atomic_files.unfinished(self._own_folder() / "run")
            folder.mkdir(mode=0o700)
        for removed in before:
            if not removed.exists():
                kill_in_environment("TMPDIR", str(removed))  # what a run that was killed with us had started
        try:
            yield ProgramCalls(self.configured, self._protocol, folder, self.log)
        finally:
            atomic_files.remove(folder)
