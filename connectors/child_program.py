"""Programs of others, run for a connector within limits. Only their output is used, as bytes."""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Annotated, NamedTuple

from pydantic import Field

from catchment.errors import SourceInvalid, SourceUnavailable
from catchment.runtime.process import kill_in_environment, memory_of_tree
from catchment.settings import Strict
from connectors.child_end import KILLED_WITH_PARENT, end

PATHS = f"{Path.home()}/.local/bin:/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin"
"""Where programs are looked for, and their PATH: not that of this process, which differs between terminal and service."""
LOGGED = "│ "
"""Marks lines of a log that a program wrote."""
_LOOK_SECONDS = 0.5
_END_SECONDS = 60.0
_PIECE = 1 << 16
_HEAD = 4_096
"""Bytes that are kept of a line that is too long."""
_MOST_LOG_LINES, _MOST_LOG_CHARACTERS = 200, 500
_MOST_REASON_CHARACTERS = 300
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_TIME = re.compile(r"^\d{4}-\d\d-\d\d[T ][\d:.,]+Z?[\s|]*")
_PATH = re.compile(r"(?<![\w:/])/(?:[^\s/'\"]+/)+")


class ProgramLimits(Strict, title="Limits of the program"):
    """Limits of one run of a program. It is killed at a limit."""

    hours: Annotated[float, Field(gt=0, le=168, title="Hours", description="Hours that a run may take")] = 12
    silent_minutes: Annotated[
        float, Field(gt=0, le=1_440, title="Silence", description="Minutes that a run may print nothing")
    ] = 10
    memory_mb: Annotated[
        int, Field(ge=16, title="Memory", description="Megabytes of memory, with the programs that it starts")
    ] = 2_000
    output_gb: Annotated[float, Field(gt=0, title="Output", description="Gigabytes that a run may print")] = 20


class OutputLine(NamedTuple):
    """A line of output without its end. Of one that is too long, `data` is only its start. `size` in bytes."""

    data: bytes
    size: int


