"""The Airbyte protocol: `spec`, `check`, `discover` and `read`, and JSON lines of RECORD, STATE, LOG and TRACE."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from catchment.content.foreign_json import read_json
from connectors.programs.program_messages import LogLine, Message, NotAccepted, Put, Record, State, Stream, StreamEnd

_INCREMENTAL = "incremental"


class Airbyte:
    """Understands the programs of Airbyte, with one state for each stream, or one for all."""

    announces = False
    describe: tuple[str, ...] = ("spec",)
    check: tuple[str, ...] = ("check",)
    discover: tuple[str, ...] = ("discover",)

    def is_record(self, line: bytes) -> bool:
        del line
        return False

    def schema(self, output: bytes) -> Mapping[str, Any]:
        return dict(_message(output, "SPEC")["spec"]["connectionSpecification"])

    def streams(self, output: bytes) -> Mapping[str, Stream]:
        streams = (_stream(entry) for entry in _message(output, "CATALOG")["catalog"]["streams"])
        return {stream.name: stream for stream in streams}

    def arguments(self, streams: Collection[Stream], state: Any, put: Put) -> Sequence[str]:
        arguments = ["read", "--catalog", put("catalog", {"streams": [_configured(stream) for stream in streams]})]
        if not state:
            return arguments
        return [*arguments, "--state", put("state", state.get("legacy") or [*state.get("streams", {}).values()])]

    def understood(self, message: Mapping[str, Any]) -> Message | None:
        match message["type"]:
            case "RECORD":
                return Record(_name(message["record"], "stream"), message["record"]["data"])
            case "STATE":
                return State(message["state"])
            case "LOG":
                return LogLine(str(message["log"]["message"]))
            case "CONNECTION_STATUS" if message["connectionStatus"]["status"] == "FAILED":
                return NotAccepted(str(message["connectionStatus"]["message"]))
            case "TRACE" if message["trace"]["type"] == "ERROR":
                error = message["trace"]["error"]
                is_configuration = error.get("failure_type") == "config_error"
                return (NotAccepted if is_configuration else LogLine)(str(error["message"]))
            case "TRACE" if message["trace"]["type"] == "STREAM_STATUS":
                status = message["trace"]["stream_status"]
                is_over = status["status"] in ("COMPLETE", "INCOMPLETE")
                name = _name(status["stream_descriptor"])
                return StreamEnd(name, status["status"] == "COMPLETE") if is_over else None
        return None

    def after(self, state: Any, new: Any, full: Collection[str]) -> Any:
        kind = new.get("type", "LEGACY")
        if kind == "LEGACY":
            return {"legacy": new["data"]} if new["data"] else state
        name = _name(new["stream"]["stream_descriptor"]) if kind == "STREAM" else ""
        known = {} if state is None else state.get("streams", {})
        return (
            state if name in full else {"streams": {**known, name: {key: new[key] for key in ("type", kind.lower())}}}
        )


def _message(output: bytes, kind: str) -> Mapping[str, Any]:
    """Return the message of a kind, which other messages may precede; empty without one."""
    messages = [read_json(line) for line in output.splitlines() if line.startswith(b"{")]
    message = next((message for message in messages if message["type"] == kind), None)
    return dict(message or {})


def _stream(entry: Mapping[str, Any]) -> Stream:
    modes = entry.get("supported_sync_modes") or ()
    has_cursor = entry.get("source_defined_cursor") or entry.get("default_cursor_field")
    key = tuple(tuple(map(str, path)) for path in entry.get("source_defined_primary_key") or ())
    return Stream(_name(entry), key, not (_INCREMENTAL in modes and has_cursor), entry=entry)


def _name(entry: Mapping[str, Any], field: str = "name") -> str:
    return f"{entry['namespace']}.{entry[field]}" if entry.get("namespace") else str(entry[field])


def _configured(stream: Stream) -> dict[str, Any]:
    return {
        "stream": stream.entry,
        "sync_mode": "full_refresh" if stream.is_full else _INCREMENTAL,
        "destination_sync_mode": "overwrite" if stream.is_full else "append",
        "cursor_field": [stream.cursor] if stream.cursor else stream.entry.get("default_cursor_field") or [],
        "primary_key": [list(path) for path in stream.key],
    }
