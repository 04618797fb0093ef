"""`catchment service`: a systemd unit that starts Catchment with the user's session and restarts it on failure."""

from __future__ import annotations

import os
import shutil
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

[Service]
Type=exec
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

[Install]
WantedBy=default.target
"""


@app.command()
def install(
    only_print: Annotated[bool, typer.Option("--print", help="Print the unit without writing it.")] = False,
) -> None:
    """Write a systemd user unit for this home folder.

    Prints the commands that start the service.

    Example: catchment service install --print
    """
    text = unit(session.home())
    if only_print:
        render.say(text.rstrip("\n"))
        return
    if shutil.which("systemctl") is None:
        raise NotFound("systemd: not found on this machine; run `catchment up --detach` at login instead")
    file = unit_file()
    _require_ours(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    render.say(f"wrote {file}; to start the service:")
    render.say("  systemctl --user daemon-reload")
    render.say("  systemctl --user enable --now catchment")
    render.say("To keep it running after logout: loginctl enable-linger")
    if os.environ.get("CATCHMENT_DATABASE_URL"):
        render.note(
            "CATCHMENT_DATABASE_URL: not written to the unit, because it may contain a password; "
            f"put it into {session.home().environment} (mode 0600)"
        )


@app.command()
def uninstall() -> None:
    """Remove the systemd unit.

    A running Catchment is not stopped.

    Example: catchment service uninstall
    """
    file = unit_file()
    if not file.exists():
        raise NotFound("service: not installed; install it with `catchment service install`")
    _require_ours(file)
    # Created by `systemctl enable`.
    (file.parent / "default.target.wants" / file.name).unlink(missing_ok=True)
    file.unlink()
    render.say(f"removed {file}; now run: systemctl --user daemon-reload")
    if session.running():
        render.say("Catchment is still running; stop it with `catchment down`")


def unit_file() -> Path:
    """Return the path of the user unit."""
    return base_folder("XDG_CONFIG_HOME", ".config") / "systemd" / "user" / "catchment.service"


def unit(home: Home) -> str:
    """Return the text of a unit that runs `catchment up` with this Python for this home."""
    command = [sys.executable, "-P", "-m", "console", "up"]
    return _UNIT.format(
        mark=_MARK,
        # `$` is special in ExecStart only.
        command=" ".join(_quoted(word).replace("$", "$$") for word in command),
        home=_quoted(f"CATCHMENT_HOME={home.path}"),
        variables=str(home.environment).replace("%", "%%"),
    )


def _quoted(word: str) -> str:
    """Escape and quote a word as systemd.syntax(7) requires."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    return f'"{escaped}"' if escaped != word or " " in word or "'" in word else word


def _require_ours(file: Path) -> None:
    with suppress(FileNotFoundError):
        if not file.read_text(encoding="utf-8", errors="replace").startswith(_MARK):
            raise Refused(f"{file}: not written by this command; move it away first")
