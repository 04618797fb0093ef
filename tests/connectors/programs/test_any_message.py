"""Valid JSON of any type in every field of every message: it is refused alone, or means something, and never ends a sync."""

from __future__ import annotations

import copy
import json
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.contracts import NothingKnown, parse_here
from catchment.errors import ItemError, SourceError
from catchment.model import Checkpoint, Upsert
from connectors.child_program import OutputLine
from connectors.programs.airbyte import Airbyte
from connectors.programs.calls import ProgramCalls, end_of
from connectors.programs.document import StreamFields, content_of
from connectors.programs.program_listing import ProgramListing
from connectors.programs.program_messages import MessageProtocol, as_json
from connectors.programs.record_store import RecordStore
from connectors.programs.settings import ProgramSettings
from connectors.programs.singer import Singer

_RECORD = {"id": 1, "name": "Alder", "body": "text", "updated_at": "2026-01-01", "html_url": "https://example.org/"}
_ENTRY = {
    "tap_stream_id": "texts",
    "stream": "texts",
    "key_properties": ["id"],
    "replication_method": "",
    "replication_key": "updated_at",
    "schema": {"properties": {}},
    "metadata": [
        {
            "breadcrumb": [],
            "metadata": {
                "forced-replication-method": "",
                "replication-method": "FULL_TABLE",
                "table-key-properties": ["id"],
                "valid-replication-keys": ["updated_at"],
                "replication-key": "updated_at",
            },
        },
        {"breadcrumb": ["properties", "id"], "metadata": {"inclusion": "automatic"}},
    ],
}
SINGER: list[dict[str, Any]] = [
    {"type": "SCHEMA", "stream": "texts", "schema": {}, "key_properties": ["id"], "bookmark_properties": ["id"]},
    {"type": "RECORD", "stream": "texts", "record": _RECORD, "time_extracted": "2026-01-01"},
    {"type": "STATE", "value": {"bookmarks": {"texts": {"id": 1}}, "currently_syncing": "texts"}},
    {"type": "ACTIVATE_VERSION", "stream": "texts", "version": 1},
    {"type": "BATCH", "stream": "texts", "manifest": []},
]
_DESCRIPTOR = {"name": "texts", "namespace": "public"}
AIRBYTE: list[dict[str, Any]] = [
    {"type": "RECORD", "record": {"stream": "texts", "namespace": "public", "data": _RECORD, "emitted_at": 1}},
    {"type": "STATE", "state": {"type": "STREAM", "stream": {"stream_descriptor": _DESCRIPTOR, "stream_state": {}}}},
    {"type": "STATE", "state": {"type": "GLOBAL", "global": {"shared_state": {}, "stream_states": []}}},
    {"type": "STATE", "state": {"data": {"texts": {}}}},
    {"type": "LOG", "log": {"level": "INFO", "message": "words"}},
    {"type": "TRACE", "trace": {"type": "ERROR", "error": {"message": "words", "failure_type": "system_error"}}},
    {
        "type": "TRACE",
        "trace": {"type": "STREAM_STATUS", "stream_status": {"stream_descriptor": _DESCRIPTOR, "status": "COMPLETE"}},
    },
    {"type": "CONNECTION_STATUS", "connectionStatus": {"status": "FAILED", "message": "words"}},
    {"type": "CONTROL", "control": {}},
]
_AIRBYTE_ENTRY = {
    "name": "texts",
    "namespace": "public",
    "json_schema": {},
    "supported_sync_modes": ["full_refresh", "incremental"],
    "source_defined_cursor": True,
    "default_cursor_field": ["updated_at"],
    "source_defined_primary_key": [["id"]],
}
_SPEC = {"required": ["a", "b"], "properties": {"a": {"title": "A", "default": 1}, "b": {"description": "B"}}}
CATALOGS: list[tuple[MessageProtocol, Any]] = [
    (Singer(), {"streams": [_ENTRY, {**_ENTRY, "stream": "other"}]}),
    (Airbyte(), {"type": "CATALOG", "catalog": {"streams": [_AIRBYTE_ENTRY, _AIRBYTE_ENTRY]}}),
]
SPECIFICATIONS: list[tuple[MessageProtocol, Any]] = [
    (Singer(), {"settings": _SPEC}),
    (Airbyte(), {"type": "SPEC", "spec": {"connectionSpecification": _SPEC}}),
]

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
_NOTHING = object()


