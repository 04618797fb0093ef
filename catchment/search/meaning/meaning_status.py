"""How far the embeddings of the library are, and why there is no model. The runs of `embed` record the latter in a file."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from catchment.records.standing import OFF
from catchment.runtime import atomic_files
from catchment.runtime.home import Home

if TYPE_CHECKING:
    from catchment.ledger import Ledger

IS_OFF = "search by meaning: off; switch it on with `catchment model use`"


@dataclass(frozen=True, slots=True)
class MeaningStatus:
    """The wanted model, and how many passages it has embedded, refused, and in all.

    `reason`: why it cannot be used; empty if it can, or has not been tried.
    """

    setting: str
    done: int
    refused: int
    total: int
    reason: str

    @classmethod
    def read(cls, home: Home, ledger: Ledger) -> Self:
        """Read the status from the ledger, and the result of the last run from the home."""
        setting, counts = ledger.embeddings.setting, ledger.embeddings.counts(ledger.embeddings.wanted())
        return cls(setting, counts.done, counts.refused, counts.total, "" if setting == OFF else _reason(home))

    def __str__(self) -> str:
        if self.setting == OFF:
            return IS_OFF
        if self.reason:
            return self.reason
        share = f"{self.total:,}" if self.done == self.total else f"{self.done:,} of {self.total:,}"
        refused = f", {self.refused:,} refused by the model" if self.refused else ""
        return f"search by meaning: {share} passages{refused}"


def record(home: Home, reason: str) -> None:
    """Record why the model cannot be used; empty if it can. A full disk is ignored."""
    with suppress(OSError):
        if reason:
            atomic_files.write(_file(home), reason.encode())
        else:
            _file(home).unlink(missing_ok=True)


def _reason(home: Home) -> str:
    try:
        return _file(home).read_text(encoding="utf-8")
    except OSError:
        return ""


def _file(home: Home) -> Path:
    return home.run / "meaning-off"
