"""Patterns in the syntax of `.gitignore`, matched byte for byte as `git check-ignore` does.

All patterns of a list become two regular expressions: one for file names, one for paths. Every star of a segment and
every `**/` except the last is atomic: it keeps its first match. This does not change the result, because an early match
leaves the most room for the rest, and it keeps patterns with many stars from backtracking exponentially.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

EDITION = 2
"""Increment when results change: commits listed under another edition are then listed again."""

_CLASSES = {
    "alnum": r"0-9A-Za-z",
    "alpha": r"A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x01-\x1f\x7f",
    "digit": r"0-9",
    "graph": r"!-~",
    "lower": r"a-z",
    "print": r" -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t\n\r",
    "upper": r"A-Z",
    "xdigit": r"0-9A-Fa-f",
}
_FOLDER = r"\x00"
"""Marks the end of a folder's path: no wildcard matches it, and no name contains it."""
_ANY, _STAR, _REST = r"[^/\x00]", r"[^/\x00]*", r"[^\x00]*"
_UNITS = re.compile(r"\\(?P<escaped>.)|(?P<stars>\*+)|(?P<any>\?)|(?P<set>\[)|(?P<plain>[^\\])", re.DOTALL)
_WILD = re.compile(r"[*?\[\\]")


class _Line(NamedTuple):
    """One pattern: its sign, whether it contains a slash and so is matched against whole paths, and its expression."""

    ignores: bool
    whole_path: bool
    regex: str


class Patterns:
    """A list of patterns; the last match decides. Paths are relative to the folder of the list.

    Surrogate escapes represent bytes that are not UTF-8, as in `os.fsdecode`.
    """

    def __init__(self, lines: Sequence[_Line]) -> None:
        self._lines = lines

    def __bool__(self) -> bool:
        return bool(self._lines)

    def decides(self, path: str, *, folder: bool) -> bool | None:
        """Return whether the path is ignored; None if no pattern matches. The folders above it are not considered."""
        number = self._last(os.fsencode(path), folder=folder)
        return None if number < 0 else self._lines[number].ignores

    def ignores(self, file: str) -> bool:
        """Return whether `git check-ignore` would report a file: an ignored folder hides everything below it."""
        return any(number >= 0 and self._lines[number].ignores for number in self._down_to(file))

    def covers(self, file: str) -> bool:
        """Return whether the last pattern that matches a file, or a folder above it, is a positive one."""
        number = max(self._down_to(file))
        return number >= 0 and self._lines[number].ignores

    def _down_to(self, file: str) -> Iterator[int]:
        """Yield the last matching pattern of each folder above a file, from the top, and of the file itself."""
        path = os.fsencode(file)
        end = path.find(b"/")
        while end >= 0:
            yield self._last(path[:end], folder=True)
            end = path.find(b"/", end + 1)
        yield self._last(path, folder=False)

    def _last(self, path: bytes, *, folder: bool) -> int:
        """Return the index of the last matching pattern; -1 if there is none."""
        subject = path + b"\0" if folder else path
        last = -1
        texts = subject[path.rfind(b"/") + 1 :], subject
        for (regex, numbers), text in zip(self._of_names_and_paths, texts, strict=True):
            if numbers and (match := regex.fullmatch(text)) and match.lastindex:
                last = max(last, numbers[match.lastindex - 1])
        return last

    @cached_property
    def _of_names_and_paths(self) -> Sequence[tuple[re.Pattern[bytes], Sequence[int]]]:
        return self._joined(whole_path=False), self._joined(whole_path=True)

    def _joined(self, *, whole_path: bool) -> tuple[re.Pattern[bytes], Sequence[int]]:
        """Combine all patterns into one expression, the last first, each followed by an empty group.

        Also return their indexes.
        """
        numbers = [number for number, line in enumerate(self._lines) if line.whole_path == whole_path][::-1]
        joined = "|".join(f"{self._lines[number].regex}()" for number in numbers)
        return re.compile(joined.encode("latin-1"), re.DOTALL), numbers


def split_lines(text: str) -> list[str]:
    """Split a text into lines as git does: only at LF or CRLF.

    File names may contain the other line separators of Unicode.
    """
    return [line.removesuffix("\r") for line in text.split("\n")]


def parse_patterns(lines: Iterable[str]) -> Patterns:
    """Compile the patterns of the settings. Raises ValueError for a line that can never match."""
    return Patterns([pattern for line in lines if (pattern := _pattern(line))])