class Lines:
    """A program that has printed its lines."""

    name = "tap"
    reason = ""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines

    def lines(self, longest: int) -> Iterator[OutputLine]:
        yield from (OutputLine(line, len(line)) for line in self._lines)

    def say(self, text: str) -> None:
        text.replace("a", "b")


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to each value in a JSON value."""
    yield at
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*at, key))


def with_other(message: Any, at: tuple[Any, ...], value: Any) -> Any:
    """Return a message with another value at a path; without it, for `_NOTHING`."""
    if not at:
        return {} if value is _NOTHING else value
    made = copy.deepcopy(message)
    inner = made
    for key in at[:-1]:
        inner = inner[key]
    if value is _NOTHING:
        del inner[at[-1]]
    else:
        inner[at[-1]] = value
    return made


@st.composite
def altered(draw: st.DrawFn, message: Any) -> Any:
    for _ in range(draw(st.integers(1, 2))):
        message = with_other(message, draw(st.sampled_from([*places(message)])), draw(VALUES | st.just(_NOTHING)))
    return message


def listed(folder: Path, protocol: MessageProtocol, messages: list[Any]) -> None:
    settings = ProgramSettings(command=("/bin/true",))
    store = RecordStore(folder)
    listing = ProgramListing(settings, protocol, store, NothingKnown(), None, None)
    try:
        program: Any = Lines([json.dumps(message).encode() for message in messages])
        changes = [*listing.of(program, 1_000_000), *listing.ended(None)]
        for change in changes:
            if isinstance(change, Upsert):
                row = store.get(change.item.locator)
                assert row is not None
                content_of(json.loads(row[1]), row[0], "key", StreamFields(), parse_here)
        protocol.arguments([], listing._state, lambda name, value: as_json(value).decode())
    except (SourceError, ItemError):
        pass
    finally:
        store.close()


@pytest.mark.parametrize(("protocol", "messages"), [(Singer(), SINGER), (Airbyte(), AIRBYTE)])
def test_any_value_in_any_field_of_a_message(
    protocol: MessageProtocol, messages: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("records")
    kinds: list[Any] = [None, True, 5, 1.5, "", "a/b", [], [None], {}, {"a": None}, [[]], _NOTHING]
    for message in messages:
        for place in places(message):
            for value in kinds:
                listed(folder, protocol, [with_other(message, place, value), *messages])

    @given(st.lists(st.sampled_from(messages).flatmap(altered), max_size=4))
    def fuzzed(drawn: list[Any]) -> None:
        listed(folder, protocol, drawn)

    fuzzed()


def calls_of(protocol: MessageProtocol, value: Any) -> ProgramCalls:
    """Return the calls of a program that prints this value."""

    def printed(*_arguments: Any, **_named: Any) -> Generator[Checkpoint, None, bytes]:
        yield Checkpoint()
        return json.dumps(value).encode()

    calls = ProgramCalls.__new__(ProgramCalls)
    calls._settings, calls._protocol = ProgramSettings(command=("/bin/true",)), protocol
    calls._printed = printed  # type: ignore[method-assign]
    return calls


@pytest.mark.parametrize(("protocol", "catalog"), CATALOGS)
def test_any_value_in_any_field_of_a_catalog(protocol: MessageProtocol, catalog: Any, tmp_path: Path) -> None:
    @given(altered(catalog))
    def fuzzed(drawn: Any) -> None:
        try:
            streams = end_of(calls_of(protocol, drawn).catalog()) or {}
        except SourceError:
            return
        assert all(isinstance(name, str) for name in streams)
        protocol.arguments([*streams.values()], None, lambda name, value: as_json(value).decode())

    fuzzed()


@pytest.mark.parametrize(("protocol", "about"), SPECIFICATIONS)
def test_any_value_in_any_field_of_a_specification(protocol: MessageProtocol, about: Any) -> None:
    @given(altered(about))
    def fuzzed(drawn: Any) -> None:
        try:
            calls_of(protocol, drawn).require_configuration()
        except SourceError as error:
            assert str(error).isprintable()

    fuzzed()
