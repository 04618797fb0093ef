"""The process of which server, worker, watcher and reclaiming are forks: `python -P -m
deployments.supervisor.zygote LINK LISTENING ROLE=LOG…`,
started and spoken to by `service.py`. LINK, LISTENING and LOG are open file descriptors.

Their imports overlap: done once for all they take half of the time, and their memory is shared. It has one thread and no
event loop, so that a fork is as good as a new interpreter. When the link closes it ends, and all that it forked ends with it.

    in   ROLE                 start it
    out  ready                the server can be started
         started ROLE PID     ended PID CODE (exit code or minus the signal)
         refused ROLE         no process can be started now
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from catchment.runtime.home import Home
from deployments.server.environment import POOL
from deployments.supervisor.forked import place
from deployments.supervisor.processes import Deaths, end_with_parent, name_process
from deployments.warm import forge

if TYPE_CHECKING:
    from deployments.warm.worker import WarmWorker


@dataclass(slots=True)
class Zygote:
    """The loop that forks. `logs` has the descriptor that takes a role's output; the ground is there after the first fork."""

    link: socket.socket
    logs: Mapping[str, int]
    ground: forge.Ground
    _pids: set[int] = field(default_factory=set)
    _received: bytes = b""

    def serve(self) -> str | None:
        """Start what is asked for and tell how it ended. Returns in the fork, with its role; and None at the end."""
        self._say("ready")
        with Deaths() as deaths, selectors.DefaultSelector() as selector:
            selector.register(self.link, selectors.EVENT_READ)
            selector.register(deaths.ear, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if deaths.ear in ready:
                    deaths.heard()
                    self._bury()
                if self.link in ready:
                    roles = self._read()
                    if roles is None:
                        return None
                    for role in roles:
                        if self._fork(role):
                            return role
                        # The server, which comes first, can do without.
                        self.ground.prepare()

    def _fork(self, role: str) -> bool:
        """Whether this is the fork."""
        gc.collect()
        gc.freeze()
        try:
            pid = os.fork()
        except OSError:
            # Whatever was forked before would end with this process.
            self._say(f"refused {role}")
            return False
        if pid:
            self._pids.add(pid)
            self._say(f"started {role} {pid}")
            return False
        self.link.close()
        os.setsid()
        for descriptor in (1, 2):
            os.dup2(self.logs[role], descriptor)
        for descriptor in self.logs.values():
            os.close(descriptor)
        return True

    def _bury(self) -> None:
        for pid in list(self._pids):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._pids.remove(pid)
                self._say(f"ended {pid} {os.waitstatus_to_exitcode(status)}")

    def _read(self) -> list[str] | None:
        try:
            received = self.link.recv(4096)
        except ConnectionError:
            return None
        *lines, self._received = (self._received + received).split(b"\n")
        return [line.decode() for line in lines] if received else None

    def _say(self, line: str) -> None:
        # A supervisor that is gone is noticed by the next reading.
        with contextlib.suppress(OSError):
            self.link.sendall(f"{line}\n".encode())


def main(link: str, listening: str, *logs: str) -> None:
    """Serve until the supervisor closes the link; in a fork, be what was asked for."""
    _end_with_supervisor()
    name_process("zygote")
    os.umask(0o077)
    thresholds = gc.get_threshold()
    # What imports make stays: to look through it again and again takes a tenth of their time.
    gc.set_threshold(50_000, *thresholds[1:])
    ground = forge.Ground.take()
    for name in ("prefect.server.api.server", "uvicorn"):
        importlib.import_module(name)
    descriptors = {role: int(descriptor) for role, _, descriptor in (log.partition("=") for log in logs)}
    served = socket.socket(fileno=int(listening))
    for descriptor in (int(link), served.fileno(), *descriptors.values()):
        os.set_inheritable(descriptor, False)
    role = Zygote(socket.socket(fileno=int(link)), descriptors, ground).serve()
    if role is None:
        return
    gc.set_threshold(*thresholds)
    _end_with_supervisor()
    name_process(role)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if role == "server":
        _serve(served)
        return
    served.close()
    if role == "worker":
        _work(ground)
    elif role == "watcher":
        from deployments.watch.__main__ import main as watch

        watch()
    else:
        from deployments.supervisor.reclaim import main as reclaim

        reclaim()


def _serve(listening: socket.socket) -> None:
    import uvicorn
    from prefect.context import refresh_global_settings_context
    from prefect.server.api.server import create_app

    from deployments.server.answers import telling
    from deployments.server.confined import confined
    from deployments.server.garbage import collect_aside
    from deployments.server.immediate import begin_immediately
    from deployments.server.prefect_database import block_type_settings
    from deployments.server.seldom import look_seldom

    # It asks for what the others say.
    os.environ["PREFECT_SERVER_API_AUTH_STRING"] = os.environ["PREFECT_API_AUTH_STRING"]
    os.environ.update(block_type_settings(Home.default()))
    refresh_global_settings_context()
    begin_immediately()
    collect_aside()
    look_seldom()
    config = uvicorn.Config(
        confined(telling(create_app(final=True)), listening.getsockname()[1]),
        log_level="warning",
        # Open event streams never end by themselves; a stop must not wait for them.
        timeout_graceful_shutdown=3,
    )
    uvicorn.Server(config).run(sockets=[listening])


def _work(ground: forge.Ground) -> None:
    from deployments.warm.worker import WarmWorker

    ours, theirs = socket.socketpair()
    desk = place(Home.default())
    pid = os.fork()
    if pid == 0:
        ours.close()
        os.setsid()
        name_process("fork server")
        forge.serve(theirs, ground, desk)
        return
    theirs.close()
    worker = WarmWorker(work_pool_name=POOL, name=POOL, create_pool_if_not_found=False)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_take_runs(worker, ours, pid, desk))


async def _take_runs(worker: WarmWorker, link: socket.socket, fork_server: int, desk: Path) -> None:
    # Ctrl-C is what a worker takes as the wish to let its runs end; a plain end would kill them.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, signal.raise_signal, signal.SIGINT)
    await worker.adopt(link, fork_server, desk)
    await worker.start()


def _end_with_supervisor() -> None:
    parent = os.getppid()
    if not end_with_parent():
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
