"""The health page in the Prefect UI: `python -m deployments.health.page` runs the checks once, and publishes the result.

The result is also in `run/health.json`, which can be read while the server is down.

Exits with 1 if a check fails, or the result could not be published.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from catchment.errors import CatchmentError
from catchment.runtime.child_process import become_child
from catchment.runtime.home import Home
from catchment.views.health import HealthReport, Verdict, worst
from deployments.health.checks import examine, publish
from deployments.server.running import running


def main() -> int:
    """Run and publish the checks. Returns 0 if all pass."""
    become_child("health")
    home = Home.default()
    findings = examine(home)
    HealthReport(datetime.now(UTC), tuple(findings)).write(home)
    try:
        if state := running(home):
            publish(state, findings)
    except CatchmentError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0 if worst(findings) is Verdict.OK else 1


if __name__ == "__main__":
    sys.exit(main())
