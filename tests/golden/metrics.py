"""Record the table of metrics: `python -m tests.golden.metrics` writes it into docs/telemetry.md; read the diff."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from catchment.telemetry.catalogue import CATALOGUE, Metric

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "telemetry.md"
_TABLE: Final = re.compile(r"(?<=<!-- metrics -->\n).*?(?=<!-- /metrics -->)", re.DOTALL)


def with_table(text: str) -> str:
    """Return the document with the present table."""
    lines = ["| metric | kind | labels | meaning |", "|---|---|---|---|", *map(_row, CATALOGUE)]
    return _TABLE.sub(lambda _: "\n".join(lines) + "\n", text)


def _row(metric: Metric) -> str:
    outer = (["`connector`"] if metric.of_source else []) + (["`priority`"] if metric.priority else [])
    own = [f"`{name}`" + (f": {', '.join(values)}" if values else "") for name, values in metric.labels.items()]
    return f"| `{metric.prometheus}` | {metric.kind} | {'; '.join(outer + own)} | {metric.help} |"


if __name__ == "__main__":
    DOCUMENT.write_text(with_table(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    sys.exit(0)
