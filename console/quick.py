"""The program `catchment`: what may be done by the running system, which has imported what it needs, is asked of it; the
rest is done here, and so is whatever it does not begin, or not soon. What only looks is done here too where it does not go
well."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from catchment.errors import CatchmentError
from catchment.runtime.home import Home
from deployments.supervisor.forked import Command, Said, UnfinishedError, ask, carry_out

_LOOKING = frozenset(
    {
        *("status", "search", "show", "related", "why"),
        *("sources list", "jobs list", "jobs show", "quarantine list", "quarantine show", "quarantine stats"),
        *("deletions list", "throttle show"),
    }
)
"""Commands that change nothing and ask nothing, so that they may be done twice."""
_DOING = frozenset(
    {
        *("sync", "sources add", "sources pause", "sources resume", "sources remove", "sources test"),
        *("quarantine retry", "quarantine note", "quarantine discard", "deletions apply", "deletions drop"),
        *("throttle set", "throttle clear", "throttle pause", "throttle resume", "throttle reset-breaker"),
    }
)
"""Commands that are done once: by the system, with the input and the outputs of this process as its own, or here."""
_PATIENCE = 2.0


def main() -> int:
    """Run the command line of this process; the exit code."""
    words = sys.argv[1:]
    try:
        if _is_one_of(_LOOKING, words) and (said := _asked(words)) and said.code == 0 and _say(said):
            return 0
        if _is_one_of(_DOING, words) and (code := _done(words)) is not None:
            return code
    except UnfinishedError as unfinished:
        if not unfinished.instead:
            sys.stderr.write(f"catchment: {unfinished}\n")
            return unfinished.exit_code
        sys.argv[1:] = unfinished.instead
    except KeyboardInterrupt:
        return 130
    from console.main import main

    return main()


def _is_one_of(commands: frozenset[str], words: Sequence[str]) -> bool:
    return bool(words) and not commands.isdisjoint((words[0], " ".join(words[:2])))


def _asked(words: Sequence[str]) -> Said | None:
    if not _takes_utf8():
        return None
    try:
        return ask(Home.default(), _command(words, _colours()), _PATIENCE)
    except (CatchmentError, OSError):
        return None


def _done(words: Sequence[str]) -> int | None:
    if not _takes_utf8() or sys.stdin is None:
        return None
    try:
        home, command = Home.default(), _command(words, {})
    except (CatchmentError, OSError):
        return None
    return carry_out(home, command, (0, 1, 2), _PATIENCE)


def _command(words: Sequence[str], more: Mapping[str, str]) -> Command:
    return Command(["console", *words], str(Path.cwd()), {**os.environ, **more})


def _takes_utf8() -> bool:
    """Whether there is an output, and for errors too, that takes the answer as it comes."""
    return all(stream is not None and stream.encoding.lower() == "utf-8" for stream in (sys.stdout, sys.stderr))


def _colours() -> dict[str, str]:
    """What a program finds out about its terminal, for one that has none."""
    if not sys.stdout.isatty():
        return {}
    return {"FORCE_COLOR": "1", "COLUMNS": str(shutil.get_terminal_size().columns)}


def _say(said: Said) -> bool:
    """Whether somebody takes it."""
    try:
        for stream, text in ((sys.stderr, said.errors), (sys.stdout, said.output)):
            stream.write(text)
            stream.flush()
    except OSError:
        return False
    return True
