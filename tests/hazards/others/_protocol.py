"""The protocol of the programs for other libraries.

A program imports its library once and reads one request per line: the folder of its stored data, and the folder to
ingest. It handles each request in a fork that exits afterwards, so only data on disk persists. It answers with a line
of JSON.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

NAMES = (".md", ".pdf", ".docx")
"""The file types to ingest. A file of these types that is not read must be reported."""

_SECONDS, _SECONDS_OF_CPU = 600, 150
"""Time limits in seconds: a busy machine is not the library's fault, and a library that is blocked uses no CPU."""


class Held(NamedTuple):
    """The contents by path below the folder, and the paths that the library reported as unread."""

    texts: dict[str, list[str]]
    named: Sequence[str] = ()


def answer(bring_in: Callable[[Path, Path], Held]) -> None:
    """Handle requests until the end of input. `bring_in` takes the folder of the stored data and the folder to ingest."""
    # The output of the library is not part of the response.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        state, folder = map(Path, json.loads(line))
        child = os.fork()
        if child == 0:
            signal.alarm(_SECONDS)
            signal.setitimer(signal.ITIMER_PROF, _SECONDS_OF_CPU)
            os.chdir(state)
            held = bring_in(state, folder)
            (state / "held.json").write_text(json.dumps(held._asdict()))
            os._exit(0)
        begun = time.perf_counter()
        _, status, used = os.wait4(child, 0)
        report = {"code": os.waitstatus_to_exitcode(status), "seconds": time.perf_counter() - begun}
        answers.write(json.dumps(report | {"peak_mb": used.ru_maxrss / 1024}) + "\n")
        answers.flush()
