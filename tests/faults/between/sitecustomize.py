"""Found by every Python that has this folder in PYTHONPATH: the worker, its runs and the watcher ask a proxy for the server.

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


def _in_forks() -> None:
    from deployments.supervisor import processes
    from deployments.warm import forge

    named = processes.name_process

    def become(name: str) -> None:
        named(name)
        if name == "worker":
            os.environ["PREFECT_API_URL"] = _API
            forge.take_settings()
        elif name == "watcher":
            _ask_the_proxy()

    processes.name_process = become


if "deployments.supervisor.zygote" in sys.orig_argv:
    _in_forks()