class ChildProgram:
    """A running program. It ends with `running`."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        name: str,
        limits: ProgramLimits,
        log: Callable[[str], None],
        hidden: Collection[str],
    ) -> None:
        self.name = name
        self._process, self._limits, self._log, self._hidden = process, limits, log, hidden
        self._errors = bytearray()
        self._last_lines = deque[str](maxlen=3)
        self._log_lines = 0
        self._printed = 0
        self._began = time.monotonic()

    def lines(self, longest: int) -> Iterator[OutputLine | None]:
        """Yield the lines that it prints, each of at most `longest` bytes; None after half a second without any.

        Raises SourceUnavailable at a limit, or if it failed.
        """
        line, dropped = bytearray(), 0
        for piece in self._pieces():
            if piece is None:
                yield None
                continue
            *whole, rest = piece.split(b"\n")
            for part in whole:
                line += part
                if size := dropped + len(line):
                    yield OutputLine(bytes(line[:_HEAD] if size > longest else line), size)
                line, dropped = bytearray(), 0
            line += rest
            if dropped or len(line) > longest:
                dropped += max(0, len(line) - _HEAD)
                del line[_HEAD:]
        if size := dropped + len(line):
            yield OutputLine(bytes(line), size)
        self.require_success()

    def output(self, most: int) -> bytes:
        """Return all that it prints. Raises SourceUnavailable at a limit, or above `most` bytes; not if it failed."""
        output = bytearray()
        for piece in self._pieces():
            output += piece or b""
            if len(output) > most:
                raise SourceUnavailable(f"{self.name}: printed more than {most:,} bytes; its data is too large")
        return bytes(output)

    def wait(self) -> int:
        """Return its exit code, once it has printed all."""
        try:
            return self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            raise SourceUnavailable(f"{self.name}: closed its output, but does not end; mend it") from None

    def require_success(self) -> None:
        """Raise SourceUnavailable unless it ended well, with the last line of its log."""
        if code := self.wait():
            how = f"exited with code {code}" if code > 0 else f"was killed by signal {-code}"
            raise SourceUnavailable(
                f"{self.name}: {how}{self.reason and f' ({self.reason})'}; correct it, or see its log"
            )

    @property
    def reason(self) -> str:
        """The last line of its log, after those that are errors, too, for an error message."""
        *before, last = self._last_lines or ("",)
        lines = (*(_TIME.sub("", line) for line in before if "error" in line.lower()), _TIME.sub("", last))
        return _PATH.sub("…/", masked_words(" / ".join(lines)))[:_MOST_REASON_CHARACTERS]

    def say(self, text: str) -> None:
        """Pass a line of its log on, without secrets and control characters, and remember it as the reason of a failure."""
        for secret in self._hidden:
            text = text.replace(secret, "«secret»")
        if not (words := on_one_line(text)):
            return
        if not words.startswith("("):  # such as an address with more about the line before
            self._last_lines.append(words)
        self._log_lines += 1
        if self._log_lines <= _MOST_LOG_LINES:
            self._log(f"{LOGGED}{self.name}: {masked_words(words)[:_MOST_LOG_CHARACTERS]}")
        elif self._log_lines == _MOST_LOG_LINES + 1:
            self._log(f"{LOGGED}{self.name}: more lines are not logged")

    def _pieces(self) -> Iterator[bytes | None]:
        """Yield its output, and None after half a second without any. Its errors become lines of the log."""
        assert self._process.stdout is not None and self._process.stderr is not None
        output, heard = self._process.stdout, time.monotonic()
        looked = heard
        with selectors.DefaultSelector() as ready:
            ready.register(output, selectors.EVENT_READ)
            ready.register(self._process.stderr, selectors.EVENT_READ)
            while ready.get_map():
                # Before the output: all that it printed before its end is ready then.
                has_ended = self._process.poll() is not None
                events = ready.select(0 if has_ended else _LOOK_SECONDS)
                if (now := time.monotonic()) - looked >= _LOOK_SECONDS:
                    looked = now
                    self._check(now - heard)
                if has_ended and output not in (key.fileobj for key, _ in events):
                    break  # another program that it left behind may keep them open
                if not events:
                    yield None
                for key, _ in events:
                    piece = os.read(key.fd, _PIECE)
                    if not piece:
                        ready.unregister(key.fileobj)
                    elif key.fileobj is output:
                        self._printed += len(piece)
                        yield piece
                    else:
                        self._note(piece)
                    heard = time.monotonic()
        os.set_blocking(self._process.stderr.fileno(), False)
        self._note((self._process.stderr.read(_PIECE) or b"") + b"\n")

    def _note(self, piece: bytes) -> None:
        *lines, rest = (bytes(self._errors) + piece).split(b"\n")
        self._errors = bytearray(rest[:_HEAD])
        for line in lines:
            self.say(line[:_HEAD].decode("utf-8", "replace"))

    def _check(self, silent: float) -> None:
        limits = self._limits
        used = memory_of_tree(self._process.pid)
        for is_over, problem, setting in (
            (silent > limits.silent_minutes * 60, f"was silent for {limits.silent_minutes:g} min", "silent_minutes"),
            (time.monotonic() - self._began > limits.hours * 3_600, f"took more than {limits.hours:g} h", "hours"),
            (used > limits.memory_mb * 1e6, f"took {used / 1e6:,.0f} MB of memory", "memory_mb"),
            (self._printed > limits.output_gb * 1e9, f"printed more than {limits.output_gb:g} GB", "output_gb"),
        ):
            if is_over:
                raise SourceUnavailable(f"{self.name}: {problem}, and was stopped; mend it, or raise run.{setting}")


@contextmanager
def running(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    limits: ProgramLimits,
    log: Callable[[str], None],
    hidden: Collection[str] = (),
) -> Iterator[ChildProgram]:
    """Run a program in `folder`; kill it with all that it started at the end of the block.

    `log` receives its errors, without the secrets in `hidden` and those that look like one.

    Its environment is PATH, HOME, LANG, TMPDIR (`folder`) and `environment`. Raises SourceInvalid if it cannot be started.
    """
    name = PurePath(command[0]).name
    if shutil.which(command[0]) is None:
        raise SourceInvalid(f"{name}: not there, or not a program; install it again")
    own = {"PATH": PATHS, "HOME": str(Path.home()), "LANG": "C.UTF-8", "TMPDIR": str(folder), **environment}
    try:
        process = subprocess.Popen(
            [*KILLED_WITH_PARENT, *command],
            cwd=folder,
            env=own,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise SourceInvalid(f"{name}: cannot be started ({error.strerror}); install it again") from None
    try:
        yield ChildProgram(process, name, limits, log, hidden)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        end(process)
        kill_in_environment("TMPDIR", str(folder))  # those that left its group


def masked_words(text: str) -> str:
    """Return a program's words without secrets."""
    from catchment.content.secret_masking import mask  # 20 ms, which commands that run no program need not wait for

    return mask(text)


def on_one_line(text: str) -> str:
    """Return a program's words as one line, without control characters."""
    text = _COLOUR.sub(" ", text)
    shown = text if text.isprintable() else "".join(each if each.isprintable() else " " for each in text)
    return " ".join(shown.split())
