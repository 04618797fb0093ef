"""Programs for the tests: scripts that print messages as a file beside them says."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

_PRINTS_RECORDS = """
import json, pathlib, sys
records = json.loads(pathlib.Path(__file__).with_name("records.json").read_text())
print(json.dumps({"type": "SCHEMA", "stream": "texts", "schema": {}, "key_properties": ["id"]}))
for key, text in records.items():
    if text == "{no board":
        print("{no message")
    else:
        print(json.dumps({"type": "RECORD", "stream": "texts", "record": {"id": key, "body": text}}))
"""


def write_script(folder: Path, code: str = _PRINTS_RECORDS) -> Path:
    """Write a program into a folder; return its path. Without `code`, it prints the records of `write_records`."""
    path = folder / "tap.py"
    path.write_text(f"#!{sys.executable}\n{code}")
    path.chmod(0o755)
    return path


def write_records(folder: Path, texts: Mapping[str, str]) -> None:
    """Set the records that the script in a folder prints."""
    (folder / "records.json").write_text(json.dumps(texts))


SINGER, AIRBYTE = (Path(__file__).with_name(name).read_text() for name in ("singer_program.py", "airbyte_program.py"))


def write_streams(folder: Path, **streams: Mapping[str, object]) -> None:
    """Set the streams of `SINGER` and `AIRBYTE`: `key`, `records`, and `cursor` of incremental ones; "die" fails there."""
    (folder / "streams.json").write_text(json.dumps(streams))


def calls_of(folder: Path) -> list[dict[str, object]]:
    """Return how the program was called, the latest last."""
    return [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]
