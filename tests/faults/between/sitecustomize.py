"""Found by every Python that has this folder in PYTHONPATH: the worker, its runs and its watcher ask a proxy for the server.

`BETWEEN` is the address of the proxy. The supervisor and the commands ask the server itself.
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
