"""What a person and a script see: tables, fields, JSON, and plain words for times and counts.

Every text passes through `clean` on its way out, because titles, names and snippets come from files that somebody else
wrote, and a terminal obeys what it is sent. Nothing heavy is imported: the quickest commands need these functions.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, TextIO

_HARMFUL: Final = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]"  # a terminal's control sequence, whole
    "|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?"  # a command to the terminal (title, link, clipboard), whole
    "|[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"  # control characters, and marks that reorder what is read
)
_UNESCAPED: Final = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_COLOURS: Final = {"red": "31", "green": "32", "yellow": "33", "bold": "1", "dim": "2"}
_STATE_COLOURS: Final = {
    "completed": "green",
    "succeeded": "green",
    "active": "green",
    "failed": "red",
    "crashed": "red",
    "quarantined": "red",
    "held": "yellow",
    "paused": "yellow",
    "no consent": "yellow",
    "given": "green",
    "asked": "yellow",
    "expired": "yellow",
    "purging": "red",
    "rests": "yellow",
    "retrying": "yellow",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
}
_MINIMUM_WIDTH: Final = 16


class OutputClosedError(Exception):
    """Whoever read our output has gone (`| head`); there is nobody left to tell."""


def say(line: str = "") -> None:
    """Write one line for the reader of standard output."""
    try:
        sys.stdout.write(line + "\n")
    except BrokenPipeError as error:
        raise OutputClosedError from error


def note(line: str) -> None:
    """Write one line to standard error: progress, warnings, errors. That nobody takes it changes nothing else."""
    _tell(line + "\n")


def can_rewrite() -> bool:
    """Whether standard error is a terminal on which a line can be written anew."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def rewrite(line: str) -> None:
    """Write a line of progress in the place of the one before, on a terminal that lets it be; an empty one takes it away.

    What does not fit is left out: of a line that wraps, only the last part could be written anew.
    """
    if can_rewrite():
        _tell(f"\r\x1b[K{line[: _columns_of(sys.stderr) - 1]}")


def discard(stream: TextIO) -> None:
    """Let what a stream still holds, and whatever is written to it yet, go nowhere: nobody takes it."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def clean(text: object) -> str:
    """The text on one line, with nothing in it that a terminal would obey."""
    return " ".join(_HARMFUL.sub(" ", str(text)).split())


def clean_block(text: str) -> str:
    """As `clean`, but line by line: for the text of a document or a traceback."""
    return "\n".join(_HARMFUL.sub(" ", line.expandtabs(4)) for line in text.splitlines())


def paint(text: str, colour: str) -> str:
    """The text in a colour, on a terminal that wants colours; else unchanged."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if _coloured() else text


def paint_state(state: str) -> str:
    """The name of a state in the colour that it has everywhere."""
    colour = _STATE_COLOURS.get(state)
    return paint(state, colour) if colour else state


def show_json(value: object) -> None:
    """Write one JSON value, indented."""
    say(_json(value, indent=2))


def show_ndjson(values: Iterable[object]) -> None:
    """Write one JSON value per line."""
    for value in values:
        say(_json(value))


def show_fields(fields: Mapping[str, object]) -> None:
    """Write names and values one below the other; those that are None or empty are left out, moments are told in full."""
    present = {name: text for name, value in fields.items() if (text := _in_full(value))}
    if not present:
        return
    indent = max(map(len, present)) + 2
    for name, text in present.items():
        lines = _wrap(text, max(_MINIMUM_WIDTH, _line_width() - indent))
        say(paint(name.ljust(indent), "dim") + lines[0])
        for line in lines[1:]:
            say(" " * indent + line)


def show_paragraph(text: str, indent: int = 0) -> None:
    """Write running text, wrapped to the terminal."""
    for line in _wrap(clean(text), max(_MINIMUM_WIDTH, _line_width() - indent)):
        say(" " * indent + line)


def show_table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, states: Collection[str] = ()) -> None:
    """Write an aligned table; on a terminal the last column wraps to what is left of the line.

    Numbers stand to the right. `states` names the columns whose cells are states and take their colour.
    """
    table = [tuple(_cell(value) for value in row) for row in rows]
    right = _numeric(table, len(headers))
    widths = [max(map(_columns, column)) for column in zip(headers, *table, strict=True)]
    widths[-1] = min(widths[-1], max(_MINIMUM_WIDTH, _line_width() - sum(widths[:-1]) - 2 * (len(widths) - 1)))
    say(paint(_row(headers, widths, right), "dim"))
    coloured = frozenset(index for index, header in enumerate(headers) if header in states)
    for cells in table:
        *fixed, last = cells
        for number, line in enumerate(_wrap(last, widths[-1])):
            say(_row([*(fixed if not number else [""] * len(fixed)), line], widths, right, coloured))


