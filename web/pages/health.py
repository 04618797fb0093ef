"""Health: the last run of every check with its remedy, the hosts, the sinks, and the backups."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from catchment.errors import CatchmentError
from catchment.ledger import SinkRow
from catchment.runtime.server_report import ServerReport
from catchment.telemetry.incidents import OK
from catchment.views.backups import BackupsView, backups
from catchment.views.health import HealthReport
from catchment.views.hosts import HostStanding, hosts
from catchment.views.work.recognition import RecognitionStatus
from deployments.actions.sinks import kinds
from web.site import Data, WebPage
from web.warm_library import WarmLibrary


@dataclass(frozen=True, slots=True)
class HealthAndBackups:
    """The last report of the checks, if there is one, the hosts that share the ledger, the sinks, and the backups."""

    report: HealthReport | None
    hosts: tuple[HostStanding, ...]
    sinks: tuple[SinkRow, ...]
    backups: BackupsView


def _data(library: WarmLibrary, _parameters: Mapping[str, str]) -> Data:
    report, backups_view = HealthReport.read(library.home), backups(library.home)
    host_rows: tuple[HostStanding, ...] = ()
    sinks: tuple[SinkRow, ...] = ()
    recognition = None
    # The checks report a ledger that cannot be read.
    with suppress(CatchmentError):
        host_rows = tuple(hosts(library.ledger, ServerReport.read(library.home)))
        sinks = tuple(library.ledger.outbox.all())
        recognition = RecognitionStatus.read(library.ledger)
    findings = report.besides_web if report else ()
    newest = shlex.quote(str(backups_view.files[0].file)) if backups_view.files else None
    return {
        "view": HealthAndBackups(report, host_rows, sinks, backups_view),
        "failing": [finding for finding in findings if finding.verdict is not OK],
        "fine": [finding for finding in findings if finding.verdict is OK],
        "sink_kinds": kinds(),
        "recognition": recognition,
        "restore": newest and f"catchment down && catchment restore {newest} && catchment up --detach",
    }


PAGES = (
    WebPage(
        "/health",
        "health.html",
        _data,
        ("checks", "hosts", "sinks", "backups"),
        needs_library=False,
        shared=HealthAndBackups,
    ),
)
