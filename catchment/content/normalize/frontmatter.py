"""Read the properties at the start of a note into JSON-compatible values.

Follows the core schema of YAML 1.2, as Obsidian does: `yes` and `12:30` are text, and a date keeps its notation. So is `0123`:
most numbers with a zero in front are codes.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import yaml

from catchment.content.foreign_json import with_whole_escapes

_FRONTMATTER = re.compile(
    r"(?:---[ \t]*\n(?:(.*?)\n)??(?:---|\.\.\.)|\+\+\+[ \t]*\n(?:(.*?)\n)??\+\+\+)[ \t]*(?:\n|\Z)", re.DOTALL
)
_MAX_BLOCK = 64 * 1024
_MAX_NODES = 10_000
_MAX_DEPTH = 32
_BEYOND = 2**63
"""Numbers from this size on stay text: databases and JSON cannot represent them."""

_TOO_DEEP = "frontmatter: nested too deeply; kept as text"
_TOO_LONG = "frontmatter: longer than 64 KB; kept as text"
_LONG_LEAD = re.compile(r"[ \t?:-]{32}")

_NULL = re.compile(r"(?:~|null|Null|NULL|)\Z")
_BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
_INT = re.compile(r"(?:[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+)\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")

# Most properties are plain lines. A block of plain lines only is read without the YAML parser, which takes ten times as
# long. Lines with any YAML syntax are left to the parser.
_WORDS = r"[^\W\d_](?:[\w ./+()'&-]|:(?=[^\s:]))*"
_SCALAR = re.compile(rf"{_WORDS}\Z|[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}\Z|0\Z|[1-9][0-9]{{0,14}}\Z")
_LINE = re.compile(r"([A-Za-z_][\w-]*(?: [\w-]+)*):(?: +(.*))?\Z|((?:  )?- +)(.*)\Z")
# A block that is not valid YAML is read property by property. In an invalid property, lines with words as value are read as
# text: most are titles with a colon. Other lines are omitted: most are placeholders of templates.
_CONTINUES = re.compile(r"[-#\]}\s]|\Z")
_WORDS_LINE = re.compile(r"(\s*+(?>(?:- +)?)(?>(?:[^\W\d][\w -]*: +)?))((?:[\w\"'@`(%]|- |\*+\w[^*]*\*).*?)\s*\Z")
_IN_QUOTES = re.compile(r"([\"'])(.*)\1\Z")
_MOST_NUMBERS = 10
_UNREADABLE = re.compile("[^\t\n\r -~\xa0-\u2027\u202a-\ufffd\U00010000-\U0010ffff]")
"""Control characters, and line separators within a line, which the library refuses."""
_QUOTED_ESCAPES = re.compile(r'(?<![^\s,\[{:])"(?>(?:[^"\\]|\\.)*)"', re.DOTALL)
_QUOTED = re.compile(r'"([^"\\]*)"\Z')
_NAMED: dict[str, bool | None] = {"null": None, "Null": None, "NULL": None}
_NAMED |= {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


class PropertiesError(Exception):
    """The block is not valid YAML, or not a mapping. The message gives the reason without content."""


def split(text: str) -> tuple[str, int] | None:
    """Return the block at the start and the offset of the body; None if there is no block.

    A block of YAML is between `---` lines and may end with `...`, as in Pandoc; TOML is between `+++` lines, as in Hugo.
    """
    match = _FRONTMATTER.match(text) if text.startswith(("---", "+++")) else None
    return (match[1] or match[2] or "", match.end()) if match else None


class _NotYamlError(PropertiesError):
    """The block is not valid YAML."""


def properties(block: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the properties, sorted by key, and warnings with the numbers of lines that are not valid YAML.

    Raises PropertiesError if no property is valid.
    """
    warnings: tuple[str, ...] = ()
    values = _simple(block)
    if values is None:
        try:
            values = _parsed(block)
        except _NotYamlError:
            values, warnings = _each_parsed(block)
            if not values:
                raise
    return dict(sorted(values.items())), warnings


