"""The results of the commands about ledger, configuration and sinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catchment.records.standing import SinkRow


@dataclass(frozen=True, slots=True)
class LedgerCheck:
    """Whether all invariants of the ledger hold, and the violated invariants."""

    holds: bool
    broken: list[str]


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """The size of the ledger in bytes, before and after its unused space was returned."""

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class MovedLedger:
    """The address of the database to which the ledger was moved, and the number of rows of its history."""

    ledger: str
    history: int


@dataclass(frozen=True, slots=True)
class ConfiguredSource:
    """A source with its settings; secrets are references."""

    name: str
    kind: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Configuration:
    """The home folder, the address of the ledger without its password, and the sources."""

    home: Path
    ledger: str
    sources: list[ConfiguredSource]


@dataclass(frozen=True, slots=True)
class SinkView:
    """A sink, and why it refused documents, by their numbers."""

    sink: SinkRow
    refusals: Mapping[int, str]
