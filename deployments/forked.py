"""A command in a fork of the running system, which has imported what it needs: a fraction of the time of a new interpreter.

The worker is asked over a socket of the home, by a line of JSON. It answers with how the command ended and what it said, or
not at all: then whoever asked does it in a process of its own.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from catchment.home import Home


@dataclass(frozen=True, slots=True)
class Command:
    """A module and its arguments, and the folder and the environment in which it is executed."""

    words: Sequence[str]
    folder: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Said:
    """How the command ended, and what it said."""

    code: int
    output: str
    errors: str


def place(home: Home) -> Path:
    """The socket at which a worker is asked."""
    return home.run / "commands"


def ask(home: Home, command: Command, seconds: float) -> Said | None:
    """Have the command done; None where nobody does it. Raises TimeoutError when that takes too long."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(seconds)
        try:
            line.connect(str(place(home)))
            line.sendall(json.dumps(asdict(command)).encode() + b"\n")
            with line.makefile() as answers:
                answer = answers.read()
        except TimeoutError:
            raise
        except OSError:
            return None
    return Said(**json.loads(answer)) if answer else None
