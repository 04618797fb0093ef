"""Help pages and usage errors in our own words: commands in sections, plain metavars, no names of Python types."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from console import render

_INTEGER: Final = 2**63 - 1
_RANGE: Final = re.compile(r"(-?\d+)?(?:<=)?x(?:<=(\d+))?(?:>=(-?\d+))?")
_SHORTEST_LINE: Final = 20
_EXAMPLES: Final = re.compile(r"^(?=Examples?:)", re.MULTILINE)


class Command(TyperCommand):
    """A command with a help page in our format."""

    new_words = ""
    """What people type instead of this command, which works for scripts and is not listed."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, as typer does."""
        if self.new_words:
            render.note(f"{ctx.command_path} is now: catchment {self.new_words}")
        return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line, with `NAME` in place of typer's `{NAME}`."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        del ctx
        formatter.write_paragraph()
        with formatter.indentation():
            # The paragraph below a backspace keeps its lines.
            formatter.write_text(_EXAMPLES.sub("\b\n", inspect.cleandoc(self.help or "")))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, as typer does, and keep them for the help page."""
        ctx.meta["typed"] = list(args)
        return list(super().parse_args(ctx, args))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_parameters(self, ctx, formatter)
        if self.name == "add" and (rows := _settings(ctx.meta["typed"])):
            with formatter.section(render.paint("Settings (--set KEY=VALUE; references to secrets: --secret)", "bold")):
                formatter.write_dl(rows)


class Group(TyperGroup):
    """A group of commands, listed in the sections that `rich_help_panel` names."""

    default: str | None = None
    """The command that runs if the first argument names no command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name, as typer does."""
        if self.default is not None and args[0] not in self.commands:
            args = [self.default, *args]
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        _write_parameters(self, ctx, formatter)

    def listed(self, ctx: Any) -> list[str]:
        """Return the names of the commands on the help page."""
        return [name for name in self.list_commands(ctx) if not self.commands[name].hidden]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        names = self.listed(ctx)
        width = max(map(len, names))
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in names:
            command = self.commands[name]
            summary = command.get_short_help_str(max(_SHORTEST_LINE, formatter.width - 6 - width))
            section = getattr(command, "rich_help_panel", None)
            sections.setdefault(section or "Commands", []).append((name.ljust(width), summary))
        for title, rows in sections.items():
            with formatter.section(render.paint(title, "bold")):
                formatter.write_dl(rows)


class CommandGroup(typer.Typer):
    """A `typer.Typer` with commands and help pages in our format."""

    def __init__(self, help: str, *, default: str | None = None, **settings: Any) -> None:  # noqa: A002 - typer's name
        kind = type("GroupWithDefault", (Group,), {"default": default})
        super().__init__(cls=kind, help=help, rich_markup_mode=None, **settings)

    def command(self, name: str | None = None, *, now: str = "", **settings: Any) -> Callable[[Any], Any]:
        """Register a command, as `typer.Typer.command`. `now`: the words that replaced it; it is hidden."""
        kind = type("ReplacedCommand", (Command,), {"new_words": now}) if now else Command
        return super().command(name, cls=kind, hidden=bool(now), **settings)


def help_page(
    context: typer.Context,
    command: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="The command to explain.")] = None,
    every_command: Annotated[bool, typer.Option("--all", help="List all commands, by subject.")] = False,
) -> None:
    """Show these commands, all commands (--all), or one.

    Examples: catchment help --all
              catchment help search
    """
    page: Any = context.parent
    page.obj = every_command
    for word in command or ():
        _, inner, _ = page.command.resolve_command(page, [word])
        page = inner.make_context(word, [], parent=page, resilient_parsing=True)
    render.say(page.get_help())


def usage_error(error: typer.TyperException) -> str:
    """Return `subject: problem` for a command line that does not parse."""
    message = error.format_message().rstrip(".")
    if (parameter := getattr(error, "param", None)) is not None:
        problem = str(getattr(error, "message", ""))
        return f"{_label(parameter)}: {_problem(parameter.type, problem) if problem else _missing(parameter)}"
    if match := re.fullmatch(r"No such command '(.*?)'(?:\. Did you mean (.*)\?)?", message, re.DOTALL):
        return f"{match[1]}: no such command" + (f" (did you mean {_listed(match[2])}?)" if match[2] else "")
    if match := re.fullmatch(r"No such option: (\S+)(?: \(Possible options?: (.*)\))?", message, re.DOTALL):
        return f"{match[1]}: no such option" + (f" (did you mean {_listed(match[2])}?)" if match[2] else "")
    if match := re.fullmatch(r"Option '(\S+)' requires (?:an argument|\d+ arguments)", message):
        return f"{match[1]}: value missing"
    if match := re.fullmatch(r"Got unexpected extra argument\S* \((.*)\)", message, re.DOTALL):
        return f"{match[1]}: unexpected argument"
    return message


def _label(parameter: Any) -> str:
    """Return the name of a parameter as it stands in the usage line: `--limit` or `JOB`."""
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.human_readable_name).strip("[].").upper()


def _missing(parameter: Any) -> str:
    return "option missing" if parameter.param_type_name == "option" else "argument missing"


def _problem(kind: Any, message: str) -> str:
    message = message.rstrip(".")
    value = message.partition(" is not ")[0]
    if "is not a valid" in message and "float" in kind.name:
        return f"{value} is not a number"
    if "is not a valid" in message and "int" in kind.name:
        return f"{value} is not a whole number"
    if "is not in the range" in message:
        return f"{value} is out of range ({_in_words(message.rpartition(' ')[2])})"
    if choices := getattr(kind, "choices", None):
        return (
            f"{value} is unknown; choose from {', '.join(str(getattr(choice, 'value', choice)) for choice in choices)}"
        )
    return message


def _listed(names: str) -> str:
    return " or ".join(name.strip("'") for name in names.split(", "))


def _in_words(interval: str) -> str:
    """Return click's notation of an interval in words: "1<=x<=100" is "1 to 100"."""
    match = _RANGE.fullmatch(interval)
    if match is None:
        return interval
    least = match[1] or match[3]
    if match[2] is None or int(match[2]) == _INTEGER:
        return f"at least {least}"
    return f"{least} to {match[2]}" if least else f"at most {match[2]}"


