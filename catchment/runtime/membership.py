"""The membership of a home in a library that several hosts share: its name there and the Prefect server of all.

A home without this file runs alone, with a separate server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from catchment.errors import BadInput, ConfigError
from catchment.runtime import atomic_files
from catchment.runtime.home import Home

ANY = "any"
"""The work queue of runs that every host may execute which joined with `--also any`."""

HOST_LABEL = "catchment.host"
"""Label of a run that a host with `any` executes: the name of the host. Other workers set none."""

_OF_HOST = "host-"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")


@dataclass(frozen=True, slots=True)
class Membership:
    """A joined host. `server`: address of the Prefect server without `/api`; `login`: secret reference of `user:password`.

    `unfinished`: the interrupted command, `join` or `leave`, which must be repeated; otherwise empty.
    """

    name: str
    server: str
    login: str
    takes_any: bool = False
    unfinished: str = ""

    @classmethod
    def of(cls, home: Home) -> Self | None:
        """Return the membership of a home; None if it runs alone. Raises ConfigError if the file was changed."""
        try:
            return cls(**json.loads(home.membership.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            raise ConfigError("join.yaml: not valid; run `catchment join` again") from None

    def record(self, home: Home) -> None:
        """Write the file that `of` reads. Every YAML parser reads it, too. Raises HomeUnavailable."""
        facts = {name: value for name, value in asdict(self).items() if name != "unfinished" or value}
        with atomic_files.explained():
            atomic_files.write(home.membership, f"{json.dumps(facts, indent=2)}\n".encode())

    @property
    def problem(self) -> str:
        """The interrupted command and the remedy; empty without one."""
        return f"`catchment {self.unfinished}` was interrupted; run it again" if self.unfinished else ""

    @property
    def queue(self) -> str:
        """The work queue of the runs that only this host executes."""
        return queue_for(self.name)

    @property
    def queues(self) -> tuple[str, ...]:
        """The work queues with the runs that this host executes."""
        return (self.queue, ANY) if self.takes_any else (self.queue,)


def queue_for(host: str) -> str:
    """Return the work queue of the runs that only this host executes."""
    return f"{_OF_HOST}{host}"


def host_for(queue: str) -> str:
    """Return the host of a work queue; `any` for that of all, and empty for none."""
    return queue.removeprefix(_OF_HOST)


def executes(host: str, queue: str | None, labels: Mapping[str, object]) -> bool:
    """Whether a host executes, will execute or has executed a run. The run is in its queue, or in `any` with its label."""
    return queue == queue_for(host) or labels.get(HOST_LABEL) == host


def checked_name(name: str) -> str:
    """Return the name of a host. Raises BadInput if it cannot be one."""
    if name == ANY or not _NAME.fullmatch(name):
        raise BadInput("name of a host: up to 31 small letters, digits and hyphens, and not `any`; pass another --name")
    return name


def own_login(home: Home) -> Path:
    """The file of the login that `catchment join` was given without a reference."""
    return home.secrets / "prefect-server.login"


def shipped_name(home: Home, flow: str) -> str:
    """Return the name of this home's deployment of a shipped flow such as `embed`. Each joined host has a separate one."""
    membership = Membership.of(home)
    return f"{flow}-{membership.name}" if membership else flow
