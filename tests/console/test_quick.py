"""The program `catchment`: what only looks is answered by the running system, as it would be without it."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.engine import sync
from catchment.runtime.home import Home
from console import main, quick
from deployments.server.running import Running
from tests.console.conftest import Cli, Said
from tests.deployments.standin_system import asked_at

_NAME = "quick"


@pytest.fixture(scope="module")
def library(server_home: Home, server: Running, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The home of a running system, with notes in its library."""
    folder = tmp_path_factory.mktemp("quick")
    (folder / "weir.md").write_text("# Weir\n\nThe weir below the mill, 水, is of oak.\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CATCHMENT_HOME", str(server_home.path))
        sync("local_files", folder, server_home, name=_NAME)
    return server_home


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """A command line, of which nothing is done in this process."""

    def run(*words: str) -> Said:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["catchment", *words])
            patch.setattr(main, "main", lambda: pytest.fail("it was done here"))
            patch.setattr(quick, "_PATIENCE", 60)
            code = quick.main()
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """The home of a system that takes a question and gives no answer."""
    home = Home(tmp_path / "silent").make()
    monkeypatch.setenv("CATCHMENT_HOME", str(home.path))
    with asked_at(home, lambda line: line.makefile("rb").read()):
        yield home


@pytest.fixture
def typed_alone() -> list[str]:
    """The words of a program that does nothing itself."""
    program = "import sys; from console import main, quick; main.main = lambda: 99; sys.exit(quick.main())"
    return [sys.executable, "-c", program]


@pytest.fixture
def asked(state: Path) -> Iterator[Path]:
    """The home of a system that begins what it is asked, and ends before that is done; of a sync it says how to go on."""

    def begin(line: socket.socket) -> None:
        words = json.loads(line.recv(65_536))["words"]
        line.sendall(b"ready\n")
        assert line.recv(100) == b"go\n"
        if "sync" in words:
            line.sendall(b'else ["sync", "notes", "--asked-for", "1"]\n')

    with asked_at(Home(state).make(), begin):
        yield state


@pytest.mark.server
@pytest.mark.parametrize(
    "words", [("search", "oak"), ("show", "weir.md", "--json"), ("jobs", "list", "--source", _NAME, "--json")]
)
def test_the_running_system_says_what_a_process_of_its_own_says(
    words: tuple[str, ...], library: Home, typed: Cli, process: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATCHMENT_HOME", str(library.path))
    said = typed(*words)
    assert said == process(*words)
    assert said.code == 0
    assert "weir" in said.out


@pytest.mark.server
def test_it_is_asked_from_where_the_person_is(
    library: Home, typed: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATCHMENT_HOME", str(library.path))
    monkeypatch.setenv("CATCHMENT_DATABASE_URL", f"sqlite:///{tmp_path / 'another.db'}")
    assert "There is no source yet" in typed("status").out


@pytest.mark.server
def test_on_a_terminal_it_looks_as_without_the_system(library: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATCHMENT_HOME", str(library.path))
    monkeypatch.setenv("TERM", "xterm")
    shown = _on_terminal([sys.executable, "-c", "from console.quick import main; main()", "search", "oak"])
    assert shown == _on_terminal([sys.executable, "-m", "console", "search", "oak"])
    assert b"\x1b[1m" in shown
    assert max(map(len, shown.splitlines())) < 60


@pytest.mark.server
def test_what_does_not_go_well_is_done_again_and_told_once(
    library: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CATCHMENT_HOME", str(library.path))
    monkeypatch.setattr(sys, "argv", ["catchment", "show", "nothing of that name"])
    assert quick.main() == 4
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.server
def test_what_changes_something_is_done_by_the_system(
    library: Home, typed_alone: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATCHMENT_HOME", str(library.path))
    done = subprocess.run([*typed_alone, "throttle", "pause", _NAME], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert _NAME in done.stdout
    done = subprocess.run([*typed_alone, "throttle", "resume", "水"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (4, "")
    assert "水" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.server
def test_a_question_is_asked_on_the_persons_own_terminal(
    library: Home, typed_alone: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATCHMENT_HOME", str(library.path))
    shown = _on_terminal([*typed_alone, "sources", "remove", _NAME], said=b"n\n")
    assert shown == _on_terminal([sys.executable, "-m", "console", "sources", "remove", _NAME], said=b"n\n")
    assert b"Remove quick and its documents from the library?" in shown


def test_who_waited_goes_on_where_the_system_ends_before_the_sync(
    asked: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    del asked
    seen: list[list[str]] = []
    monkeypatch.setattr(main, "main", lambda: seen.append(sys.argv[1:]) or 1)
    monkeypatch.setattr(sys, "argv", ["catchment", "sync", "notes", "--wait"])
    assert quick.main() == 1
    assert seen == [["sync", "notes", "--asked-for", "1"]]
    monkeypatch.setattr(sys, "argv", ["catchment", "throttle", "clear", "notes"])
    assert quick.main() == 10
    assert "type it again" in capsys.readouterr().err


def test_without_a_system_it_is_done_here(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["catchment", "status"])
    assert quick.main() == 0
    assert "no server is running" in capsys.readouterr().out.lower()
    assert not state.exists()


def test_a_system_that_does_not_answer_is_not_waited_for(
    silent: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    del silent
    monkeypatch.setattr(quick, "_PATIENCE", 0.05)
    monkeypatch.setattr(sys, "argv", ["catchment", "sources", "list"])
    assert quick.main() == 0
    assert "no source" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["up"], ["ledger", "vacuum"], ["login", "notes"], ["--debug", "status"], []])
def test_what_the_system_does_not_do_is_never_asked_of_it(
    words: list[str], silent: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    del silent
    monkeypatch.setattr(quick, "_PATIENCE", 600)
    monkeypatch.setattr(sys, "argv", ["catchment", *words])
    monkeypatch.setattr(main, "main", lambda: 7)
    assert quick.main() == 7


def test_a_terminal_that_has_other_letters_gets_them_from_here(silent: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    del silent
    monkeypatch.setattr(quick, "_PATIENCE", 600)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    assert quick._asked(["status"]) is None


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_who_closed_an_output_is_served_from_here(name: str, silent: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    del silent
    monkeypatch.setattr(quick, "_PATIENCE", 600)
    monkeypatch.setattr(sys, name, None)
    assert quick._asked(["status"]) is None


def test_every_command_that_is_asked_of_the_system_is_one(process: Cli) -> None:
    for words in quick._LOOKING:
        said = process(*words.split(), "--help")
        assert (said.code, said.err) == (0, ""), words


def _on_terminal(words: list[str], said: bytes = b"") -> bytes:
    """What a terminal of 40 columns gets, and what is typed on it beforehand."""
    ours, theirs = pty.openpty()
    os.write(ours, said)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs):
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 4096)
            except OSError:
                break  # The last who had the terminal open has ended.
    os.close(ours)
    return shown


def test_what_another_version_answers_is_done_here(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(line: socket.socket) -> None:
        line.recv(65_536)
        line.sendall(b'{"code": 0, "told": "otherwise"}')

    with asked_at(Home(state).make(), answer):
        monkeypatch.setattr(sys, "argv", ["catchment", "sources", "list"])
        assert quick.main() == 0
    assert "no source" in capsys.readouterr().err
