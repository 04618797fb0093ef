"""The fork server without a Prefect server: what a forked process gets, how it ends, and when it is forked anew."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from catchment.errors import TryAgain
from deployments.warm.forge import Forge, Order, Run
from deployments.warm.link import Link
from deployments.warm.preload import SourceFiles
from tests.waiting import gone, until

_RUN = "0198f0a4-5a3c-7b1e-9c47-3d2f6a8b9c0d"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The module that is preloaded; a test may write into it."""
    path = tmp_path / "preloaded.py"
    path.write_text("", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("CATCHMENT_PRELOAD", "preloaded")
    return path


@pytest.fixture
def warned() -> list[str]:
    return []


@pytest.fixture
async def link(module: Path, warned: list[str]) -> AsyncIterator[Link]:
    link = Link(warned.append)
    yield link
    await link.close()


def _order(folder: Path, program: str, **env: str) -> Order:
    command = shlex.join([sys.executable, "-c", program])
    return Order(_RUN, {"PATH": os.defpath, **env}, str(folder), command)


async def test_a_run_has_the_environment_and_the_folder_of_its_order_and_no_other(
    link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_WORKER", "1")
    program = "import os, json; json.dump(dict(os.environ), open('seen.json', 'w'))"

    run = await link.start(_order(tmp_path, program, MINE="2"))

    assert (await run.wait()).code == 0
    seen = (tmp_path / "seen.json").read_text(encoding="utf-8")
    assert '"MINE": "2"' in seen
    assert "OF_THE_WORKER" not in seen


async def test_a_run_that_does_not_listen_is_killed_with_what_it_started(link: Link, tmp_path: Path) -> None:
    program = (
        "import os, signal, subprocess, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "child = subprocess.Popen(['sleep', '60']); open('new', 'w').write(str(child.pid)); os.rename('new', 'child');"
        "time.sleep(60)"
    )
    run = await link.start(_order(tmp_path, program))
    while not (tmp_path / "child").exists():
        assert psutil.pid_exists(run.pid)
    child = psutil.Process(int((tmp_path / "child").read_text(encoding="utf-8")))

    ended = await run.end(grace=0.2)

    assert ended.code == -signal.SIGKILL
    until(lambda: gone(child))


async def test_changed_code_brings_another_fork_server_and_leaves_the_runs_of_the_one_before(
    link: Link, module: Path, tmp_path: Path
) -> None:
    lasting = await link.start(_order(tmp_path, "import time; time.sleep(60)"))
    module.write_text("CHANGED = True\n", encoding="utf-8")

    after = await link.start(_order(tmp_path, "import time; time.sleep(60)"))

    assert psutil.Process(after.pid).ppid() != psutil.Process(lasting.pid).ppid()
    assert (await lasting.end(grace=5)).code == -signal.SIGTERM
    assert (await after.end(grace=5)).code == -signal.SIGTERM


async def test_a_module_that_cannot_be_imported_is_named_and_runs_go_on(
    link: Link, module: Path, warned: list[str], tmp_path: Path
) -> None:
    module.write_text("import nothing_of_this_name\n", encoding="utf-8")

    run = await link.start(_order(tmp_path, "pass"))

    assert (await run.wait()).code == 0
    assert "preloaded (ModuleNotFoundError)" in warned[0]


async def test_a_module_that_starts_a_thread_is_refused(link: Link, module: Path, tmp_path: Path) -> None:
    module.write_text("import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n")

    with pytest.raises(TryAgain, match="does not start"):
        await link.start(_order(tmp_path, "pass"))


async def test_a_run_tells_what_it_used(link: Link, tmp_path: Path) -> None:
    program = "data = b'x' * 60_000_000; sum(range(3_000_000))"

    ended = await (await link.start(_order(tmp_path, program))).wait()

    assert ended.cpu > 0
    assert ended.memory > 60_000_000


async def test_the_end_of_the_link_ends_the_runs(module: Path, tmp_path: Path) -> None:
    link = Link(lambda _: None)
    run = await link.start(_order(tmp_path, "import time; time.sleep(60)"))

    await link.close()

    assert (await run.wait()).code == -signal.SIGKILL
    assert not psutil.pid_exists(run.pid)


async def test_who_waits_no_more_for_a_run_keeps_nobody_else_from_hearing_of_the_end(
    link: Link, tmp_path: Path
) -> None:
    run = await link.start(_order(tmp_path, "import time; time.sleep(60)"))
    forge = psutil.Process(psutil.Process(run.pid).ppid())
    forge.suspend()
    asked = asyncio.create_task(link.start(_order(tmp_path, "pass")))
    await asyncio.sleep(0.2)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)

    forge.kill()

    assert (await asyncio.wait_for(run.wait(), 10)).code == -signal.SIGKILL


@pytest.mark.parametrize("last", ["the request", "the end of the link"])
def test_a_run_is_killed_even_before_it_leads_a_group_of_its_own(last: str) -> None:
    ours, theirs = socket.socketpair()
    pid = os.posix_spawnp("sleep", ["sleep", "12"], os.environ)
    forge = Forge(theirs, SourceFiles(()), 0)
    forge.runs[pid] = Run(1, psutil.Process(pid))
    if last == "the request":
        ours.sendall(b"".join(json.dumps(each).encode() + b"\n" for each in ({"signal": 9, "to": 1}, {"retire": True})))
    else:
        ours.close()
    began = time.monotonic()

    assert forge.serve() is None

    assert time.monotonic() - began < 8
    ours.close()
    theirs.close()
