"""A command in a fork of the running system, which has imported what it needs: a fraction of the time of a new interpreter.

Who asks connects to a socket of the home, and hands over its own input and outputs with the command, a line of JSON. A fork
that has taken them says `ready`, does nothing before it is told `go`, and says at the end `ended CODE`. Where the line closes
without that, the process ended too early; it may have said `else WORDS` before: how to go on then. When who asks is gone, or
closes its side because of a Ctrl-C, the command is interrupted.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryFile

from catchment.errors import TryAgain
from catchment.runtime.home import Home

_ASKING_SECONDS = 10.0
_READY, _GO = b"ready\n", b"go\n"
_UNFINISHED = "the running system ended before this was done; see `catchment status`, and type it again"


@dataclass(frozen=True, slots=True)
class Command:
    """A module and its arguments, and the folder and the environment in which it is executed."""

    words: Sequence[str]
    folder: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Said:
    """How the command ended, and what it said."""

    code: int
    output: str
    errors: str


class UnfinishedError(TryAgain):
    """The process of a command ended too early. `instead`: the words that go on with it, where it said so."""

    def __init__(self, instead: Sequence[str]) -> None:
        super().__init__(_UNFINISHED)
        self.instead = instead


def place(home: Home) -> Path:
    """The socket at which the running system is asked."""
    return home.run / "commands"


def ask(home: Home, command: Command, seconds: float) -> Said | None:
    """Have the command done, which may be done twice; None where nobody does it.

    Raises TimeoutError when it takes too long, and OSError where what it says cannot be kept.
    """
    if not place(home).is_socket():
        return None
    # In the home, for it may be the text of a document.
    with (
        Path(os.devnull).open("rb") as nothing,
        TemporaryFile(dir=home.run) as output,
        TemporaryFile(dir=home.run) as errors,
    ):
        try:
            code = carry_out(home, command, [file.fileno() for file in (nothing, output, errors)], seconds, seconds)
        except UnfinishedError:
            return None
        if code is None:
            return None
        output.seek(0)
        errors.seek(0)
        return Said(code, output.read().decode(errors="replace"), errors.read().decode(errors="replace"))


def carry_out(
    home: Home, command: Command, files: Sequence[int], patience: float, seconds: float | None = None
) -> int | None:
    """Have the command done once, with these files as its input, output and errors; its exit code.

    None where nobody has begun it within `patience` seconds; then nobody will. Raises UnfinishedError, and TimeoutError when
    it takes longer than `seconds`.
    """
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(patience)
        try:
            line.connect(str(place(home)))
            message = json.dumps(asdict(command)).encode() + b"\n"
            line.sendall(message[socket.send_fds(line, [message], files) :])
            said = line.makefile("rb")
            if said.readline() != _READY:
                return None
            line.settimeout(seconds)
            line.sendall(_GO)
        except OSError:
            return None
        return _ended(line, said)


def _ended(line: socket.socket, said: BufferedReader) -> int:
    instead: Sequence[str] = ()
    is_interrupted = False
    while True:
        try:
            what, _, more = said.readline().partition(b" ")
        except KeyboardInterrupt:
            if is_interrupted:
                raise
            is_interrupted = True
            # It is interrupted too, and says in its own words what that means.
            line.shutdown(socket.SHUT_WR)
            continue
        except ConnectionError:
            what = b""
        if what == b"ended":
            return int(more)
        if what != b"else":
            raise UnfinishedError(instead)
        instead = json.loads(more)


# The other side


def listen(place: Path) -> socket.socket:
    """Be asked there, in the stead of whoever was before. Raises OSError, for one where the path is too long for a socket."""
    listening = socket.socket(socket.AF_UNIX)
    mine = place.with_name(f"{place.name}.{os.getpid()}")
    mine.unlink(missing_ok=True)
    listening.bind(str(mine))
    listening.listen()
    mine.replace(place)
    return listening


class _Asker:
    """The line to who asked for the command of this process."""

    line: socket.socket | None = None


def take_over(line: socket.socket) -> Command | None:
    """In a fork: what is asked for over the line, with the input and the outputs of who asks as our own.

    None where who asks is gone, or speaks otherwise; then nothing is to be done.
    """
    line.settimeout(_ASKING_SECONDS)
    try:
        message, files, _, _ = socket.recv_fds(line, 1 << 16, 3)
        said = line.makefile("rb")
        if not message.endswith(b"\n"):
            message += said.readline()
        command = Command(**json.loads(message))
        os.chdir(command.folder)
        for descriptor, file in enumerate(files):
            os.dup2(file, descriptor)
            os.close(file)
        _open_files()
        line.sendall(_READY)
        if said.readline() != _GO:
            return None
        line.settimeout(None)
    except (OSError, ValueError, TypeError):
        return None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _Asker.line = line
    threading.Thread(target=_end_with_asker, args=(said,), daemon=True).start()
    return command


def _open_files() -> None:
    """As the interpreter does when it starts; what it opened then may be of another kind."""
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - it stays open
    sys.stdout, sys.stderr = (
        open(  # noqa: SIM115 - it stays open
            file, "w", 1 if is_for_lines else -1, encoding="utf-8", errors="backslashreplace", closefd=False
        )
        for file, is_for_lines in ((1, os.isatty(1)), (2, True))
    )


def go_on_with(words: Sequence[str]) -> None:
    """Should this process end before its command has, who asked for it is to go on with these words."""
    _tell(b"else " + json.dumps(list(words)).encode())


def tell_end(code: int) -> None:
    """Tell who asked for the command how it ended; the last that is done."""
    # Who asked is gone the moment that it knows.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _tell(b"ended %d" % code)


def _tell(what: bytes) -> None:
    if _Asker.line is not None:
        # Who asked may be gone.
        with contextlib.suppress(OSError):
            _Asker.line.sendall(what + b"\n")


def _end_with_asker(said: BufferedReader) -> None:
    with contextlib.suppress(OSError):
        said.read(1)
    os.kill(os.getpid(), signal.SIGINT)
