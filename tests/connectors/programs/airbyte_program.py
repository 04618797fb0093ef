"""A program: prints the streams of streams.json in the protocol of Airbyte; its configuration needs a `place`."""

from __future__ import annotations

import json
import pathlib
import sys

here = pathlib.Path(__file__).parent
arguments = dict(zip(sys.argv[2::2], sys.argv[3::2], strict=False))
command, streams = sys.argv[1], json.loads((here / "streams.json").read_text())


def say(**message):
    print(json.dumps(message), flush=True)


def described(name, of):
    cursor = {"source_defined_cursor": True, "default_cursor_field": [of["cursor"]]} if of.get("cursor") else {}
    modes = ["full_refresh", "incremental"] if cursor else ["full_refresh"]
    keys = [[key] for key in of["key"]]
    return {
        "name": name,
        "json_schema": {},
        "supported_sync_modes": modes,
        "source_defined_primary_key": keys,
        **cursor,
    }


if command == "spec":
    schema = {"required": ["place"], "properties": {"place": {"title": "Place of the orchard"}}}
    say(type="SPEC", spec={"connectionSpecification": schema})
    sys.exit()
config = json.loads(pathlib.Path(arguments["--config"]).read_text())
say(type="LOG", log={"level": "INFO", "message": "config is read"})
if command == "check":
    failed = {"status": "FAILED", "message": "no such place"}
    say(type="CONNECTION_STATUS", connectionStatus=failed if config["place"] == "nowhere" else {"status": "SUCCEEDED"})
if command == "discover":
    say(type="CATALOG", catalog={"streams": [described(name, of) for name, of in streams.items()]})
if command == "read":
    states = json.loads(pathlib.Path(arguments["--state"]).read_text()) if "--state" in arguments else []
    with (here / "calls.jsonl").open("a") as calls:
        calls.write(json.dumps({"states": states}) + "\n")
    seen = {each["stream"]["stream_descriptor"]["name"]: each["stream"]["stream_state"]["at"] for each in states}
    for each in json.loads(pathlib.Path(arguments["--catalog"]).read_text())["streams"]:
        name, cursor = each["stream"]["name"], (each["cursor_field"] or [None])[0]
        for record in streams[name]["records"]:
            if record == "die":
                error = {"message": "the orchard burns", "failure_type": "system_error"}
                say(type="TRACE", trace={"type": "ERROR", "error": error})
                sys.exit(1)
            if cursor and record[cursor] < seen.get(name, ""):
                continue
            say(type="RECORD", record={"stream": name, "data": record, "emitted_at": 1})
            at = record.get(cursor, "") if cursor else "complete"
            state = {"stream_descriptor": {"name": name}, "stream_state": {"at": at}}
            say(type="STATE", state={"type": "STREAM", "stream": state})
        status = {"stream_descriptor": {"name": name}, "status": streams[name].get("status", "COMPLETE")}
        say(type="TRACE", trace={"type": "STREAM_STATUS", "stream_status": status})
