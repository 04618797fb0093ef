"""Output of the command line: tables, fields, JSON, times and counts.

All text passes through `clean`: titles, names and snippets are from untrusted files and could contain terminal control
sequences. No heavy module is imported, because the quickest commands need these functions.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO, TypeVar

from catchment.model import AwayHost, in_words, local_time
from catchment.model import ago as ago  # noqa: PLC0414 - commands use it as `render.ago`
from catchment.model import count as count  # noqa: PLC0414
from catchment.model import size as size  # noqa: PLC0414
from catchment.runtime import heartbeat
from catchment.runtime.reports.record_json import to_json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_HARMFUL: Final = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]"  # control sequences (CSI)
    "|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?"  # operating system commands: title, link, clipboard
    "|[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"  # control characters and bidirectional overrides
)
_UNESCAPED: Final = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
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
    "throttled": "yellow",
    "retrying": "yellow",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
    "met": "green",
    "burning": "red",
}
_STATES: Final = frozenset({"STATE", "OUTCOME", "CONSENT", "VERDICT"})
"""Columns of states: each cell has the colour of its state."""
_CHANGED: Final = re.compile("\ue000([^\ue001]*)\ue001")
_REWRITE_SECONDS: Final = 0.2
_LINE_SECONDS: Final = 10.0
_MINIMUM_WIDTH: Final = 16
_TEXT_WIDTH: Final = 20
"""Before texts are shortened further, columns are left out."""
_SHORTEST: Final = 12
_MINOR: Final = (
    *("WATCHED", "KIND", "PRIORITY", "ATTEMPTS", "GIVEN", "BY", "TOKENS", "FACTOR", "SCOPE", "ERROR", "UNTIL"),
    *("MODIFIED", "TOOK", "NEXT RUN", "ENQUEUED", "LAST", "SINCE", "STARTED", "WAITING", "ABOUT", "LINE", "HASH"),
)
"""Columns that a narrow terminal can do without, the least important first."""
_Column = tuple[str, ...]
"""The header of a column, and its cells."""


R = TypeVar("R", bound="DataclassInstance")

_has_lines = False


class OutputClosedError(Exception):
    """The reader of our output closed the pipe (`| head`)."""


def say(line: str = "") -> None:
    """Write one line to standard output."""
    try:
        sys.stdout.write(line + "\n")
    except BrokenPipeError as error:
        raise OutputClosedError from error


def note(line: str) -> None:
    """Write one line to standard error: progress, warnings, errors. A write error is ignored."""
    _write_error(line + "\n")


def can_rewrite() -> bool:
    """Return whether standard error is a terminal on which a line can be overwritten."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def rewrite(line: str) -> None:
    """Overwrite the progress line on standard error, if it is a terminal. An empty line clears it.

    The line is cut to the width of the terminal, because a wrapped line cannot be overwritten.
    """
    if can_rewrite():
        _write_error(f"\r\x1b[K{line[: _columns_of(sys.stderr) - 1]}")


@contextmanager
def ticking(line: Callable[[], str]) -> Iterator[None]:
    """Show on a terminal, until the end of the block, a line with the seconds that have passed."""
    if not can_rewrite():
        yield
        return
    began, stopped = time.monotonic(), threading.Event()

    def tick() -> None:
        while not stopped.wait(0.5):
            rewrite(f"{line()} … {time.monotonic() - began:.0f} s")

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield
    finally:
        stopped.set()
        ticker.join()
        rewrite("")


@contextmanager
def showing_progress() -> Iterator[None]:
    """Show the progress that is reported during the block: in one line on a terminal, elsewhere a line each 10 s."""
    shown = _Progress()
    with heartbeat.heard_by(shown.show):
        try:
            yield
        finally:
            shown.clear()


class _Progress:
    """The step that is shown, since when, and when it was last written."""

    def __init__(self) -> None:
        self._step, self._since, self._written = "", 0.0, 0.0
        self._is_on_screen = False

    def show(self, step: str, position: int, total: int) -> None:
        """Show how far a step is, with the time that is left at the speed so far."""
        if position >= total:
            self.clear()
            return
        now, interval = time.monotonic(), _REWRITE_SECONDS if can_rewrite() else _LINE_SECONDS
        if step != self._step:
            self._step, self._since, self._written = step, now, 0.0 if can_rewrite() else now
        if now - self._written < interval:
            return
        self._written = now
        seconds = (now - self._since) * (total - position) / max(1, position)
        text = f"{position / total:.0%}, {in_words(seconds)} left" if position else "…"
        if can_rewrite():
            self._is_on_screen = True
            rewrite(f"{step} {bar(position / total)} {text}")
        else:
            note(f"{step}: {text}")

    def clear(self) -> None:
        """Remove the line from the terminal."""
        if self._is_on_screen:
            rewrite("")
        self._step, self._is_on_screen = "", False


