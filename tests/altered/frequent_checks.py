"""Shorten the checks of the supervisor, the worker and the watcher from half a minute or a minute to a few seconds.

In every process that has this folder in PYTHONPATH, belongs to `up`, and has the seconds in `FREQUENT_CHECKS`. The checks
themselves are unchanged.
"""

from __future__ import annotations

import os
import sys


def _shorten(seconds: float) -> None:
    if "deployments.supervisor.detached" in sys.orig_argv:
        from deployments.supervisor import sweep

        sweep._SECONDS = sweep._SHRINK_SECONDS = seconds
    if "deployments.worker" in sys.orig_argv:
        from deployments.runs import rounds
        from deployments.watch import debounce, watcher

        rounds._SECONDS = watcher._COMPLETE = debounce._FIRST_ANSWER = seconds


if "FREQUENT_CHECKS" in os.environ:
    _shorten(float(os.environ["FREQUENT_CHECKS"]))
