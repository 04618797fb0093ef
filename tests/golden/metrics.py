"""Record the metrics and the runbooks in the documents: `python -m tests.golden.metrics`; read the diff."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from textwrap import wrap
from typing import Final

from catchment.telemetry.catalogue import CATALOGUE, Metric
from catchment.telemetry.incidents import ReasonCode

_DOCS: Final = Path(__file__).parents[2] / "docs"
_WIDTH: Final = 150


def documents() -> dict[Path, str]:
    """Return the documents as they should be: docs/telemetry.md with its table, docs/incidents.md with the runbooks."""
    table = ["| metric | kind | labels | meaning |", "|---|---|---|---|", *map(_row, CATALOGUE)]
    return _with("telemetry.md", "metrics", table) | _with("incidents.md", "runbooks", map(_runbook, ReasonCode))


def _with(name: str, section: str, lines: Iterable[str]) -> dict[Path, str]:
    document = _DOCS / name
    place = re.compile(rf"(?<=<!-- {section} -->\n).*?(?=<!-- /{section} -->)", re.DOTALL)
    return {document: place.sub(lambda _: "\n".join(lines) + "\n", document.read_text(encoding="utf-8"))}


def _row(metric: Metric) -> str:
    outer = (["`connector`"] if metric.of_source else []) + (["`priority`"] if metric.priority else [])
    own = [f"`{name}`" + (f": {', '.join(values)}" if values else "") for name, values in metric.labels.items()]
    return f"| `{metric.prometheus}` | {metric.kind} | {'; '.join(outer + own)} | {metric.help} |"


def _runbook(code: ReasonCode) -> str:
    """Return the meaning and the remedies of a reason code, with a link to the tested procedure if there is one."""
    procedures = (_DOCS / "runbooks.md").read_text(encoding="utf-8")
    found = re.search(rf"^## (.*`{re.escape(code)}`.*)$", procedures, re.MULTILINE)
    anchor = re.sub(r"[^\w -]", "", found[1]).replace(" ", "-").lower() if found else ""
    link = f" [Step by step](runbooks.md#{anchor})." if found else ""
    lines = wrap(f"{code.help}. {code.runbook}{link}", _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(("", f"### {code}", "", *lines))


if __name__ == "__main__":
    for document, text in documents().items():
        document.write_text(text, encoding="utf-8")
    sys.exit(0)
