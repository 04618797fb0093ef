"""The command `catchment`: the table of commands, and the boundary where every error becomes one line and an exit code.

Exit codes: 0 done, 1 error, 2 bad input, 3 login or permission, 4 not found, 5 refused by a rule, 10 try again,
130 interrupted. Only the module of the requested command is imported.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import re
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from catchment.errors import BadInput, CatchmentError, LedgerError, LedgerUnavailable, LoginFailed, TryAgain
from console import help_pages, render, session

_HELP = """Keep files, notes, mail, GitHub and web pages in one library on this machine.

All commands: catchment help --all

Errors are one line with the remedy. Exit codes: 0 done, 1 error, 2 bad input, 3 login or permission, 4 not found,
5 refused by a rule, 10 try again.

Example: catchment add obsidian ~/Vault --name notes --watch
"""

_EVERYDAY: Final = "Everyday"
_SECTIONS: Final = {
    _EVERYDAY: {
        "init": "start_stop.init:init",
        "up": "start_stop.up_down:up",
        "down": "start_stop.up_down:down",
        "status": "start_stop.status:status",
        "web": "start_stop.web_page:web",
        "add": "sources.sources:add",
        "sync": "sources.syncs:sync",
        "search": "library.search:search",
        "show": "library.documents:show",
        "why": "library.why:why",
        "undo": "trouble.undo:undo",
        "help": "help_pages:help_page",
    },
    "Start and stop": {
        "logs": "start_stop.logs:logs",
        "service": "start_stop.service:app",
        "join": "start_stop.hosts:join",
        "leave": "start_stop.hosts:leave",
        "hosts": "start_stop.hosts:hosts",
        "demo": "start_stop.demo:demo",
    },
    "Sources": {
        "sources": "sources.sources:app",
        "syncs": "sources.past_syncs:app",
        "plan": "sources.plan:plan",
        "backfill": "sources.backfills:app",
        "consent": "sources.consent:app",
        "login": "sources.login:app",
        "webhook": "sources.webhook:app",
        "tokens": "sources.tokens:app",
        "connector": "sources.new_connector:app",
    },
    "Library": {
        "open": "library.open_document:open_document",
        "history": "library.versions:history",
        "diff": "library.versions:diff",
        "related": "library.documents:related",
        "vault": "library.vault:app",
        "replay": "sources.backfills:replay",
        "mcp": "library.assistant:app",
    },
    "Trouble": {
        "check": "trouble.check:check",
        "health": "trouble.check:check",
        "doctor": "trouble.check:check",
        "incidents": "trouble.incidents:app",
        "quarantine": "trouble.quarantine:app",
        "jobs": "trouble.jobs:app",
        "deletions": "trouble.deletions:app",
        "prove": "trouble.prove:prove",
        "audit": "trouble.audit:app",
    },
    "Operate": {
        "queue": "operate.queue:app",
        "throttle": "operate.throttle:app",
        "model": "operate.model:model",
        "recognition": "operate.model:recognition",
        "telemetry": "operate.telemetry:app",
        "slo": "operate.trends:slo",
        "config": "data.upkeep:config_app",
    },
    "Data": {
        "backup": "data.backup:backup",
        "restore": "data.backup:restore",
        "export": "data.sinks:export",
        "sinks": "data.sinks:app",
        "ledger": "data.upkeep:ledger_app",
    },
}
"""The commands by section of the help page, each as `module:attribute`."""
_COMMANDS: Final = {
    name: (section, target) for section, commands in _SECTIONS.items() for name, target in commands.items()
}
_NEW_WORDS: Final = {"health": "check", "doctor": "check", "slo": "check --objectives"}
"""The commands that are not listed, with the words that replaced them."""

_BAD_ENCODING = "arguments: not valid text in this terminal's encoding; type them in UTF-8"
_ROOM = "; make room and try again"
_REMEDIES: Final = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EIO: "; check the disk and try again",
    errno.EROFS: "; mount the disk for writing and try again",
}
"""Remedies for errors of a disk."""


def _print_version(requested: bool) -> None:
    if requested:
        from catchment.runtime import installation

        render.say(f"catchment {installation.version()}")
        raise typer.Exit


def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks. Accepted anywhere.")] = False,
) -> None:
    del version, debug  # handled in `main`, before the command is known
    if context.invoked_subcommand is None:
        from console.start_stop.init import show_overview

        show_overview()


class _Root(help_pages.Group):
    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return [name for name in _COMMANDS if name in self.commands]

    def listed(self, ctx: Any) -> list[str]:
        """Return the commands for every day, or all with `catchment help --all`."""
        return [name for name in super().listed(ctx) if ctx.obj or name in _SECTIONS[_EVERYDAY]]


def application(names: Iterable[str] = tuple(_COMMANDS)) -> typer.Typer:
    """Build the command line with the named commands."""
    app = help_pages.CommandGroup(
        name="catchment",
        help=_HELP,
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(cls=_Root)(_root)
    for name in names:
        section, target = _COMMANDS[name]
        module, _, attribute = target.partition(":")
        command = getattr(import_module(f"console.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=section)
        else:
            app.command(name, now=_NEW_WORDS.get(name, ""), rich_help_panel=section)(command)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. Never raises."""
    _reopen_closed_streams()
    if arguments is None:
        # Imports create many objects and no garbage; collecting costs a fifth of a quick command.
        gc.set_threshold(50_000, *gc.get_threshold()[1:])
        atexit.register(gc.freeze)
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    tokens, debug = _take_debug(tokens)
    render.print_lines("--ndjson" in tokens)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        with render.showing_progress():
            code = _run(tokens)
        sys.stdout.flush()
        return code
    except (render.OutputClosedError, BrokenPipeError):
        render.discard(sys.stdout)
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - the outermost boundary: every error becomes one line and a code
        return _report(error, debug)


