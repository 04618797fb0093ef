"""The fork server: `python -P -m deployments.warm.forge FD`, started and spoken to by `link.py`, one JSON line per
message.

It imports Prefect and the project once, and each run is a fork of it. It has one thread, no event loop, and nothing open but
the socket to its worker, so that a fork is as good as a new interpreter. When that socket closes, by whatever end of the
worker, every run is killed with all that it started.

    in   {"start": key, "order": the fields of `Order`}
         {"signal": number, "to": key}       {"retire": true}: end when the last run has ended
    out  {"ready": [modules that failed]}    {"stale": true}: a source file changed; another fork server is needed
         {"started": key, "pid": pid}        {"refused": key, "why": text}: it runs nowhere yet
         {"ended": key, "code": exit code or minus the signal, "cpu": s, "memory": bytes, "read": bytes, "written": bytes}
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import json
import os
import resource
import runpy
import selectors
import shlex
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import certifi
import psutil

from catchment.runtime import atomic_files
from deployments.server.child_process import end_with_parent, name_process
from deployments.server.environment import NO_RUN, RUN_VARIABLE
from deployments.supervisor.processes import Deaths
from deployments.warm.preload import PREFECT, SourceFiles, complete_models, load, wanted

STALE = "the project's code changed"
_ENGINE = "prefect.engine"
_LOOK_SECONDS = 2.0
"""How often the source files are looked at while nothing happens."""


@dataclass(slots=True)
class Run:
    """A run that was forked, by its key; what it has read and written."""

    key: int
    process: psutil.Process
    io: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked for: its environment, where it begins, what it executes (a command, else Prefect's engine), and whether
    what it says goes nowhere, instead of where the fork server's output goes."""

    flow_run: str
    env: dict[str, str]
    folder: str
    command: str | None = None
    is_mute: bool = False


@dataclass(slots=True)
class Forge:
    """The fork server's loop. `label` is where this process's first environment keeps the id of its flow run."""

    link: socket.socket
    files: SourceFiles
    label: int
    pid: int = field(default_factory=os.getpid)
    runs: dict[int, Run] = field(default_factory=dict)
    retired: bool = False
    stale: bool = False
    _received: bytes = b""

    def serve(self) -> Order | None:
        """Start what is asked for and tell how it ended. Returns in the fork, with its order, and None at the end."""
        with Deaths() as deaths, selectors.DefaultSelector() as selector:
            selector.register(self.link, selectors.EVENT_READ)
            selector.register(deaths.ear, selectors.EVENT_READ)
            while not (self.retired and not self.runs):
                ready = [key.fileobj for key, _ in selector.select(None if self.stale else _LOOK_SECONDS)]
                if deaths.ear in ready:
                    deaths.heard()
                    self._bury()
                if self.link in ready:
                    messages = self._read()
                    if messages is None:
                        self._kill_all()
                        return None
                    for message in messages:
                        if order := self._obey(message):
                            return order
                if not ready:
                    self._is_stale()
        return None

    def say(self, message: dict[str, Any]) -> None:
        """Send one message; a worker that is gone is noticed by the next reading."""
        with contextlib.suppress(OSError):
            self.link.sendall(json.dumps(message).encode() + b"\n")

    def _read(self) -> list[dict[str, Any]] | None:
        try:
            received = self.link.recv(1 << 20)
        except ConnectionError:
            return None
        if not received:
            return None
        *lines, self._received = (self._received + received).split(b"\n")
        return [json.loads(line) for line in lines]

    def _obey(self, message: dict[str, Any]) -> Order | None:
        if "start" in message:
            return self._start(message["start"], Order(**message["order"]))
        if "signal" in message:
            self._signal(message["to"], message["signal"])
        else:
            self.retired = True
        return None

    def _start(self, key: int, order: Order) -> Order | None:
        if self._is_stale():
            self.say({"refused": key, "why": STALE})
            return None
        # Other processes read there which run the fork executes; an environment that is set later is not seen by them.
        ctypes.memmove(self.label, order.flow_run.encode(), len(NO_RUN))
        try:
            pid = self._fork(key)
        except OSError as error:
            self.say({"refused": key, "why": f"no process can be started ({error.strerror})"})
            return None
        finally:
            if os.getpid() == self.pid:
                ctypes.memmove(self.label, NO_RUN.encode(), len(NO_RUN))
        if pid == 0:
            return order
        self.say({"started": key, "pid": pid})
        return None

    def _is_stale(self) -> bool:
        if not self.stale and self.files.changed():
            self.stale = True
            self.say({"stale": True})
        return self.stale

    def _fork(self, key: int) -> int:
        """As `os.fork`. The fork is a process of its own: nothing of the fork server's is left open, handled or inherited."""
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            self.runs[pid] = Run(key, psutil.Process(pid))
            return pid
        self.link.close()
        os.setsid()
        end_with_parent(self.pid)
        name_process("run")
        return 0

    def _signal(self, key: int, number: int) -> None:
        for pid, run in self.runs.items():
            if run.key == key:
                # What a run started is asked by it, and is killed with it.
                if number == signal.SIGKILL:
                    _kill(pid)
                else:
                    os.kill(pid, number)

    def _bury(self) -> None:
        for pid, run in list(self.runs.items()):
            # The figures of a process are still there when it has ended and nobody has asked for its exit code.
            run.io = _io(run.process) or run.io
            ended, status, used = os.wait4(pid, os.WNOHANG)
            if ended:
                del self.runs[pid]
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
                self.say({"ended": run.key, "code": os.waitstatus_to_exitcode(status), **_figures(used, run.io)})

    def _kill_all(self) -> None:
        for pid in self.runs:
            _kill(pid)
        for pid in self.runs:
            os.waitpid(pid, 0)


