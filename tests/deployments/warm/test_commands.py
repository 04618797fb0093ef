"""Commands that a fork server does for others: once, on their own files, and no longer than they want it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import psutil
import pytest

from catchment.runtime.home import Home
from deployments.server.environment import with_room_for_a_run
from deployments.supervisor import forked
from deployments.supervisor.forked import Command, UnfinishedError
from tests.deployments.standin_system import asked_at
from tests.waiting import until

_SECONDS = 30.0
Files = tuple[BinaryIO, BinaryIO, BinaryIO]


@contextlib.contextmanager
def serving(home: Home, modules: Path, preload: str = "") -> Iterator[psutil.Process]:
    """A fork server that is asked at the home's socket, and finds modules there."""
    ours, theirs = socket.socketpair()
    environment = {**os.environ, "PYTHONPATH": str(modules), "CATCHMENT_PRELOAD": preload}
    with (
        ours,
        subprocess.Popen(
            [sys.executable, "-P", "-m", "deployments.warm.forge", str(theirs.fileno()), str(forked.place(home))],
            pass_fds=[theirs.fileno()],
            env=with_room_for_a_run(environment),
        ) as server,
    ):
        theirs.close()
        assert ours.recv(1_000) == b'{"ready": []}\n'
        yield psutil.Process(server.pid)
        ours.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("commands") / "home").make()


@pytest.fixture(scope="module")
def module(home: Home) -> Path:
    """The module that the commands of these tests execute."""
    return home.path / "asked.py"


@pytest.fixture(scope="module")
def server(home: Home, module: Path) -> Iterator[psutil.Process]:
    with serving(home, module.parent) as process:
        yield process


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    """An input that says `four words of input`, and two outputs."""
    (tmp_path / "input").write_text("four words of input\n")
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context((tmp_path / name).open("a+b")) for name in ("input", "output", "errors")]
        made[0].seek(0)
        yield made[0], made[1], made[2]


def command(tmp_path: Path, *words: str, **environment: str) -> Command:
    return Command(["asked", *words], str(tmp_path), {"PATH": os.defpath, **environment})


def carried_out(home: Home, asked: Command, files: Files) -> int | None:
    return forked.carry_out(home, asked, [file.fileno() for file in files], _SECONDS, _SECONDS)


@pytest.mark.usefixtures("server")
def test_it_has_the_input_the_outputs_the_folder_and_the_environment_of_who_asks(
    module: Path, home: Home, tmp_path: Path, files: Files
) -> None:
    module.write_text(
        "import os, sys\n"
        "print(sys.argv[1:], input(), os.getcwd(), os.environ['MINE'], 'PREFECT_HOME' in os.environ)\n"
        "print('水', file=sys.stderr)\n"
        "sys.exit(7)\n",
        encoding="utf-8",
    )
    assert carried_out(home, command(tmp_path, "one", "two", MINE="2"), files) == 7
    assert (tmp_path / "output").read_text() == f"['one', 'two'] four words of input {tmp_path} 2 False\n"
    assert (tmp_path / "errors").read_text() == "水\n"


@pytest.mark.usefixtures("server")
def test_an_error_that_nobody_foresaw_is_told_and_is_code_1(
    module: Path, home: Home, tmp_path: Path, files: Files
) -> None:
    module.write_text("1 / 0\n", encoding="utf-8")
    assert carried_out(home, command(tmp_path), files) == 1
    assert "ZeroDivisionError" in (tmp_path / "errors").read_text()


@pytest.mark.usefixtures("server")
def test_where_its_process_dies_who_asked_knows_how_to_go_on(
    module: Path, home: Home, tmp_path: Path, files: Files
) -> None:
    die = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    module.write_text(die, encoding="utf-8")
    with pytest.raises(UnfinishedError, match="type it again") as died:
        carried_out(home, command(tmp_path), files)
    assert died.value.instead == ()
    module.write_text(
        f"from deployments.supervisor.forked import go_on_with\ngo_on_with(['wait', 'für 5'])\n{die}", encoding="utf-8"
    )
    with pytest.raises(UnfinishedError) as died:
        carried_out(home, command(tmp_path), files)
    assert died.value.instead == ["wait", "für 5"]


def test_who_does_not_wait_until_it_begins_may_do_it_alone(
    server: psutil.Process, module: Path, home: Home, tmp_path: Path
) -> None:
    module.write_text("open('done', 'w')\n", encoding="utf-8")
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(forked.place(home)))
        asked = f'{{"words": ["asked"], "folder": "{tmp_path}", "environment": {{}}}}\n'
        socket.send_fds(line, [asked.encode()], [0, 1, 2])
        assert line.recv(100) == b"ready\n"
        fork = max(server.children(), key=lambda child: child.pid)
    psutil.wait_procs([fork], timeout=_SECONDS)
    assert not (tmp_path / "done").exists()


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_is_interrupted_with_who_asks(how: signal.Signals, module: Path, home: Home, tmp_path: Path) -> None:
    module.write_text(
        "import sys, time\n"
        "try:\n    print('begun', flush=True); time.sleep(60)\n"
        "except KeyboardInterrupt:\n    open('interrupted', 'w'); sys.exit(130)\n",
        encoding="utf-8",
    )
    program = (
        "import os, sys; from deployments.supervisor.forked import Command, carry_out; "
        "from catchment.runtime.home import Home; "
        "sys.exit(carry_out(Home.default(), Command(['asked'], os.getcwd(), dict(os.environ)), (0, 1, 2), 30))"
    )
    project = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "CATCHMENT_HOME": str(home.path), "PYTHONPATH": str(project)},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as asks:
        assert asks.stdout
        assert asks.stdout.readline() == b"begun\n"
        asks.send_signal(how)
        assert asks.wait(_SECONDS) == (130 if how == signal.SIGINT else -how)
    until((tmp_path / "interrupted").exists)


def test_code_that_changed_is_not_executed_as_it_was(tmp_path: Path, files: Files) -> None:
    (tmp_path / "asked.py").write_text("")
    (tmp_path / "other.py").write_text("")
    home = Home(tmp_path / "home").make()
    with serving(home, tmp_path, "other"):
        assert carried_out(home, command(tmp_path), files) == 0
        (tmp_path / "other.py").write_text("1")
        assert carried_out(home, command(tmp_path), files) is None


def test_a_system_that_is_gone_in_the_next_moment_has_not_done_it(tmp_path: Path, files: Files) -> None:
    def go_away(line: socket.socket) -> None:
        line.recv(65_536)
        line.sendall(b"ready\n")
        # What is not read when it closes is an error to who sent it.
        select.select([line], [], [])

    home = Home(tmp_path / "home").make()
    with asked_at(home, go_away), pytest.raises(UnfinishedError):
        carried_out(home, command(tmp_path), files)


def test_without_a_system_nobody_begins_it(tmp_path: Path, files: Files) -> None:
    assert carried_out(Home(tmp_path / "home").make(), command(tmp_path), files) is None
