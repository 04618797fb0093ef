"""`catchment service`: have systemd start Catchment with the session of this user, and start it again when it fails."""

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

if TYPE_CHECKING:
    from catchment.runtime.home import Home

app = typer.Typer(help="Have systemd keep Catchment running.", rich_markup_mode=None)

_MARK: Final = "# Written by `catchment service install`; it is replaced as a whole the next time."
_UNIT: Final = """\
{mark}
[Unit]
Description=Catchment: the server, the worker and the watcher

[Service]
Type=exec
ExecStart={command}
Environment={home}
# Variables that only this user may read, if the file is there: CATCHMENT_DATABASE_URL, and secrets kept as env:NAME.
EnvironmentFile=-{variables}
Restart=on-failure
RestartSec=30
# What is configured wrongly or refused by a rule is not mended by another try.
RestartPreventExitStatus=2 5
# The supervisor alone is asked to stop: it hands back what runs, in at most 35 s. What is left then is killed.
KillMode=mixed
TimeoutStopSec=45
# A parser that ran out of memory is one item in quarantine, and no reason to stop everything.
OOMPolicy=continue
UMask=0077
# Nothing here takes away what a parser needs; MemoryDenyWriteExecute would, for ctypes makes such memory.
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
    only_print: Annotated[bool, typer.Option("--print", help="Print the unit and write nothing.")] = False,
) -> None:
    """Write the systemd unit of this user for this home.

    Nothing is started: two commands that do it are told.
    """
    text = unit(session.home())
    if only_print:
        render.say(text.rstrip("\n"))
        return
    if shutil.which("systemctl") is None:
        raise NotFound("systemd is not on this machine; have `catchment up --detach` run when you log in")
    file = unit_file()
    _refuse_a_stranger(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    render.say(f"wrote {file}; two commands put it into force:")
    render.say("  systemctl --user daemon-reload")
    render.say("  systemctl --user enable --now catchment")
    render.say("To have it run while you are not logged in: loginctl enable-linger")
    if os.environ.get("CATCHMENT_DATABASE_URL"):
        render.note(
            "CATCHMENT_DATABASE_URL is not written into the unit, for it may hold a password; "
            f"put it into {_variables(session.home())} (mode 0600)"
        )


@app.command()
def uninstall() -> None:
    """Remove the systemd unit again; what runs goes on."""
    file = unit_file()
    if not file.exists():
        raise NotFound("there is no unit; `catchment service install` writes one")
    _refuse_a_stranger(file)
    # What `systemctl enable` made.
    (file.parent / "default.target.wants" / file.name).unlink(missing_ok=True)
    file.unlink()
    render.say(f"removed {file}; let systemd know: systemctl --user daemon-reload")
    if session.running():
        render.say("Catchment is still running; stop it with `catchment down`")


def unit_file() -> Path:
    """Where systemd looks for the units of this user."""
    return base_folder("XDG_CONFIG_HOME", ".config") / "systemd" / "user" / "catchment.service"


def unit(home: Home) -> str:
    """The unit that runs `catchment up` of this environment for this home."""
    command = [sys.executable, "-P", "-m", "console", "up"]
    return _UNIT.format(
        mark=_MARK,
        # A dollar begins a variable there, and nowhere else.
        command=" ".join(_quoted(word).replace("$", "$$") for word in command),
        home=_quoted(f"CATCHMENT_HOME={home.path}"),
        variables=str(_variables(home)).replace("%", "%%"),
    )


def _variables(home: Home) -> Path:
    return home.path / "environment"


def _quoted(word: str) -> str:
    """A word as systemd.syntax(7) reads it: escaped, in quotes where it needs them, no specifier in it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    return f'"{escaped}"' if escaped != word or " " in word or "'" in word else word


def _refuse_a_stranger(file: Path) -> None:
    with suppress(FileNotFoundError):
        if not file.read_text(encoding="utf-8", errors="replace").startswith(_MARK):
            raise Refused(f"{file} was not written by this command; move it away first")