def toml_properties(block: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the properties of a block of TOML, sorted by key, and no warnings. Raises PropertiesError."""
    if len(block) > _MAX_BLOCK:
        raise PropertiesError(_TOO_LONG)
    try:
        return _Plain().mapping(tomllib.loads(block, parse_float=_finite), 0), ()
    except (tomllib.TOMLDecodeError, RecursionError, _TooMuchError) as error:
        raise PropertiesError("frontmatter: not valid TOML; kept as text") from error


def _simple(block: str) -> dict[str, Any] | None:
    """Return the properties of a block of plain lines, or None if the YAML parser is needed."""
    values: dict[str, Any] = {}
    key, indent = "", None
    for line in block.split("\n"):
        if not (stripped := line.rstrip(" ")):
            continue
        match = _LINE.match(stripped)
        if match is None:
            return None
        if match[1] is not None:
            key, indent = match[1], None
            if key in _NAMED:
                return None
            value = _simple_value(match[2]) if match[2] else None
            if value is _UNCLEAR:
                return None
            values[key] = value
            if match[2]:
                key = ""
            continue
        value = _simple_scalar(match[4])
        if not key or value is _UNCLEAR or indent not in (None, match[3]):
            return None
        if indent is None:
            values[key], indent = [], match[3]
        values[key].append(value)
    return values


_UNCLEAR = object()


def _simple_value(text: str) -> Any:
    if not text.startswith("["):
        return _simple_scalar(text)
    if not text.endswith("]"):
        return _UNCLEAR
    inside = text[1:-1].strip(" ")
    values = [_simple_scalar(part.strip(" ")) for part in inside.split(",")] if inside else []
    return _UNCLEAR if _UNCLEAR in values or ":" in inside else values


def _simple_scalar(text: str) -> Any:
    if quoted := _QUOTED.match(text):
        return quoted[1]
    if not _SCALAR.match(text):
        return _UNCLEAR
    if text in _NAMED:
        return _NAMED[text]
    return int(text) if text.isascii() and text.isdigit() else text


class _Loader(yaml.CSafeLoader):
    """YAML 1.2's core schema: no dates, no sexagesimal numbers, no `yes` and `on`."""


_Loader.yaml_implicit_resolvers = {}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", _BOOL, list("tTfF"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", _NULL, ["~", "n", "N", ""])


def _number(loader: _Loader, node: yaml.ScalarNode) -> int | str:
    text = str(loader.construct_scalar(node))
    number = int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    return number if abs(number) < _BEYOND else text


def _real(loader: _Loader, node: yaml.ScalarNode) -> float | str:
    return _finite(str(loader.construct_scalar(node)))


def _finite(text: str) -> float | str:
    return number if math.isfinite(number := float(text)) else text


_Loader.add_constructor("tag:yaml.org,2002:int", _number)
_Loader.add_constructor("tag:yaml.org,2002:float", _real)


def _parsed(block: str, plain: _Plain | None = None) -> dict[str, Any]:
    value = _loaded(block)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise PropertiesError("frontmatter: not a list of properties; kept as text")
    try:
        return (plain or _Plain()).mapping(value, 0)
    except _TooMuchError as error:
        raise PropertiesError(_TOO_DEEP) from error


def _loaded(block: str) -> Any:
    if len(block) > _MAX_BLOCK:
        raise PropertiesError(_TOO_LONG)
    try:
        if _looks_deep(block) and _is_deep(block):
            raise PropertiesError(_TOO_DEEP)
        return yaml.load(block, _Loader)
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError, LookupError, AttributeError) as error:
        whole = _QUOTED_ESCAPES.sub(lambda match: with_whole_escapes(match[0]), block)
        if (readable := _UNREADABLE.sub(" ", whole)) != block:
            return _loaded(readable)  # the library refuses escaped surrogates, also in pairs
        # A tag on a value of the wrong type, such as `!!bool x`, makes the library raise any of these errors.
        raise _NotYamlError("frontmatter: not valid YAML; kept as text") from error


