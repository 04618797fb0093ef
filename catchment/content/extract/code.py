"""Find the functions, classes and types that source code defines, and split code into passages at definitions.

Uses tree-sitter with one grammar library per language, imported when the first file of the language is read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from catchment.content.extract.chunks import LARGEST, chunks
from catchment.model import Chunk, Entity, EntityKind

if TYPE_CHECKING:
    from tree_sitter import Language, Query, Tree

_LONGEST = 2_000_000
"""Longer texts are not parsed: they are generated, and a syntax tree takes twenty times the memory of its text."""
_MOST = 20_000
_SECONDS = 5.0
"""CPU time per text, ten times the time for the longest program. Only crafted input takes longer."""
_DEEPEST = 500
_BRACKETS = re.compile(r"[()\[\]{}]")
_LONGEST_LINE = 400
_PIECE = 1 << 16
_NARROW = frozenset({"bash"})
"""Grammars with a scanner that passes any character to `isalpha` and similar functions of C, which may crash."""
_ASCII = bytes(range(128)) + b"x" * 128
"""A translation table that replaces bytes beyond ASCII by a letter and so preserves offsets."""
_IMPLEMENTATION = "impl"
"""The kind of a block that carries the name of a type defined elsewhere: it is a heading but not a symbol."""
_BEFORE = ("#", "//", "/*", "*", "@", "--", "[")
"""The starts of lines that belong to the definition below them: comments, decorators and attributes."""

_QUERIES = Path(__file__).with_name("definitions")
"""The folder of the queries for definitions, a file for each grammar."""
_FILES = {"typescript": ("javascript", "typescript"), "tsx": ("javascript", "typescript"), "cpp": ("c", "cpp")}
"""Those of a grammar that needs more than its own."""
_LANGUAGES: dict[str, tuple[str, ...]] = {
    "text/x-python": ("python",),
    "text/javascript": ("javascript",),
    "text/typescript": ("typescript", "tsx"),
    "text/x-go": ("go",),
    "text/x-rust": ("rust",),
    "text/x-java": ("java",),
    "text/x-c": ("c", "cpp"),
    "text/x-c++": ("cpp",),
    "text/x-csharp": ("c_sharp",),
    "text/x-ruby": ("ruby",),
    "text/x-php": ("php",),
    "text/x-sh": ("bash",),
}
"""Grammars by media type. The second is tried if the first reports a syntax error."""
_MODULES = {"tsx": "typescript"}
_FUNCTIONS = {"typescript": "language_typescript", "tsx": "language_tsx", "php": "language_php"}


class Definition(NamedTuple):
    """A definition at `text[start:end]`, with the name `text[named:called]`, inside `depth` enclosing definitions."""

    name: str
    kind: str
    start: int
    end: int
    named: int
    called: int
    depth: int


def definitions(text: str, media_type: str) -> list[Definition]:
    """Return the definitions in the order of the text; an empty list for a language without a grammar. Never fails."""
    if media_type not in _LANGUAGES or not text or len(text) > _LONGEST:
        return []
    data = text.encode("utf-8", "replace")
    parsed = None if _is_too_deep(text) else _parsed(data, _LANGUAGES[media_type])
    if parsed is None:
        return []
    from tree_sitter import QueryCursor

    language, tree = parsed
    spans: list[tuple[int, int, int, int, str]] = []
    for _, captures in QueryCursor(_query(language)).matches(tree.root_node):
        name = captures.pop("name")[0]
        kind, nodes = next(iter(captures.items()))
        # Sort by descending end, so that a definition precedes those inside it.
        spans.append((nodes[0].start_byte, -nodes[0].end_byte, name.start_byte, name.end_byte, kind))
    spans = sorted(set(spans))[:_MOST]
    places = _characters(data, [abs(place) for span in spans for place in span[:4]])
    return list(_nested(text, spans, places))


def symbols(definitions: Sequence[Definition]) -> Iterator[Entity]:
    """Yield the defined names, with the kind of definition as detail."""
    for definition in definitions:
        if definition.kind != _IMPLEMENTATION:
            yield Entity(EntityKind.SYMBOL, definition.name, definition.kind, definition.named, definition.called)


def passages(text: str, definitions: Sequence[Definition]) -> tuple[Chunk, ...]:
    """Return passages as `chunks` does, split at definitions. The heading is the path of the first one, `Class > method`.

    A text that fits into one passage has no heading.
    """
    if len(text) <= LARGEST:
        return chunks(text, ())
    headings, last = [], 0
    for definition in definitions:
        last = max(last, _first_line(text, definition.start, last))
        headings.append(Entity(EntityKind.HEADING, definition.name, str(definition.depth + 1), last, definition.end))
    return chunks(text, headings)


def _is_too_deep(text: str) -> bool:
    """Return whether brackets nest deeper than in any program: the query for names takes quadratic time in the depth."""
    depth = 0
    for bracket in _BRACKETS.findall(text):
        depth = depth + 1 if bracket in "([{" else max(depth - 1, 0)
        if depth > _DEEPEST:
            return True
    return False


def _parsed(data: bytes, languages: Sequence[str]) -> tuple[str, Tree] | None:
    """Return the first language that parses without errors, else the first one; None if parsing exceeds the time limit."""
    from tree_sitter import Parser

    end = time.thread_time() + _SECONDS

    def is_over(*_: object) -> bool:
        return time.thread_time() > end

    trees = {}
    for language in languages:
        read = _reader(data.translate(_ASCII) if language in _NARROW else data)
        try:
            trees[language] = Parser(_grammar(language)).parse(read, progress_callback=is_over)
        except ValueError:
            return None
        if not trees[language].root_node.has_error:
            return language, trees[language]
    return languages[0], trees[languages[0]]


def _reader(source: bytes) -> Callable[[int, object], bytes]:
    return lambda place, _: source[place : place + _PIECE]


@cache
def _grammar(language: str) -> Language:
    from tree_sitter import Language

    module = import_module(f"tree_sitter_{_MODULES.get(language, language)}")
    return Language(getattr(module, _FUNCTIONS.get(language, "language"))())


@cache
def _query(language: str) -> Query:
    from tree_sitter import Query

    names = _FILES.get(language, (language,))
    return Query(_grammar(language), "".join((_QUERIES / f"{name}.scm").read_text("ascii") for name in names))


def _characters(data: bytes, places: Sequence[int]) -> dict[int, int]:
    """Return the character offset for each of these byte offsets."""
    if data.isascii():
        return dict(zip(places, places, strict=True))
    offsets, before, count = {}, 0, 0
    for place in sorted(set(places)):
        count += len(data[before:place].decode("utf-8", "replace"))
        offsets[place], before = count, place
    return offsets


def _nested(text: str, spans: Sequence[tuple[int, int, int, int, str]], places: dict[int, int]) -> Iterator[Definition]:
    around: list[int] = []
    for start, negative, named, called, kind in spans:
        while around and around[-1] <= start:
            around.pop()
        name = " ".join(text[places[named] : places[called]].split())
        yield Definition(name, kind, places[start], places[-negative], places[named], places[called], len(around))
        around.append(-negative)


def _first_line(text: str, start: int, earliest: int) -> int:
    """Return the start of a definition including the comments and decorators directly above it."""
    first = _line(text, start, earliest)
    while first > earliest:
        above = _line(text, first - 1, earliest)
        if above == first - 1 or not text[above:first].lstrip().startswith(_BEFORE):
            break
        first = above
    return first


def _line(text: str, place: int, earliest: int) -> int:
    """Return the start of the line at `place`, or `place` itself if the line is longer than 400 characters."""
    earliest = max(earliest, place - _LONGEST_LINE)
    newline = text.rfind("\n", earliest, place)
    if newline >= 0:
        return newline + 1
    return earliest if earliest == 0 or text[earliest - 1] == "\n" else place
