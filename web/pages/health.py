"""Health: the last run of every check, with its remedy."""

from __future__ import annotations

from collections.abc import Mapping

from catchment.views.health import HealthReport, Verdict
from web.site import Data, WebPage
from web.warm_library import WarmLibrary


def _data(library: WarmLibrary, _parameters: Mapping[str, str]) -> Data:
    report = HealthReport.read(library.home)
    findings = report.findings if report else ()
    return {
        "view": report,
        "report": report,
        "failing": [finding for finding in findings if finding.verdict is not Verdict.OK],
        "fine": [finding for finding in findings if finding.verdict is Verdict.OK],
    }


PAGES = (WebPage("/health", "health.html", _data, ("checks",), needs_library=False, shared=HealthReport | None),)
