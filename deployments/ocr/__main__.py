"""`python -P -m deployments.ocr`: recognize the text of the pages that wait."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing, suppress

from catchment.errors import NotFound
from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.runtime.reports.background_child import run, tell
from catchment.settings import SourceSettings
from deployments.ocr.page_reader import recognize
from deployments.sources.sources_file import SourcesFile


def main() -> int:
    """Recognize the waiting pages. Returns 1 after an error."""
    return run(_recognize)


def _recognize() -> None:
    home = Home.default()
    with suppress(NotFound), closing(Ledger.inspect(home)) as ledger, ledger.alone("recognize") as is_alone:
        if not is_alone:
            tell(elsewhere=True)
            return

        def settings() -> Mapping[str, SourceSettings]:
            return {entry.name: entry.settings for entry in SourcesFile.load(home.sources_file).entries}

        recognize(home, ledger, settings)


if __name__ == "__main__":
    sys.exit(main())
