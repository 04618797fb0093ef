"""The settings of a `program` source."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from datetime import date
from pathlib import Path, PurePath
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from catchment.errors import BadInput
from catchment.model import leaves
from catchment.runtime.secret_references import resolve
from catchment.settings import REFERENCE, SecretReference, SourceSettings, expanded
from connectors.child_program import PATHS, ProgramLimits
from connectors.programs.document import StreamFields

_SECRET = re.compile(
    r"(?:passw(?:or)?d|passphrase|secret|token|api_?key|(?:private|access)_?key|credentials?(?:_json)?)$", re.IGNORECASE
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = re.compile(r"PATH|HOME|LANG|TMPDIR|(?:LD|DYLD)_.*|PYTHON.*|BASH_ENV|ENV|IFS")


class ProgramSettings(SourceSettings):
    """Settings of a `program` source."""

    identity: ClassVar[tuple[str, ...]] = ("command",)
    command: tuple[str, ...] = Field(
        title="Command", description="Full path of a program that prints Singer or Airbyte messages, and its arguments"
    )
    protocol: Literal["singer", "singer-legacy", "airbyte", "plain"] | None = Field(
        None,
        title="Protocol",
        description="airbyte, singer, singer-legacy or plain; None: airbyte if it is named source-…, or else singer",
    )
    config: dict[str, Any] = Field({}, title="Configuration", description="What the program gets as --config")
    secrets: dict[str, SecretReference] = Field(
        {}, title="Secrets", description="References to further values of the configuration: access_token=env:TOKEN"
    )
    environment: dict[str, str] = Field(
        {},
        title="Environment",
        description="Variables for the program, beside PATH, HOME, LANG and TMPDIR; of secrets, references",
    )
    streams: tuple[str, ...] = Field((), title="Streams", description="The kinds of record to read; none reads all")
    fields: dict[str, StreamFields] = Field(
        {},
        title="Fields",
        description="By stream: key, title, texts, modified, address, cursor and leave_out",
    )
    run: ProgramLimits = Field(ProgramLimits(), title="Limits of a run", description="What one run may take")

    @classmethod
    def located(cls, location: str) -> Mapping[str, Any]:
        """Return the settings for a command line. Raises BadInput if its program is not there."""
        try:
            name, *arguments = shlex.split(location)
        except ValueError:
            raise BadInput("LOCATION: no command line; quote it as for a shell: 'tap-csv --verbose'") from None
        path = (
            expanded(Path(name)).absolute()
            if "/" in name
            else shutil.which(name, path=f"{os.environ.get('PATH', '')}:{PATHS}")
        )
        if path is None or not Path(path).is_file():
            raise BadInput(
                f"{PurePath(name).name}: program not found; install it (`uv tool install {name}`), or give its path"
            )
        return {"command": [str(path), *arguments]}

    @property
    def is_airbyte(self) -> bool:
        """Whether the program speaks Airbyte's protocol."""
        return (self.protocol or ("airbyte" if self.name.startswith("source-") else "singer")) == "airbyte"

    @property
    def name(self) -> str:
        """The name of the program."""
        return PurePath(self.command[0]).name

    @property
    def variables(self) -> dict[str, str]:
        """The variables of the environment, with their secrets. Raises LoginFailed if one cannot be read."""
        return {name: resolve(text) if re.match(REFERENCE, text) else text for name, text in self.environment.items()}

    @field_validator("command")
    @classmethod
    def _startable(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        if not command or not Path(command[0]).is_absolute():
            raise ValueError("must start with the full path of a program")
        if any("\0" in part or "\n" in part for part in command):
            raise ValueError("contains a control character")
        return command

    @field_validator("config", mode="before")
    @classmethod
    def _without_dates(cls, config: Any) -> Any:
        """Return dates as the text that was typed: YAML reads 2026-01-31 as a date, and JSON has none."""
        if isinstance(config, Mapping):
            return {key: cls._without_dates(value) for key, value in config.items()}
        return config.isoformat() if isinstance(config, date) else config

    @field_validator("environment")
    @classmethod
    def _harmless(cls, variables: dict[str, str]) -> dict[str, str]:
        for name in variables:
            if not _VARIABLE.fullmatch(name) or _RESERVED.fullmatch(name):
                raise ValueError(f"{name!r}: not a variable that can be set; leave it out")
        return variables

    @model_validator(mode="after")
    def _secrets_by_reference(self) -> ProgramSettings:
        for key, value in leaves(self.config).items():
            if isinstance(value, str) and value and _SECRET.search(key.rpartition(".")[2]):
                raise ValueError(f"config.{key}: a secret; store it elsewhere, and write secrets.{key}=env:VARIABLE")
        for name, value in self.environment.items():
            if _SECRET.search(name) and not re.match(REFERENCE, value):
                raise ValueError(
                    f"environment.{name}: a secret; store it elsewhere, and write env:VARIABLE or file:PATH"
                )
        return self