@dataclass(slots=True)
class Ground:
    """What a fork server stands on: room for the id of a run in its process, settings, and the code that it has imported."""

    label: int
    lean: Mapping[str, str]
    files: SourceFiles | None = None
    failed: list[str] = field(default_factory=list)

    @classmethod
    def take(cls) -> Ground:
        """Take the settings that spare a run something; to be called before Prefect is imported."""
        # What is registered first is called last.
        atexit.register(_leave)
        label = _label()
        lean = lean_settings(os.environ)
        os.environ.update(lean)
        return cls(label, lean)

    def prepare(self) -> SourceFiles:
        """Import and do once what runs need, unless that was done; the files of it as they were before."""
        if self.files is None:
            names = wanted()
            self.files = SourceFiles(names)
            self.failed = load((*PREFECT, *names))
            complete_models()
            self.failed += _rehearsed()
            if threading.active_count() > 1:
                # A lock that another thread holds at the fork would stay locked for ever.
                sys.exit(f"a preloaded module started a thread; take it off the preload list: {' '.join(names)}")
        return self.files


def serve(link: socket.socket, ground: Ground) -> None:
    """Serve until the worker closes the socket; in a fork, execute its run instead."""
    forge = Forge(link, ground.prepare(), ground.label)
    gc.collect()
    gc.freeze()
    forge.say({"ready": ground.failed})
    before = _spellings()
    if order := forge.serve():
        _begin(order)
        os.environ.clear()
        os.environ.update({**ground.lean, **order.env})
        # The system looks at TZ once.
        time.tzset()
        _execute(order, fresh=_has_settings(before))


def _begin(order: Order) -> None:
    """Have the outputs and the folder of a run."""
    if order.is_mute:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(nowhere, descriptor)
    os.chdir(order.folder)


def _rehearsed() -> list[str]:
    """Do what a sync does once, if its code is here; what went wrong, which the runs will tell in full."""
    if "catchment.sync.session" not in sys.modules:
        return []
    try:
        from deployments.warm.rehearsal import rehearse

        rehearse()
    except Exception as error:  # noqa: BLE001 - as where modules are loaded: the code may be under way
        return [f"a rehearsal ({type(error).__name__})"]
    return []


