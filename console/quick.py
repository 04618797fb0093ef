"""The program `catchment`: what only looks is asked of the running system, which has imported what it needs; the rest is
done here, and so is whatever it does not answer, or not soon, or not well."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from catchment.errors import CatchmentError
from catchment.home import Home
from deployments.forked import Command, Said, ask

_LOOKING = frozenset(
    {
        *("status", "search", "show", "related", "why"),
        *("sources list", "jobs list", "jobs show", "quarantine list", "quarantine show", "quarantine stats"),
        *("deletions list", "throttle show"),
    }
)
"""Commands that change nothing and ask nothing, so that they may be done twice."""
_PATIENCE = 2.0


def main() -> int:
    """Run the command line of this process; the exit code."""
    said = _asked(sys.argv[1:])
    if said and said.code == 0 and _say(said):
        return 0
    from console.main import main

    return main()


def _asked(words: Sequence[str]) -> Said | None:
    if not words or _LOOKING.isdisjoint((words[0], " ".join(words[:2]))) or not _takes_utf8():
        return None
    try:
        return ask(Home.default(), Command(["console", *words], str(Path.cwd()), _environment()), _PATIENCE)
    except (CatchmentError, OSError, ValueError, TypeError):
        # One of another version may answer in another way.
        return None


def _takes_utf8() -> bool:
    """Whether there is an output, and for errors too, that takes the answer as it comes."""
    return all(stream is not None and stream.encoding.lower() == "utf-8" for stream in (sys.stdout, sys.stderr))


def _environment() -> dict[str, str]:
    """The environment, with what a program finds out about its terminal: this one has none."""
    told = {}
    if sys.stdout.isatty():
        told = {"FORCE_COLOR": "1", "COLUMNS": str(shutil.get_terminal_size().columns)}
    return {**os.environ, **told}


def _say(said: Said) -> bool:
    """Whether somebody takes it."""
    try:
        for stream, text in ((sys.stderr, said.errors), (sys.stdout, said.output)):
            stream.write(text)
            stream.flush()
    except OSError:
        return False
    return True
