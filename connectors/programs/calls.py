"""The calls of a program for one listing: with its configuration, for its catalog, and for its records."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from catchment.content.foreign_json import read_json
from catchment.errors import SourceInvalid, SourceUnavailable
from catchment.model import Checkpoint
from catchment.runtime import atomic_files
from catchment.runtime.secret_references import resolve
from connectors.child_program import ChildProgram, on_one_line, running
from connectors.programs.program_messages import (
    NONSENSE,
    LogLine,
    Message,
    MessageProtocol,
    NotAccepted,
    Stream,
    as_json,
)
from connectors.programs.settings import ProgramSettings

T = TypeVar("T")

_MOST_CATALOG = 64_000_000
MOST_TOLD = 300
"""Characters of a program's words in an error message."""
_LEAST_HIDDEN = 6
"""Characters of a line of a secret that is hidden alone."""


class ProgramCalls:
    """Calls a program in a folder with its configuration. Raises LoginFailed if a secret cannot be read."""

    def __init__(
        self, settings: ProgramSettings, protocol: MessageProtocol, folder: Path, log: Callable[[str], None]
    ) -> None:
        self._settings, self._protocol, self._folder, self._log = settings, protocol, folder, log
        secrets = {key: resolve(reference) for key, reference in settings.secrets.items()}
        self._variables = settings.variables
        hidden = {*secrets.values(), *self._variables.values()} - {*settings.environment.values()}
        lines = {line for secret in hidden for line in secret.splitlines() if len(line) >= _LEAST_HIDDEN}
        self._hidden = sorted({form for each in hidden | lines for form in _forms(each)}, key=len, reverse=True)
        self._config = self.put("config", _with(settings.config, secrets))

    def put(self, name: str, value: Any) -> str:
        """Write a JSON file that only this user can read; return its path. Raises HomeUnavailable."""
        path = self._folder / f"{name}.json"
        with atomic_files.explained(), open(path, "xb", opener=lambda file, flags: os.open(file, flags, 0o600)) as file:
            file.write(as_json(value))
        return str(path)

    @contextmanager
    def started(self, arguments: Sequence[str], *, with_config: bool = True) -> Iterator[ChildProgram]:
        """Start the program; end it with the block."""
        is_plain = not (self._protocol.discover or self._settings.config or self._settings.secrets)
        config = () if is_plain or not with_config else ("--config", self._config)
        command = (*self._settings.command, *arguments, *config)
        with running(command, self._variables, self._folder, self._settings.run, self._log, self._hidden) as program:
            yield program

    def require_configuration(self) -> None:
        """Raise SourceInvalid for a configuration that the program describes otherwise, or does not accept."""
        name = self._settings.name
        if not self._protocol.describe:
            return
        try:
            schema = self._protocol.schema(end_of(self._printed(self._protocol.describe, with_config=False)) or b"")
            properties = schema.get("properties", {})
            required = {str(key): properties.get(key, {}) for key in schema.get("required", ())}
            words = {
                key: f"{key} ({facts.get('title') or facts.get('description') or 'a value'})"
                for key, facts in required.items()
                if "default" not in facts
            }
        except (SourceUnavailable, *NONSENSE):
            words = {}  # it does not describe itself
        present = {*self._settings.config, *(key.partition(".")[0] for key in self._settings.secrets)}
        if lacking := [key for key in words if key not in present]:
            problem, first = on_one_line(", ".join(words[key] for key in lacking)), on_one_line(lacking[0])
            raise SourceInvalid(
                f"{name}: its configuration lacks {problem[:MOST_TOLD]}; add --set config.{first[:MOST_TOLD]}=…"
            )
        if self._protocol.check:
            end_of(self._printed(self._protocol.check))

    def catalog(self) -> Generator[Checkpoint, None, Mapping[str, Stream] | None]:
        """Return the streams of the program; None if it prints its records instead.

        Yields meanwhile, so that a sync can be stopped. Raises SourceUnavailable or SourceInvalid.
        """
        name, discover = self._settings.name, self._protocol.discover
        if not discover or (output := (yield from self._printed(discover))) is None:
            return None
        try:
            return self._protocol.streams(output)
        except NONSENSE:
            problem = f"prints no catalog when it is asked by {' '.join(discover)}"
            raise SourceInvalid(f"{name}: {problem}; if it has none, set protocol=plain") from None

    def _printed(
        self, arguments: Sequence[str], *, with_config: bool = True
    ) -> Generator[Checkpoint, None, bytes | None]:
        """Return the output of the program; None if it prints records instead."""
        output = bytearray()
        with self.started(arguments, with_config=with_config) as program:
            for line in program.lines(_MOST_CATALOG):
                if line is None:
                    yield Checkpoint()
                    continue
                if line.data.startswith(b"{"):
                    try:
                        if not output and self._protocol.is_record(line.data):
                            return None
                        report(program, self._protocol.understood(read_json(line.data)))
                    except NONSENSE:
                        pass  # part of a document of several lines
                output += line.data + b"\n"
                if len(output) > _MOST_CATALOG:
                    raise SourceInvalid(
                        f"{program.name}: prints a catalog of more than {_MOST_CATALOG // 1_000_000} MB"
                    )
        return bytes(output)


def end_of(steps: Generator[Any, None, T]) -> T:
    """Return the result of a generator, at its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def report(program: ChildProgram, message: Message | None) -> None:
    """Log a message for persons. Raises SourceInvalid for a refusal."""
    if isinstance(message, LogLine | NotAccepted):
        program.say(message.text)
    if isinstance(message, NotAccepted):
        raise SourceInvalid(f"{program.name}: {program.reason}; correct its configuration")


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret as a log may have it: in addresses and forms, as a text of JSON or Python, and in Base64."""
    yield from (secret, quote(secret), quote(secret, safe=""), quote_plus(secret), repr(secret)[1:-1])
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    yield b64encode(secret.encode()).decode().rstrip("=")


def _with(config: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
    """Return a configuration with further values by their dotted keys."""
    whole = dict(config)
    for key, secret in secrets.items():
        name, _, rest = key.partition(".")
        inner = whole.get(name)
        whole[name] = _with(inner if isinstance(inner, Mapping) else {}, {rest: secret}) if rest else secret
    return whole
