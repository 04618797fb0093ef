"""The Singer protocol: `--config`, `--catalog`, `--state`, and JSON lines of SCHEMA, RECORD and STATE."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from catchment.content.foreign_json import read_json
from catchment.errors import SourceInvalid
from connectors.programs.program_messages import Message, Put, Record, State, Stream

_TYPES = ("SCHEMA", "RECORD", "STATE", "ACTIVATE_VERSION", "BATCH")


class Singer:
    """Understands the programs of Singer, and scripts that print its messages with any arguments.

    `protocol`: singer-legacy gives the catalog as `--properties`, plain uses none.
    """

    announces = True
    describe: tuple[str, ...] = ("--about", "--format=json")
    check: tuple[str, ...] = ()
    discover: tuple[str, ...] = ("--discover",)

    def __init__(self, protocol: str = "singer") -> None:
        self._catalog = "--properties" if protocol == "singer-legacy" else "--catalog"
        if protocol == "plain":
            self.describe = self.discover = ()

    def is_record(self, line: bytes) -> bool:
        return line.endswith(b"}") and read_json(line)["type"] in _TYPES

    def schema(self, output: bytes) -> Mapping[str, Any]:
        return dict(read_json(output)["settings"])

    def streams(self, output: bytes) -> Mapping[str, Stream]:
        streams = [_stream(entry) for entry in read_json(output)["streams"]]
        by_name = {stream.name: stream for stream in streams if _selected(stream)}
        if len(by_name) < len(streams):
            raise SourceInvalid("two streams have the same name; let its configuration leave one out")
        return by_name

    def arguments(self, streams: Collection[Stream], state: Any, put: Put) -> Sequence[str]:
        arguments = (
            [self._catalog, put("catalog", {"streams": [_selected(stream) for stream in streams]})] if streams else []
        )
        return [*arguments, *(["--state", put("state", state)] if state else [])]

    def understood(self, message: Mapping[str, Any]) -> Message | None:
        match message["type"]:
            case "RECORD":
                return Record(str(message["stream"]), message["record"])
            case "STATE":
                return State(message["value"])
            case "SCHEMA":
                key = tuple((str(name),) for name in message.get("key_properties") or ())
                return Stream(str(message["stream"]), key, not message.get("bookmark_properties"))
            case "BATCH":
                raise ValueError("a BATCH names files")
        return None

    def after(self, state: Any, new: Any, full: Collection[str]) -> Any:
        del state
        bookmarks = new.get("bookmarks") if isinstance(new, dict) else None
        if not isinstance(bookmarks, dict):
            return new
        rest = {key: value for key, value in new.items() if key not in ("currently_syncing", "bookmarks")}
        left = {name: mark for name, mark in bookmarks.items() if name not in full}
        return {**rest, "bookmarks": left} if rest or left else None


def _stream(entry: Mapping[str, Any]) -> Stream:
    whole = _of_stream(entry)
    method = (
        whole.get("forced-replication-method") or whole.get("replication-method") or entry.get("replication_method")
    )
    is_keyed = any((whole.get("valid-replication-keys"), whole.get("replication-key"), entry.get("replication_key")))
    key = entry.get("key_properties") or whole.get("table-key-properties") or ()
    # Its records have the name in `stream`; its state, that in `tap_stream_id`.
    name = str(entry.get("stream") or entry["tap_stream_id"])
    is_full = (method or ("" if is_keyed else "FULL_TABLE")) == "FULL_TABLE"
    return Stream(
        name, tuple((str(part),) for part in key), is_full, entry=entry, id=str(entry.get("tap_stream_id") or name)
    )


def _of_stream(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the metadata of a stream itself, not of its fields."""
    return next((dict(each["metadata"]) for each in entry.get("metadata") or () if not each["breadcrumb"]), {})


def _selected(stream: Stream) -> dict[str, Any]:
    """Return the entry of a stream with all fields selected: in its metadata, and as the first programs want it."""
    fields = [each for each in stream.entry.get("metadata") or () if each["breadcrumb"]]
    whole = _of_stream(stream.entry)
    keys = whole.get("valid-replication-keys") or ()
    cursor = (
        stream.cursor or whole.get("replication-key") or (keys if isinstance(keys, str) else next(iter(keys), None))
    )
    method: dict[str, Any] = {"replication-method": "FULL_TABLE"}
    if not stream.is_full:
        method = {"replication-method": "INCREMENTAL", "replication-key": cursor}
    return {
        **stream.entry,
        "selected": True,
        "schema": {**(stream.entry.get("schema") or {}), "selected": True},
        "metadata": [
            {"breadcrumb": [], "metadata": {**whole, **method, "selected": True}},
            *({**each, "metadata": {**each["metadata"], "selected": True}} for each in fields),
        ],
    }
