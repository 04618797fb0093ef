"""Route the Prefect requests of the worker, its runs and its watcher through a proxy.

Every Python with this folder in PYTHONPATH imports this module. `BETWEEN` is the address of the proxy. The supervisor
and the commands connect to the server directly.
"""

from __future__ import annotations

import os
import sys

import unhurried  # noqa: F401

_API = f"{os.environ['BETWEEN']}/api"


def _ask_the_proxy() -> None:
    from deployments.server.running import Running

    Running.api_url = property(lambda _: _API)  # type: ignore[assignment]


if "deployments.worker" in sys.orig_argv:
    os.environ["PREFECT_API_URL"] = _API
    _ask_the_proxy()