def clear_screen() -> None:
    """Clear the terminal; write an empty line if standard output is not one."""
    sys.stdout.write("\x1b[H\x1b[2J" if sys.stdout.isatty() and os.environ.get("TERM") != "dumb" else "\n")


def discard(stream: TextIO) -> None:
    """Redirect a stream to the null device, together with the data still in its buffer."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def clean(text: object) -> str:
    """Return the text on one line, without terminal control sequences."""
    return " ".join(_HARMFUL.sub(" ", str(text)).split())


def clean_block(text: str) -> str:
    """Return the text of a document or a traceback without terminal control sequences, keeping its lines."""
    return "\n".join(_HARMFUL.sub(" ", line.expandtabs(4)) for line in text.splitlines())


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """Return the text in a colour if the stream, by default standard output, is a terminal that shows colours."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if _has_colours(stream or sys.stdout) else text


def paint_state(state: str) -> str:
    """Return the name of a state in its colour."""
    colour = _STATE_COLOURS.get(state)
    return paint(state, colour) if colour else state


def print_lines(on: bool) -> None:
    """Let `show_json` write one line per element of a list."""
    global _has_lines  # noqa: PLW0603 - an option of the whole command
    _has_lines = on


def show_json(view: DataclassInstance | Sequence[DataclassInstance] | None) -> None:
    """Write a view as JSON, indented; after `print_lines`, each element of a list, or the view, in one line."""
    rows, indent = (view if isinstance(view, Sequence) else [view], None) if _has_lines else ([view], 2)
    for row in rows:
        text = to_json(row, indent=indent, only_ascii=not _is_utf8())
        say(_UNESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def facts(record: object, *names: str) -> dict[str, object]:
    """Return attributes of a record for `show_fields`, by their names in words."""
    return {name.replace("_", " "): getattr(record, name) for name in names}


def show_fields(fields: Mapping[str, object]) -> None:
    """Write one line per name and value. Empty values are left out; times are shown in full."""
    present = {name: text for name, value in fields.items() if (text := _in_full(value))}
    if not present:
        return
    indent = max(map(len, present)) + 2
    for name, text in present.items():
        lines = _wrap(text, max(_MINIMUM_WIDTH, _line_width() - indent))
        say(paint(name.ljust(indent), "dim") + lines[0])
        for line in lines[1:]:
            say(" " * indent + line)


def show_paragraph(parts: Iterable[tuple[str, bool]], indent: int) -> None:
    """Write a paragraph, wrapped to the terminal. The parts with True have a colour, or else brackets."""
    marks = ("\ue000", "\ue001") if _has_colours(sys.stdout) else ("[", "]")
    text = clean("".join(f"{marks[0]}{part}{marks[1]}" if is_marked else part for part, is_marked in parts))
    lines = _wrap(text, max(_MINIMUM_WIDTH, _line_width() - indent))
    shown = "\n".join(" " * indent + line for line in lines)
    say(_CHANGED.sub(lambda part: paint(part[1], "yellow"), shown))


def show_change(sign: str, parts: Iterable[tuple[str, bool]], colour: str) -> None:
    """Write a line of a diff behind its sign, wrapped to the terminal. The parts with True have the colour."""
    marks = ("\ue000", "\ue001") if _has_colours(sys.stdout) else ("", "")
    text = "".join(part.join(marks) if is_marked else part for part, is_marked in parts).expandtabs(4)
    text = sign.join(marks) + _HARMFUL.sub(" ", text)
    say(
        _CHANGED.sub(
            lambda part: paint(part[1], colour), "\n  ".join(_wrap(text, max(_MINIMUM_WIDTH, _line_width() - 2)))
        )
    )


def show_rows(
    records: Sequence[R], as_json: bool, headers: Sequence[str], cells: Callable[[R], Sequence[object]], empty: str
) -> bool:
    """Write records as JSON or as a table with the cells of each, or note that there are none. Return whether as a table."""
    if as_json:
        show_json(records)
    elif records:
        show_table(headers, map(cells, records))
    else:
        note(empty)
    return bool(records) and not as_json


def show_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write an aligned table. On a terminal it fits the width: the last column wraps, then others are left out or shortened."""
    limit = _line_width()
    columns = _fitted([(header, *map(_cell, cells)) for header, *cells in zip(headers, *rows, strict=True)], limit)
    right = frozenset(index for index, column in enumerate(columns) if _is_numeric(column))
    coloured = frozenset(index for index, column in enumerate(columns) if column[0] in _STATES)
    widths = list(map(_width, columns))
    widths[-1] = min(widths[-1], max(_MINIMUM_WIDTH, limit - sum(widths[:-1]) - 2 * (len(widths) - 1)))
    headers, *table = zip(*columns, strict=True)
    say(paint(_row(headers, widths, right), "dim"))
    for *fixed, last in table:
        for number, line in enumerate(_wrap(last, widths[-1])):
            say(_row([*(fixed if not number else [""] * len(fixed)), line], widths, right, coloured))


def place(path: Path) -> str:
    """Return a path, with `~` for the home folder of the user."""
    return clean(f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else path)


def local(moment: datetime) -> str:
    """Return the date and time in this machine's time zone."""
    return f"{local_time(moment):%Y-%m-%d %H:%M:%S}"


def away(host: AwayHost) -> str:
    """Return a host that does not answer, with the reason and the next attempt."""
    again = f"asked again at {clock(host.until)}" if host.until else "asked again by the next sync"
    return f"{host.host} since {clock(host.since)} ({host.problem}); {again}"


def clock(moment: datetime, now: datetime | None = None) -> str:
    """Return the local time of day, "14:20", with the date unless it is today."""
    shown, today = local_time(moment), local_time(now or datetime.now(UTC)).date()
    return f"{shown:%H:%M}" if shown.date() == today else f"{shown:%Y-%m-%d %H:%M}"


def bar(share: float, width: int = 20) -> str:
    """Return a progress bar for a share from 0 to 1."""
    full = round(min(1.0, max(0.0, share)) * width)
    return f"[{'#' * full}{'-' * (width - full)}]"


def spark(values: Sequence[float | None]) -> str:
    """Return a line of blocks. Their heights show the values, from 0 to the largest. A missing value is a space."""
    blocks = "▁▂▃▄▅▆▇█" if _is_utf8() else "_.-:=+*#"
    most = max((value for value in values if value is not None), default=0.0) or 1.0
    return "".join(" " if value is None else blocks[min(7, int(8 * max(value, 0.0) / most))] for value in values)


def interactive() -> bool:
    """Return whether a question is possible: standard input and standard error are terminals."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _write_error(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def _has_colours(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty() or bool(os.environ.get("FORCE_COLOR"))


def _is_utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def _in_full(value: object) -> str:
    return f"{local(value)}, {ago(value)}" if isinstance(value, datetime) else _cell(value)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return ago(value)
    return clean(value)


def _fitted(columns: Sequence[_Column], limit: int) -> list[_Column]:
    """Return the columns that fit a width: blank and less important ones are left out, then long texts are shortened."""
    last = len(columns) - 1
    widths = list(map(_width, columns))
    texts = [index for index in range(last) if not _is_numeric(columns[index])]
    visible = list(range(len(columns)))

    def excess(text_width: int) -> int:
        shown = (min(widths[index], text_width) if index in texts else widths[index] for index in visible[:-1])
        return sum(shown) + 2 * len(visible) - 2 + min(widths[last], _TEXT_WIDTH) - limit

    blank = [index for index in visible[1:last] if not any(cell.strip("-0") for cell in columns[index][1:])]
    minor = [index for name in _MINOR for index in visible[1:last] if columns[index][0] == name]
    for index in dict.fromkeys((*blank, *minor)):
        if excess(_TEXT_WIDTH) > 0:
            visible.remove(index)
    text_width = max(map(widths.__getitem__, texts), default=0)
    while text_width > _SHORTEST and excess(text_width) > 0:
        text_width -= 1
    return [
        tuple(_shortened(cell, text_width) for cell in columns[index]) if index in texts else columns[index]
        for index in visible
    ]


def _width(column: _Column) -> int:
    return max(map(_columns, column))


def _is_numeric(column: _Column) -> bool:
    return len(column) > 1 and all(cell.replace(" ", "").replace(".", "").isdecimal() for cell in column[1:] if cell)


def _shortened(text: str, width: int) -> str:
    """Return a text that is too wide without its middle."""
    left, right = text[: len(text) // 2], text[len(text) // 2 :]
    if _columns(text) <= width:
        return text
    while _columns(left) + _columns(right) >= width:
        left, right = (left[:-1], right) if len(left) > len(right) else (left, right[1:])
    return f"{left}…{right}"


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
    # Wide characters take two columns each.
    share = len(text) / _columns(text)
    # A URL that is longer than the line stays whole, so that it can be clicked or copied.
    return textwrap.wrap(text, max(8, int(width * share)), break_on_hyphens=False, break_long_words=False) or [""]


def _columns(text: str) -> int:
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def _columns_of(terminal: TextIO) -> int:
    """Return the number of columns of a terminal, 80 if unknown."""
    try:
        return os.get_terminal_size(terminal.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _line_width() -> int:
    """Return the columns of the terminal; unbounded for a file or a pipe, so that `grep` sees whole lines."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return shutil.get_terminal_size().columns
    return 1_000_000
