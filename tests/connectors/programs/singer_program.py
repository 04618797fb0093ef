"""A program: prints the streams of streams.json, with a catalog, bookmarks and states, and notes how it was called."""

from __future__ import annotations

import json
import pathlib
import sys

here = pathlib.Path(__file__).parent
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=False)) if len(sys.argv) % 2 else {}
config = json.loads(pathlib.Path(arguments.get("--config") or sys.argv[-1]).read_text())
streams = json.loads((here / "streams.json").read_text())
with (here / "calls.jsonl").open("a") as calls:
    state = json.loads(pathlib.Path(arguments["--state"]).read_text()) if "--state" in arguments else None
    flags = [each for each in sys.argv[1:] if each[0] == "-"]
    calls.write(json.dumps({"arguments": flags, "config": config, "state": state}) + "\n")


def entry(name, of):
    keys = {"valid-replication-keys": [of["cursor"]]} if of.get("cursor") else {}
    whole = {"breadcrumb": [], "metadata": {"inclusion": "available", "table-key-properties": of["key"], **keys}}
    return {"tap_stream_id": name, "stream": name, "schema": {"type": "object", "properties": {}}, "metadata": [whole]}


if "--discover" in sys.argv:
    print(json.dumps({"streams": [entry(name, of) for name, of in streams.items()]}, indent=2))
    sys.exit()
if "--about" in sys.argv:
    sys.exit("unknown option --about")
print("hello from the tap", file=sys.stderr)
is_legacy = any(of.get("is_legacy") for of in streams.values())
if ("--properties" if is_legacy else "--catalog") not in arguments:
    sys.exit()
catalog = json.loads(pathlib.Path(arguments["--properties" if is_legacy else "--catalog"]).read_text())
bookmarks = (state or {}).get("bookmarks", {})
for each in catalog["streams"]:
    whole = each["metadata"][0]["metadata"]
    assert whole["selected"] is True
    name = each["tap_stream_id"]
    of = streams[name]
    cursor = whole["replication-key"] if whole["replication-method"] == "INCREMENTAL" else None
    schema = {"schema": {}, "key_properties": of["key"], "bookmark_properties": [cursor] if cursor else []}
    print(json.dumps({"type": "SCHEMA", "stream": name, **schema}))
    for record in of["records"]:
        if record == "stop":
            sys.exit(0)
        if record == "die":
            sys.stdout.flush()
            sys.exit(3)
        if cursor and record[cursor] < bookmarks.get(name, ""):
            continue
        print(json.dumps({"type": "RECORD", "stream": name, "record": {**record, "_sdc_extracted_at": "now"}}))
        if cursor:
            bookmarks[name] = record[cursor]
            print(json.dumps({"type": "STATE", "value": {"bookmarks": bookmarks}}))
    if "states" in streams:
        print(json.dumps({"type": "STATE", "value": {"bookmarks": {name: "complete"}}}))
