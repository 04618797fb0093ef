"""Health: the last run of every check with its remedy, and the backups."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from catchment.views.backups import BackupsView, backups
from catchment.views.health import HealthReport, Verdict
from web.site import Data, WebPage
from web.warm_library import WarmLibrary


@dataclass(frozen=True, slots=True)
class HealthAndBackups:
    """The last report of the checks, if there is one, and the backups."""

    report: HealthReport | None
    backups: BackupsView


def _data(library: WarmLibrary, _parameters: Mapping[str, str]) -> Data:
    report, kept = HealthReport.read(library.home), backups(library.home)
    findings = report.findings if report else ()
    newest = shlex.quote(str(kept.files[0].file)) if kept.files else None
    return {
        "view": HealthAndBackups(report, kept),
        "report": report,
        "failing": [finding for finding in findings if finding.verdict is not Verdict.OK],
        "fine": [finding for finding in findings if finding.verdict is Verdict.OK],
        "backups": kept,
        "restore": newest and f"catchment down && catchment restore {newest} && catchment up --detach",
    }


PAGES = (WebPage("/health", "health.html", _data, ("checks", "backups"), needs_library=False, shared=HealthAndBackups),)