def lean_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings that spare a run of this machine's own server what it has no use for; what is set already counts more."""
    settings = {"PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false"}
    home = environment.get("PREFECT_HOME")
    if home and environment.get("PREFECT_API_URL", "").startswith("http://"):
        # Each client of Prefect prepares for TLS, 35 ms for the usual list of authorities. Without TLS one will do.
        settings["PREFECT_API_SSL_CERT_FILE"] = str(_one_authority(Path(home)))
    return {key: value for key, value in settings.items() if key not in environment}


def _execute(order: Order, *, fresh: bool) -> None:
    if order.command:
        words = shlex.split(order.command)
        os.execvp(words[0], words)
    if not fresh:
        take_settings()
    # Python's own random numbers begin anew after a fork; these do not.
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    # It is imported already, which would be remarked upon.
    warnings.filterwarnings("ignore", message=".*prefect.engine", category=RuntimeWarning, module="runpy")
    sys.path.insert(0, order.folder)
    sys.argv = [_ENGINE]
    try:
        runpy.run_module(_ENGINE, run_name="__main__")
    except SystemExit as leaving:
        if isinstance(leaving.code, str):
            raise
        _codes.append(leaving.code or 0)
    else:
        _codes.append(0)


_codes: list[int] = []
"""How the module ended that this fork was made for, once it has ended well or with a code."""


def _leave() -> None:
    """The last that is done at exit: to take apart all that was imported takes 0.1 s, and the system does it at once."""
    for stream in (sys.stdout, sys.stderr):
        # As the interpreter does: who read it may be gone.
        with contextlib.suppress(OSError):
            stream.flush()
    if _codes:
        os._exit(_codes[0])


def _settings() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key.startswith("PREFECT_") and key[8:9] != "_"}


def _spellings() -> dict[str, set[str | None]]:
    """Prefect's settings as they are here, each as it was given and as Prefect writes it: 15 and 15.0 are the same."""
    from prefect.settings import get_current_settings

    written = get_current_settings().to_environment_variables(exclude_unset=True)
    return {key: {value, written.get(key)} for key, value in _settings().items()}


def _has_settings(before: Mapping[str, set[str | None]]) -> bool:
    """Whether the environment says what it said before; reading Prefect's settings anew takes 90 ms."""
    now = _settings()
    return now.keys() == before.keys() and all(value in before[key] for key, value in now.items())


def take_settings() -> None:
    """Have Prefect read its settings anew, as the environment has them now; 90 ms."""
    from prefect.context import refresh_global_settings_context
    from prefect.logging.configuration import setup_logging

    refresh_global_settings_context()
    setup_logging(incremental=False)


def _one_authority(folder: Path) -> Path:
    path = folder / "one-authority.pem"
    if not path.exists():
        first, end, _ = Path(certifi.where()).read_text(encoding="utf-8").partition("-----END CERTIFICATE-----")
        folder.mkdir(parents=True, exist_ok=True)
        atomic_files.write(path, f"{first}{end}\n".encode())
    return path


def _label() -> int:
    """The address of the flow run's id in this process's first environment, where `link.py` left room for one."""
    get = ctypes.CDLL(None).getenv
    get.restype = ctypes.c_void_p
    address: int = get(RUN_VARIABLE.encode())
    del os.environ[RUN_VARIABLE]
    return address


def _kill(pid: int) -> None:
    """Kill a run whose end was not asked for yet, with the group that it leads, as it does from its first moments on."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)


def _io(process: psutil.Process) -> tuple[int, int] | None:
    if not hasattr(process, "io_counters"):
        return None
    with contextlib.suppress(psutil.Error, OSError):
        counters = process.io_counters()
        return counters.read_bytes, counters.write_bytes
    return None


def _figures(used: resource.struct_rusage, io: tuple[int, int]) -> dict[str, Any]:
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "cpu": used.ru_utime + used.ru_stime,
        "memory": used.ru_maxrss * unit,
        "read": io[0],
        "written": io[1],
    }


if __name__ == "__main__":
    to_worker = socket.socket(fileno=int(sys.argv[1]))
    to_worker.set_inheritable(False)
    serve(to_worker, Ground.take())
