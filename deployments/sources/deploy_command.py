"""The command `prefect deploy`, as a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from catchment.errors import TryAgain
from catchment.runtime.home import Home
from deployments.server.environment import child_environment
from deployments.server.running import Running

_SECONDS = 120


def run(home: Home, running: Running, file: Path, names: Collection[str]) -> subprocess.CompletedProcess[str]:
    """Deploy these of a file, or all when there are no names. Raises TryAgain when that takes too long."""
    which = [part for name in names for part in ("--name", name)] or ["--all"]
    # `{{ $PWD }}` in the file is the folder of the file, as it is for a person who deploys from there.
    environment = {**child_environment(home, port=running.port, auth=running.login), "PWD": str(file.parent)}
    try:
        return subprocess.run(
            [sys.executable, "-P", "-m", "prefect", "--no-prompt", "deploy", *which, "--prefect-file", str(file)],
            env=environment,
            cwd=file.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TryAgain(f"deploying {file.name} took longer than {_SECONDS} s; try again") from None