def _each_parsed(block: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Read each property of a block that is not valid YAML separately."""
    values: dict[str, Any] = {}
    plain = _Plain()
    as_text: list[int] = []
    left_out: list[int] = []
    for number, lines in _entries(block):
        try:
            values |= _parsed("\n".join(lines), plain)
            continue
        except PropertiesError:
            wrong = {number + place: _as_text(line) for place, line in enumerate(lines) if not _is_yaml(line.strip())}
        mended = (wrong.get(place, line) for place, line in enumerate(lines, number))
        try:
            values |= _parsed("\n".join(line for line in mended if line is not None), plain)
            as_text += (place for place, line in wrong.items() if line is not None)
            left_out += (place for place, line in wrong.items() if line is None)
        except PropertiesError:
            left_out += wrong or [number]
    return values, (*_warnings(as_text, "read as text"), *_warnings(left_out, "omitted"))


def _entries(block: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number in the note and the lines of each property."""
    lines: list[str] = []
    first = 2
    for number, line in enumerate(block.split("\n"), first):
        if lines and not _CONTINUES.match(line):
            yield first, lines
            first, lines = number, []
        lines.append(line)
    yield first, lines


def _is_yaml(text: str) -> bool:
    try:
        _loaded(text)
    except PropertiesError:
        return False
    return True


def _as_text(line: str) -> str | None:
    """Return the line with its value quoted, or None if the value does not start like text."""
    match = _WORDS_LINE.match(line)
    return match[1] + json.dumps(_IN_QUOTES.sub(r"\2", match[2]), ensure_ascii=False) if match else None


def _warnings(lines: list[int], fate: str) -> Iterator[str]:
    if lines:
        numbers = ", ".join(map(str, lines[:_MOST_NUMBERS])) + ", …" * (len(lines) > _MOST_NUMBERS)
        yield f"frontmatter: not valid YAML in line {numbers}; {fate}"


def _looks_deep(block: str) -> bool:
    """Return whether the block may nest deeply: many brackets, or a line with a long run of indents and list marks."""
    return block.count("[") + block.count("{") > _MAX_DEPTH or _LONG_LEAD.search(block) is not None


def _is_deep(block: str) -> bool:
    """Return whether the block nests too deeply. The loader recurses in C and would crash; the event parser does not."""
    depth = 0
    for event in yaml.parse(block, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                return True
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return False


class _TooMuchError(Exception):
    """The value is too deep or too large after its aliases are expanded."""


class _Plain:
    """Converts YAML values into JSON-compatible values. The size is limited because nested aliases multiply."""

    def __init__(self) -> None:
        self._nodes = 0

    def mapping(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        pairs = (
            (key if isinstance(key, str) else _key(key), self._plain(each, depth + 1)) for key, each in value.items()
        )
        return dict(sorted(pairs, key=lambda pair: pair[0]))

    def _plain(self, value: Any, depth: int) -> Any:
        self._nodes += 1
        if depth > _MAX_DEPTH or self._nodes > _MAX_NODES:
            raise _TooMuchError
        if isinstance(value, dict):
            return self.mapping(value, depth)
        if isinstance(value, list | tuple | set):
            members = sorted(value, key=str) if isinstance(value, set) else value
            return [self._plain(each, depth + 1) for each in members]
        if isinstance(value, str):
            return value.replace("\x00", "\ufffd")
        if value is None or (isinstance(value, bool | int | float) and abs(value) < _BEYOND):
            return value
        return value.hex() if isinstance(value, bytes) else str(value)


def _key(key: object) -> str:
    return ("null" if key is None else str(key).lower()) if isinstance(key, bool | None) else str(key)
