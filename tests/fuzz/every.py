"""The table of all that is tried."""

from __future__ import annotations

from tests.fuzz import asked, files, hosts, letters
from tests.fuzz.target import Target


def every() -> dict[str, Target]:
    """All targets by their names."""
    return {target.name: target for module in (asked, files, hosts, letters) for target in module.targets()}
