"""The table of all targets."""

from __future__ import annotations

from tests.fuzz import asked, files, hosts, letters, served
from tests.fuzz.target import Target


def every() -> dict[str, Target]:
    """Return all targets by name."""
    return {target.name: target for module in (asked, files, hosts, letters, served) for target in module.targets()}