def _write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    rows: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
    for parameter in command.get_params(ctx):
        if record := parameter.get_help_record(ctx):
            rows[parameter.param_type_name].append(_record(*record))
    for title, kind in (("Arguments", "argument"), ("Options", "option")):
        if rows[kind]:
            with formatter.section(render.paint(title, "bold")):
                formatter.write_dl(rows[kind])


def _settings(typed: list[str]) -> list[tuple[str, str]]:
    """Return the settings of the kind of source that is typed, with their meaning; its own settings first."""
    if all(word.startswith("-") for word in typed):
        return []  # without the imports
    from connectors import connector_class, kinds

    kind = next((word for word in typed if word in kinds()), None)
    if kind is None:
        return []
    connector = connector_class(kind)
    settings, manifest = connector.settings, connector.manifest
    rows = [row for row in settings.model_construct().rows() if not row.is_fixed]
    rows.sort(key=lambda row: row.is_common)
    return [
        ("LOCATION", f"{manifest.place}. Example: {manifest.example}"),
        *(
            (row.key, row.meaning or "" if row.value in (None, ()) else f"{row.meaning}. Default: {row.value}")
            for row in rows
        ),
    ]


def _record(names: str, text: str) -> tuple[str, str]:
    """Return one row of the help page: no type names, and intervals of numbers in words."""
    option = names.split(" ", maxsplit=1)[0].split(",", maxsplit=1)[0].strip("-").upper()
    names = re.sub(r"<(?:str|path|int|float)(?: range)?>", option, names)
    names = re.sub(r"<([a-z0-9_|-]+)>", r"\1", names)
    text = re.sub(r"(?<=[\[ ])-?\d*(?:<=)?x[<>]=-?\d+(?=[\];])", lambda match: _in_words(match[0]), text)
    return names, text
