"""What every program is asked, and how it answers.

A program imports its library once and is asked line by line: the folder where it keeps what it has, and the folder to bring
in. Each time a fork of it does that and ends, so nothing is remembered but what is on the disk. It answers with a line of JSON.
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
"""The files that are brought in. A name that must be read and is not has to be told."""

_SECONDS, _SECONDS_OF_CPU = 600, 150
"""When it is given up: a busy machine is no fault of a library, and who waits for nothing uses no CPU."""


class Held(NamedTuple):
    """What is held by path below the folder, and the paths that the library named as unread."""

    texts: dict[str, list[str]]
    named: Sequence[str] = ()


def answer(bring_in: Callable[[Path, Path], Held]) -> None:
    """Answer until nothing more is asked. `bring_in`: the folder of what is kept, and the folder to bring in."""
    # What a library prints is no answer.
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
        told = {"code": os.waitstatus_to_exitcode(status), "seconds": time.perf_counter() - begun}
        answers.write(json.dumps(told | {"peak_mb": used.ru_maxrss / 1024}) + "\n")
        answers.flush()
