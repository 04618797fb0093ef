"""A library whose source is a program, without a server: a script of the test, or a real program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from catchment.model import JobState, Priority
from catchment.settings import Home, Policy
from catchment.sync.preflight import scopes_of
from connectors.programs import Program
from connectors.programs.settings import ProgramSettings
from tests.connectors.programs.scripts import write_script
from tests.engine.papers import Papers

SCHEMA = {"type": "SCHEMA", "stream": "texts", "schema": {}, "key_properties": ["id"]}


def record(key: object, stream: str = "texts", **values: Any) -> dict[str, Any]:
    """Return a Singer record with a text."""
    return {"type": "RECORD", "stream": stream, "record": {"id": key, "body": f"text {key}", **values}}


def texts(*keys: object) -> list[dict[str, Any]]:
    """Return the messages of a full table with these keys."""
    return [SCHEMA, *map(record, keys)]


class Taps(Papers):
    """Papers that a program prints."""

    kind = "program"

    def __init__(self, home: Home, folder: Path, *command: str, **settings: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(home, folder)
        self.policy = Policy()
        self.log: list[str] = []
        self.settings = {"command": [*(command or (str(folder / "tap.py"),))], **settings}

    @property
    def connector(self) -> Program:
        made = Program(ProgramSettings.model_validate(self.settings))
        made.log = self.log.append
        return made

    def agree(self) -> None:
        """Consent to the command as it is now."""
        source = self.ledger.sources.put("papers", self.kind, Priority.NORMAL)
        self.ledger.consents.give(source.id, [*scopes_of(self.connector)], "operator:anna", None)

    def prints(self, *lines: str | bytes | Mapping[str, Any], code: str = "", first: str = "") -> None:
        """Let the program print these lines, and then run `code`. For `--discover`, too: it has no catalog."""
        data = b"".join(_line(line) + b"\n" for line in lines)
        (self.folder / "output").write_bytes(data)
        printing = "sys.stdout.buffer.write(open(os.path.join(os.path.dirname(__file__), 'output'), 'rb').read())\n"
        write_script(self.folder, f"import os, subprocess, sys, time\n{first}\n{printing}sys.stdout.flush()\n{code}\n")

    def locators(self) -> set[str]:
        return {named.locator for named in self.ledger.library.names(self.source.id)}

    def states(self) -> dict[str, str]:
        """Return the items that are not in the library, with the reason."""
        return {
            job.item: job.state.value
            for state in JobState
            for job in self.ledger.queue.jobs(source="papers", state=state)
            if job.current and job.state is not JobState.SUCCEEDED
        }

    def problems(self) -> dict[str, str]:
        """Return the items in quarantine, with the reason."""
        return {entry.item: entry.message for entry in self.ledger.quarantine.page("papers").rows}


def _line(line: str | bytes | Mapping[str, Any]) -> bytes:
    if isinstance(line, bytes):
        return line
    return (line if isinstance(line, str) else json.dumps(line)).encode()
