"""The command `catchment`: its groups, and the boundary where every error becomes one line and an exit code.

Exit codes: 0 done, 1 error, 2 bad input, 3 login or permission, 4 not found, 5 refused by a rule, 10 try again, and 130
when it was interrupted.
A command's module is imported when the command is called, and the libraries that it needs only then.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Final

import typer

from catchment.errors import BadInput, CatchmentError, LedgerError, LedgerUnavailable, LoginFailed, TryAgain
from console import render, session

_HELP = """Bring files, notes, mail and GitHub into one searchable library on this machine, and keep it up to date.

Errors are one line with the remedy; exit codes: 0 done, 1 error, 2 bad input, 3 login or permission, 4 not found,
5 refused by a rule, 10 try again.
"""

_COMMANDS: Final = {
    "up": "start_stop.server:up",
    "down": "start_stop.server:down",
    "demo": "start_stop.demo:demo",
    "service": "start_stop.service:app",
    "status": "start_stop.status:status",
    "health": "trouble.health:health",
    "doctor": "trouble.doctor:doctor",
    "sources": "sources.sources:app",
    "login": "sources.login:app",
    "consent": "sources.consent:app",
    "sync": "sources.syncs:sync",
    "plan": "sources.plan:plan",
    "undo": "trouble.undo:undo",
    "prove": "trouble.prove:prove",
    "search": "library.search:search",
    "show": "library.search:show",
    "related": "library.search:related",
    "why": "library.why:why",
    "jobs": "trouble.jobs:app",
    "quarantine": "trouble.quarantine:app",
    "deletions": "trouble.deletions:app",
    "throttle": "operate.throttle:app",
    "webhook": "sources.webhook:app",
    "vault": "library.vault:app",
    "backup": "data.backup:backup",
    "restore": "data.backup:restore",
    "config": "data.upkeep:config_app",
    "ledger": "data.upkeep:ledger_app",
}
"""Where each command is, in the order of the help: only the one that is called is loaded."""

_NO_TEXT = "what was typed is no text as this terminal writes it, and nothing is called so; type it in UTF-8"
_ROOM = "; make room and try again"
_REMEDIES: Final = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EIO: "; check the disk and try again",
    errno.EROFS: "; mount the disk for writing and try again",
}
"""What helps where a disk refuses."""


def _print_version(wanted: bool) -> None:
    if wanted:
        from catchment import __version__

        render.say(f"catchment {__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; may stand anywhere.")] = False,
) -> None:
    del version, debug  # `main` has read them: they work before the command is known
    if context.invoked_subcommand is None:
        render.say(context.get_help())


def application(names: Iterable[str] = tuple(_COMMANDS)) -> typer.Typer:
    """The command line with the commands of these names."""
    app = typer.Typer(
        name="catchment",
        help=_HELP,
        invoke_without_command=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name in names:
        module, _, attribute = _COMMANDS[name].partition(":")
        command = getattr(import_module(f"console.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and say how it went: the exit code. Never raises."""
    _open_what_is_closed()
    if arguments is None:
        # Loading libraries makes many objects and no garbage: looking for it costs a fifth of a quick command.
        gc.set_threshold(50_000, *gc.get_threshold()[1:])
        atexit.register(gc.freeze)
    given = list(sys.argv[1:] if arguments is None else arguments)
    given, debug = _take_debug(given)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(given)
        sys.stdout.flush()
        return code
    except (render.OutputClosedError, BrokenPipeError):
        render.discard(sys.stdout)
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - the last boundary: every error becomes one line and a code
        return _report(error, debug)


def _run(arguments: list[str]) -> int:
    first = next((argument for argument in arguments if not argument.startswith("-")), None)
    command = typer.main.get_command(application([first] if first in _COMMANDS else _COMMANDS))
    if "_CATCHMENT_COMPLETE" in os.environ:
        command.main(arguments, prog_name="catchment")
    try:
        with command.make_context("catchment", arguments) as context:
            code = command.invoke(context)
    except typer.Exit as leaving:
        return leaving.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    return code if isinstance(code, int) else 0


def _report(error: Exception, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, UnicodeEncodeError) and error.reason.startswith("surrogates"):
        error = BadInput(_NO_TEXT)
    if isinstance(error, TryAgain | LedgerUnavailable) and session.disk_is_full():
        # What is down, or cannot be written, is so because of it, and to try again does not help before there is room.
        render.note(f"catchment: {session.DISK_IS_FULL}")
        return error.exit_code
    if type(error) is LedgerError and session.ledger_is_damaged():
        # What SQLite says of tables that are not as they were made is no more than an error.
        return _report_damage()
    if isinstance(error, CatchmentError):
        render.note(f"catchment: {render.clean(error).removeprefix('catchment: ')}")
        return error.exit_code
    if isinstance(error, typer.TyperException):
        path = getattr(getattr(error, "ctx", None), "command_path", "catchment")
        render.note(f"catchment: {render.clean(error.format_message()).rstrip('.')}; see `{path} --help`")
        return error.exit_code
    if isinstance(error, OSError) and error.strerror:
        return _report_system(error)
    if session.ledger_is_damaged():
        return _report_damage()
    more = "" if debug else "; run the same with --debug to see where"
    render.note(f"catchment: unexpected {type(error).__name__}: {render.clean(error)[:200]}{more}")
    return 1


def _report_damage() -> int:
    from catchment.ledger.db.database import DAMAGED

    render.note(f"catchment: {DAMAGED}")
    return 1


def _report_system(error: OSError) -> int:
    """What the operating system refused: a disk can be mended and tried again, a right that is missing is exit code 3."""
    remedy = _REMEDIES.get(error.errno or 0, "")
    if remedy:
        # It may be the disk behind the output itself.
        render.discard(sys.stdout)
    where = f": {render.clean(error.filename)}" if error.filename else ""
    render.note(f"catchment: {error.strerror}{where}{remedy}")
    return TryAgain.exit_code if remedy else LoginFailed.exit_code if isinstance(error, PermissionError) else 1


def _take_debug(arguments: list[str]) -> tuple[list[str], bool]:
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options, words = arguments[:end], arguments[end:]
    return [argument for argument in options if argument != "--debug"] + words, "--debug" in options


def _open_what_is_closed() -> None:
    """Who called may have closed an input or an output (`>&-`): then there is nothing to read, or nobody to read it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # In the place of the closed one, which no file that is opened later may take.
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - it stays open
