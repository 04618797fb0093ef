"""A separate machine for a host: PID namespace, boot, host name and processes. It shares the network of the tests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import uuid
from dataclasses import replace
from pathlib import Path

import psutil

from catchment.runtime.home import Home
from deployments.server.running import Running, running
from tests.acceptance import document
from tests.acceptance.person import COMMAND, PROJECT, Person
from tests.scale.stack import Stack
from tests.waiting import until

_SET_UP = """
hostname "$NAME"
mount --bind "$BOOT" /proc/sys/kernel/random/boot_id
trap 'exit 0' TERM
while :; do sleep 3600 & wait $!; done
"""
"""The first process waits for orphans, as an init does."""


class Inhabitant(Person):
    """A user inside. The server of all hosts can also be reached from outside."""

    @property
    def running(self) -> Running:
        found = running(Home(self.home))
        assert found is not None, "nothing is up"
        return replace(found, is_elsewhere=False)


class Machine:
    """A user at a machine that is switched on. Its name is also that of its host."""

    def __init__(self, name: str, folder: Path, variables: dict[str, str] | None = None) -> None:
        self.name = name
        self.folder = folder
        folder.mkdir()
        self._variables = {
            "HOME": str(folder),
            "PATH": os.pathsep.join([str(COMMAND.parent), os.environ["PATH"]]),
            **(variables or {}),
        }
        self.switch_on()

    def switch_on(self) -> None:
        """Start the machine: a new boot. Its home is as it was."""
        boot = self.folder / "boot_id"
        boot.write_text(f"{uuid.uuid4()}\n")
        self._machine = subprocess.Popen(
            ["unshare", "-m", "-p", "-u", "--fork", "--mount-proc", "--kill-child", "bash", "-ec", _SET_UP],
            env={"PATH": os.environ["PATH"], "NAME": self.name, "BOOT": str(boot)},
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        [first] = until(lambda: psutil.Process(self._machine.pid).children())
        inside = ("nsenter", "--target", str(first.pid), "--mount", "--pid", "--uts", "--wd=/")
        self.person = Inhabitant(
            self.folder / ".local" / "share" / "catchment", before=inside, variables=self._variables
        )
        # The shell may still be at work.
        until(lambda: subprocess.check_output([*inside, "hostname"], text=True) == f"{self.name}\n")

    def switch_off(self) -> None:
        """Kill every process at once, as a power cut does."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._machine.pid).children():
                process.kill()
        self._machine.wait(30)
        until(lambda: not self.person.processes())

    @contextlib.contextmanager
    def suspended(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[misc]
        """Stop all processes of the host for the duration of the block."""
        stopped = self.person.processes()
        for process in stopped:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in stopped:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGCONT)

    def follow(self, stack: Stack, section: str) -> None:
        """Carry out the commands of a section of docs/growing.md."""
        (self.folder / "ca.pem").write_bytes(stack.authority.read_bytes())
        login = self.folder / "login"
        login.touch(0o600)
        login.write_text(stack.login)
        environment = {**self.person.environment, "SERVER": stack.server, "LEDGER": stack.ledger}
        inside = [*self.person.before[:-1], f"--wd={self.folder}"]
        document.carry_out(PROJECT / "docs" / "growing.md", environment, self.folder, under=section, before=inside)
