"""`catchment service`: a systemd unit that starts Catchment with the user's session, or with the machine."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from catchment.errors import NotFound, Refused
from catchment.runtime.home import base_folder
from console import render, session
from console.help_pages import CommandGroup

if TYPE_CHECKING:
    from catchment.runtime.home import Home

app = CommandGroup("Run Catchment as a systemd service.\n\nExample: catchment service install")

_MARK: Final = "# Written by `catchment service install`, which overwrites the whole file."
_UNIT: Final = """\
{mark}
[Unit]
Description=Catchment: the server, the worker and the watcher
{after}
[Service]
{user}Type=exec
ExecStart={command}
Environment={home}
# Optional file with mode 0600 for CATCHMENT_DATABASE_URL and secrets kept as env:NAME.
EnvironmentFile=-{variables}
Restart=on-failure
RestartSec=30
# A wrong configuration or a refusal by a rule would fail again.
RestartPreventExitStatus=2 5
# Only the supervisor is signalled. It stops its children within 35 s; the rest is killed.
KillMode=mixed
TimeoutStopSec=45
# A parser that runs out of memory quarantines one item and must not stop the service.
OOMPolicy=continue
UMask=0077
# MemoryDenyWriteExecute is missing because ctypes, which parsers need, maps such memory.
NoNewPrivileges=yes
LockPersonality=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
{more}
[Install]
WantedBy={target}
"""
_OF_SYSTEM: Final = """\
# Folders of users and temporary ones stay visible: they may be sources and sinks.
ProtectSystem=full
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
CapabilityBoundingSet=
"""
"""A user's own systemd cannot set these without a namespace, in which the folders of others would have no owner."""
_SYSTEM_UNITS = Path("/etc/systemd/system")
_LINES = 50

_System = Annotated[bool, typer.Option("--system", help="The service of the machine instead of the user; needs root.")]


@app.command()
def install(
    only_print: Annotated[bool, typer.Option("--print", help="Print the unit without writing it.")] = False,
    system: _System = False,
) -> None:
    """Write a systemd unit for this home folder.

    Prints the commands that start the service. With --system, it starts with the machine and runs as the owner of the home
    folder, which CATCHMENT_HOME names.

    Example: catchment service install --print
    """
    text = unit(session.home(), system)
    if only_print:
        render.say(text.rstrip("\n"))
        return
    systemctl = _systemd("systemctl", system, "run `catchment up --detach` at login instead")
    file = unit_file(system)
    _require_ours(file, system)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    render.say(f"wrote {file}; to start the service:")
    if session.running():
        render.say("  catchment down")
    render.say(f"  {' '.join(systemctl)} daemon-reload")
    render.say(f"  {' '.join(systemctl)} enable --now catchment")
    if not system:
        render.say("To keep it running after logout: loginctl enable-linger")
    if os.environ.get("CATCHMENT_DATABASE_URL"):
        render.note(
            "CATCHMENT_DATABASE_URL: not written to the unit, because it may contain a password; "
            f"put it into {session.home().environment} (mode 0600)"
        )


@app.command()
def uninstall(system: _System = False) -> None:
    """Remove the systemd unit.

    A running Catchment is not stopped.

    Example: catchment service uninstall
    """
    file = unit_file(system)
    _require_installed(system)
    _require_ours(file, system)
    # Created by `systemctl enable`.
    (file.parent / f"{_target(system)}.wants" / file.name).unlink(missing_ok=True)
    file.unlink()
    render.say(f"removed {file}; now run: systemctl{'' if system else ' --user'} daemon-reload")
    if session.running():
        render.say("Catchment is still running; stop it with `catchment down`")


@app.command()
def status(system: _System = False) -> int:
    """Show what systemd knows about the service.

    Exits with 1 unless it runs. `catchment status` shows the sources.

    Example: catchment service status
    """
    command = _systemd("systemctl", system, "`catchment status` shows whether Catchment runs")
    _require_installed(system)
    return int(subprocess.run([*command, "status", "--no-pager", "catchment"], check=False).returncode != 0)


@app.command()
def logs(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new lines until Ctrl-C.")] = False,
    system: _System = False,
) -> int:
    """Show the last lines of the service in the journal.

    `catchment logs` shows those of the worker, the server and the page.

    Example: catchment service logs --follow
    """
    command = _systemd("journalctl", system, "`catchment logs` shows the log of the worker")
    _require_installed(system)
    options = [f"--lines={_LINES}", "--no-pager", *(["--follow"] if follow else [])]
    return int(subprocess.run([*command, "--unit=catchment", *options], check=False).returncode != 0)


def unit_file(system: bool) -> Path:
    """Return the path of the unit."""
    folder = _SYSTEM_UNITS if system else base_folder("XDG_CONFIG_HOME", ".config") / "systemd" / "user"
    return folder / "catchment.service"


def unit(home: Home, system: bool) -> str:
    """Return the text of a unit that runs `catchment up` with this Python for this home. Raises NotFound."""
    command = [sys.executable, "-P", "-m", "console", "up"]
    return _UNIT.format(
        mark=_MARK,
        # `$` is special in ExecStart only.
        command=" ".join(_quoted(word).replace("$", "$$") for word in command),
        home=_quoted(f"CATCHMENT_HOME={home.path}"),
        variables=str(home.environment).replace("%", "%%"),
        after="Wants=network-online.target\nAfter=network-online.target\n" if system else "",
        user=f"User={_owner(home)}\n" if system else "",
        more=_OF_SYSTEM if system else "",
        target=_target(system),
    )


def _target(system: bool) -> str:
    return "multi-user.target" if system else "default.target"


def _owner(home: Home) -> str:
    try:
        return pwd.getpwuid(home.path.stat().st_uid).pw_name
    except (FileNotFoundError, KeyError):
        raise NotFound(f"{home.path}: no such home of a user; create it as the user of the service") from None


def _systemd(program: str, system: bool, remedy: str) -> list[str]:
    """Return the beginning of a command. Raises NotFound if this machine has no systemd."""
    if (path := shutil.which(program)) is None:
        raise NotFound(f"systemd: not found on this machine; {remedy}")
    return [Path(path).name, *([] if system else ["--user"])]


def _require_installed(system: bool) -> None:
    if not unit_file(system).exists():
        option = " --system" if system else ""
        raise NotFound(f"service: not installed; install it with `catchment service install{option}`")


def _quoted(word: str) -> str:
    """Escape and quote a word as systemd.syntax(7) requires."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    return f'"{escaped}"' if escaped != word or " " in word or "'" in word else word


def _require_ours(file: Path, system: bool) -> None:
    if system and os.geteuid():
        raise Refused("--system: only root can write there; run it with sudo, and with CATCHMENT_HOME")
    with suppress(FileNotFoundError):
        if not file.read_text(encoding="utf-8", errors="replace").startswith(_MARK):
            raise Refused(f"{file}: not written by this command; move it away first")