def _run(arguments: list[str]) -> int:
    typed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    is_completion = "_CATCHMENT_COMPLETE" in os.environ
    # Without the last word, which is being completed.
    words = re.split(r"\s", typed)[1:-1] if is_completion else arguments
    first = next((word for word in words if not word.startswith("-")), None)
    if first == "search":
        # An excluded word is no option: with a space before it, it is an argument. The only short option is -h.
        arguments = [f" {token}" if len(token) > 2 and token[0] == "-" != token[1] else token for token in arguments]
    chosen = [first] if first in _COMMANDS and first != "help" else _COMMANDS if arguments or is_completion else ()
    command = typer.main.get_command(application(chosen))
    if is_completion:
        command.main(arguments, prog_name="catchment")
    try:
        with command.make_context("catchment", arguments) as context:
            code = command.invoke(context)
    except typer.Exit as request:
        return request.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    return code if isinstance(code, int) else 0


def _report(error: Exception, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, UnicodeEncodeError) and error.reason.startswith("surrogates"):
        error = BadInput(_BAD_ENCODING)
    if isinstance(error, TryAgain | LedgerUnavailable) and session.disk_is_full():
        # The full disk is the cause; trying again does not help before there is room.
        _note_error(session.DISK_IS_FULL)
        return error.exit_code
    if type(error) is LedgerError and session.ledger_is_damaged():
        # SQLite reports damaged tables as a plain error.
        return _report_damage()
    if isinstance(error, CatchmentError):
        _note_error(render.clean(error).removeprefix("catchment: "))
        for choice in getattr(error, "choices", ()):
            render.note(f"  {render.clean(choice)}")
        return error.exit_code
    if isinstance(error, typer.TyperException):
        path = getattr(getattr(error, "ctx", None), "command_path", "catchment")
        _note_error(f"{render.clean(help_pages.usage_error(error))}; see `{path} --help`")
        return error.exit_code
    if isinstance(error, OSError) and error.strerror:
        return _report_system(error)
    if session.ledger_is_damaged():
        return _report_damage()
    more = "" if debug else "; run again with --debug for the traceback"
    _note_error(f"unexpected {type(error).__name__}: {render.clean(error)[:200]}{more}")
    return 1


def _note_error(message: str) -> None:
    render.note(f"{render.paint('catchment:', 'red', sys.stderr)} {message}")


def _report_damage() -> int:
    from catchment.ledger import DAMAGED

    _note_error(DAMAGED)
    return 1


def _report_system(error: OSError) -> int:
    """Report an error of the operating system: disk errors exit with 10, missing permissions with 3."""
    remedy = _REMEDIES.get(error.errno or 0, "")
    if remedy:
        # Standard output may be on the same disk.
        render.discard(sys.stdout)
    subject = f"{render.clean(error.filename)}: " if error.filename else ""
    _note_error(f"{subject}{error.strerror}{remedy}")
    return TryAgain.exit_code if remedy else LoginFailed.exit_code if isinstance(error, PermissionError) else 1


def _take_debug(arguments: list[str]) -> tuple[list[str], bool]:
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options, words = arguments[:end], arguments[end:]
    return [argument for argument in options if argument != "--debug"] + words, "--debug" in options


def _reopen_closed_streams() -> None:
    """Connect standard streams that the caller closed (`>&-`) to the null device."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Takes the closed descriptor, so that no file opened later gets it.
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - stays open
