"""One sync through Prefect: a run of the deployment, on the running server and worker. Prints JSON.

`seconds`: from the start of the run to its end. `created_to_end`: the time that a user waits. `run_mb`: the peak PSS of the
run's process tree.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.measure import LOOK, Peak
from catchment.settings import Home
from deployments.runs.runs import start_sync, wait
from deployments.server.client import api
from deployments.server.running import Running, running


def sync(server: Running, kind: str, name: str) -> dict[str, Any]:
    """Sync a deployed source. Raises SystemExit if the run does not complete."""
    with Peak(server.worker_pid, look=LOOK in os.environ, since_now=True) as memory:
        view = wait(server, start_sync(server, kind, name))
    if view.state_type != "COMPLETED":
        raise SystemExit(f"the run ended {view.state_name}: {view.message}")
    with api(server) as client:
        run = client.get(f"/flow_runs/{view.id}").raise_for_status().json()
    created, started, ended = (datetime.fromisoformat(run[key]) for key in ("created", "start_time", "end_time"))
    return {
        "seconds": (ended - started).total_seconds(),
        "created_to_end": (ended - created).total_seconds(),
        "run_mb": memory.mb,
    }


if __name__ == "__main__":
    server = running(Home(Path(sys.argv[1])))
    if server is None:
        sys.exit("the server is not running; start it first")
    time.sleep(0.5)
    print(json.dumps(sync(server, sys.argv[2], sys.argv[3])))
