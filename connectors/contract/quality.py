"""The quality scale: the rules of quality.toml, which the suite checks and docs/connectors.md shows."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

LEVELS: Final = ("bronze", "silver", "gold")


@dataclass(frozen=True, slots=True)
class QualityRule:
    """A rule of the scale.

    Attributes:
        tests: The tests of the suite that check it.
        kept_by: The base class that keeps it for its subclasses.
        only_with: The method without which it does not apply.
    """

    level: str
    rule: str
    reason: str
    example: str
    exceptions: str
    tests: Sequence[str] = ()
    kept_by: str = ""
    only_with: str = ""


RULES: Final = {
    name: QualityRule(**facts)
    for name, facts in tomllib.loads(Path(__file__).with_name("quality.toml").read_text("utf-8")).items()
}


def open_rules(cls: Any) -> Collection[str]:
    """Return the rules that a connector class has to keep: those up to its level that apply, without its exemptions."""
    levels = LEVELS[: LEVELS.index(cls.manifest.level or LEVELS[0]) + 1]
    return [
        name
        for name, rule in RULES.items()
        if rule.level in levels and name not in cls.manifest.exempt and hasattr(cls, rule.only_with or "kind")
    ]