def iso(moment: datetime | None) -> str | None:
    """The moment as scripts read it, in UTC."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z") if moment else None


def when(moment: datetime | None, now: datetime | None = None) -> str:
    """The moment as a person says it: "3 min ago", "in 2 h", "never"."""
    if moment is None:
        return "never"
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"


def local(moment: datetime) -> str:
    """The moment by this machine's clock and time zone."""
    return f"{_here(moment):%Y-%m-%d %H:%M:%S}"


def clock(moment: datetime, now: datetime | None = None) -> str:
    """The moment as one says when something will be done: "14:20", with its day where that is not today."""
    there, here = _here(moment), _here(now or datetime.now(UTC))
    return f"{there:%H:%M}" if there.date() == here.date() else f"{there:%Y-%m-%d %H:%M}"


def span(seconds: float) -> str:
    """A length of time in its largest unit, rounded down."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} s"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: "1 document", "1 204 documents"."""
    return f"{number:,}".replace(",", " ") + " " + (noun if number == 1 else plural or noun + "s")


def size(number: int) -> str:
    """A number of bytes as a person says it: "340 B", "1.2 MB"."""
    told, unit = float(number), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if told < 1_000 or unit == "TB":
            break
        told /= 1_000
    return f"{told:.0f} {unit}" if unit == "B" or told >= 100 else f"{told:.1f} {unit}"


def bar(share: float, width: int = 20) -> str:
    """How much of something is done, from 0 to 1, as a bar."""
    full = round(min(1.0, max(0.0, share)) * width)
    return f"[{'#' * full}{'-' * (width - full)}]"


def interactive() -> bool:
    """Whether a person is at the other end of both the question and the answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _tell(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def _here(moment: datetime) -> datetime:
    """The moment in this machine's time zone; as it is where that would be before the year 1 or after 9999."""
    try:
        return moment.astimezone()
    except (OverflowError, ValueError, OSError):
        return moment


def _coloured() -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))


def _json(value: object, indent: int | None = None) -> str:
    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only, default=_plain)
    return _UNESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _plain(value: object) -> Any:
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (tuple, set, frozenset)):
        return sorted(value) if isinstance(value, (set, frozenset)) else list(value)
    raise TypeError(type(value).__name__)


def _in_full(value: object) -> str:
    return f"{local(value)}, {when(value)}" if isinstance(value, datetime) else _cell(value)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return when(value)
    return clean(value)


def _numeric(table: Sequence[Sequence[str]], columns: int) -> frozenset[int]:
    def number(text: str) -> bool:
        return text.replace(" ", "").replace(".", "").isdecimal()

    return frozenset(i for i in range(columns) if table and all(number(row[i]) or not row[i] for row in table))


def _row(
    cells: Sequence[str], widths: Sequence[int], right: frozenset[int], coloured: frozenset[int] = frozenset()
) -> str:
    parts = []
    for index, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        blank = " " * (width - _columns(cell))
        shown = paint_state(cell) if index in coloured else cell
        parts.append(blank + shown if index in right else shown + blank)
    return "  ".join(parts).rstrip()


def _wrap(text: str, width: int) -> list[str]:
    if _columns(text) <= width:
        return [text]
    # Wide characters take two columns each, so a text full of them is wrapped at half as many.
    share = len(text) / _columns(text)
    # An address that is too long for the line stays in one piece, so that it can be clicked or copied.
    return textwrap.wrap(text, max(8, int(width * share)), break_on_hyphens=False, break_long_words=False) or [""]


def _columns(text: str) -> int:
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def _columns_of(terminal: TextIO) -> int:
    """How many columns a terminal has; 80 where it does not say."""
    try:
        return os.get_terminal_size(terminal.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _line_width() -> int:
    """Columns of the terminal; unbounded where the output is a file or a pipe, so that `grep` sees whole lines."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return shutil.get_terminal_size().columns
    return 1_000_000