def parse_ignore_file(lines: Iterable[str]) -> Patterns:
    """Compile the patterns of an ignore file. Like git, skip lines that can never match, and cut lines at a NUL."""
    patterns = []
    for line in lines:
        try:
            pattern = _pattern(line.partition("\0")[0])
        except ValueError:
            continue
        patterns += [pattern] if pattern else []
    return Patterns(patterns)


def _pattern(line: str) -> _Line | None:
    """Compile one line; return None for a comment or an empty line. Raises ValueError if it can never match."""
    if "\0" in line:
        raise ValueError("NUL in a pattern")
    text = _trimmed(line)
    if not text or text.startswith("#"):
        return None
    glob = os.fsencode(text).decode("latin-1").removeprefix("!")
    only_folders = glob.endswith("/")
    glob = glob.removesuffix("/")
    if not glob:
        raise ValueError("empty pattern")
    whole_path = "/" in glob
    regex = _translated(glob.removeprefix("/"), whole_path=whole_path)
    return _Line(not text.startswith("!"), whole_path, f"{regex}{_FOLDER}" if only_folders else f"{regex}{_FOLDER}?")


def _trimmed(line: str) -> str:
    """Strip the trailing spaces of a line, except a space escaped by a backslash."""
    text = line.rstrip(" ")
    backslashes = len(text) - len(text.rstrip("\\"))
    return line[: len(text) + backslashes % 2]


def _translated(glob: str, *, whole_path: bool) -> str:
    """Return the regular expression for a pattern. Raises ValueError for unclosed brackets or a trailing backslash."""
    wild = _WILD.search(glob)
    first_wild = wild.start() if wild else len(glob)
    parts, segment = [""], _Segment()
    place = 0
    while place < len(glob):
        unit = _UNITS.match(glob, place)
        if unit is None:
            raise ValueError("trailing backslash")
        start, place = unit.span()
        if unit["set"]:
            regex, place = _set(glob, place)
            segment.add(regex)
        elif unit["stars"]:
            # `**` means any number of folders only after a slash, at the start, or after a prefix without wildcards.
            deep = whole_path and len(unit["stars"]) > 1 and (start == first_wild or glob[start - 1] == "/")
            if deep and place == len(glob):
                segment.add(_REST)
            elif deep and (slash := re.compile(r"\\?/").match(glob, place)):
                parts[-1] += segment.end()
                parts.append("(?:.*?/)" if slash[0] == "\\/" else "(?:.*?/)??")
                place = slash.end()
            else:
                segment.star()
        elif (char := unit["escaped"] or unit["plain"]) == "/":
            parts[-1] += f"{segment.end()}/"
        else:
            segment.add(_ANY if unit["any"] else re.escape(char))
    first, *others = (*parts[:-1], parts[-1] + segment.end())
    return first + "".join(f"(?>{part})" for part in others[:-1]) + "".join(others[-1:])


class _Segment:
    """Builds the expression of one path segment: the pieces between its stars."""

    def __init__(self) -> None:
        self._pieces = [""]

    def add(self, regex: str) -> None:
        self._pieces[-1] += regex

    def star(self) -> None:
        self._pieces.append("")

    def end(self) -> str:
        """Return the expression and start the next segment."""
        first, *others = self._pieces
        self._pieces = [""]
        bound = "".join(f"(?>{_STAR}?{piece})" for piece in others[:-1])
        return first + bound + "".join(_STAR + piece for piece in others[-1:])


def _set(glob: str, place: int) -> tuple[str, int]:
    """Return the expression for the brackets that open before `place`, and the position after them.

    Raises ValueError.
    """
    negated = glob[place : place + 1] in ("!", "^")
    place += negated
    items, before, first = "", "", True
    while first or glob[place : place + 1] != "]":
        first = False
        char, after = glob[place : place + 1], glob[place + 1 : place + 2]
        if char == "-" and before and after not in ("", "]"):
            place += 2 if after == "\\" else 1
            char = glob[place : place + 1]
            # A reversed range is empty; its first character has already been added.
            items += f"{_byte(before)}-{_byte(char)}" if char and before <= char else ""
            before = ""
        elif char == "[" and after == ":" and (name := re.compile(r"\[:([^\]]*):\]").match(glob, place)):
            if name[1] not in _CLASSES:
                raise ValueError(f"unknown character class [:{name[1]}:]")
            items += _CLASSES[name[1]]
            place = name.end() - 1
            before = ""
        else:
            place += char == "\\"
            before = char = glob[place : place + 1]
            items += _byte(char) if char else ""
        if not char:
            raise ValueError("unclosed brackets")
        place += 1
    return (rf"[^/\x00{items}]" if negated else f"(?!/)[{items}]"), place + 1


def _byte(char: str) -> str:
    return f"\\x{ord(char):02x}"
