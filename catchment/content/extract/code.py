"""What source code defines: functions, classes and types, by the grammar of its language, and its passages along them.

The grammars are tree-sitter's, one small library for each language, loaded when a file of the language comes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from catchment.content.extract.chunks import LARGEST, chunks
from catchment.model import Chunk, Entity, EntityKind

if TYPE_CHECKING:
    from tree_sitter import Language, Query, Tree

_LONGEST = 2_000_000
"""In longer texts nothing is looked for: a person did not write them, and a tree takes twenty times the memory of its text."""
_MOST = 20_000
_SECONDS = 5.0
"""Of the processor: enough for the longest text ten times over. What needs more is no program, but made to be slow."""
_DEEPEST = 500
_BRACKETS = re.compile(r"[()\[\]{}]")
_LONGEST_LINE = 400
_PIECE = 1 << 16
_NARROW = frozenset({"bash"})
"""Grammars that ask C what kind of letter a character is, which reads beyond its table for most of Unicode, and may crash."""
_ASCII = bytes(range(128)) + b"x" * 128
"""Any letter in place of each byte of what is not ASCII, so that places stay what they are."""
_ONLY_A_PLACE = "impl"
"""What has a name, but one that was defined elsewhere."""
_BEFORE = ("#", "//", "/*", "*", "@", "--", "[")
"""How lines begin that belong to the definition after them: comments, decorators, attributes."""

_JAVASCRIPT = """
(class_declaration name: (_) @name) @class
(function_declaration name: (_) @name) @function
(generator_function_declaration name: (_) @name) @function
(method_definition name: [(property_identifier) (private_property_identifier)] @name) @method
(variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)]) @function
(variable_declarator name: (identifier) @name value: (class)) @class
"""
_TYPESCRIPT = f"""{_JAVASCRIPT}
(abstract_class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(type_alias_declaration name: (_) @name) @type
(enum_declaration name: (_) @name) @enum
(internal_module name: (_) @name) @module
"""
_C = """
(function_definition declarator: (function_declarator declarator: (identifier) @name)) @function
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @name)))
  @function
(struct_specifier name: (type_identifier) @name body: (_)) @struct
(union_specifier name: (type_identifier) @name body: (_)) @union
(enum_specifier name: (type_identifier) @name body: (_)) @enum
(type_definition declarator: (type_identifier) @name) @type
(preproc_function_def name: (identifier) @name) @macro
"""
_CPP = f"""{_C}
(class_specifier name: (type_identifier) @name body: (_)) @class
(namespace_definition name: (_) @name) @namespace
(function_definition declarator: (function_declarator declarator: (field_identifier) @name)) @method
(function_definition declarator: (_ declarator: (function_declarator declarator: (field_identifier) @name))) @method
(function_definition declarator: (function_declarator declarator: (qualified_identifier) @name)) @method
(alias_declaration name: (type_identifier) @name) @type
"""
_QUERIES = {
    "python": """
        (class_definition name: (identifier) @name) @class
        (function_definition name: (identifier) @name) @function
        """,
    "javascript": _JAVASCRIPT,
    "typescript": _TYPESCRIPT,
    "tsx": _TYPESCRIPT,
    "go": """
        (function_declaration name: (identifier) @name) @function
        (method_declaration name: (field_identifier) @name) @method
        (type_spec name: (type_identifier) @name) @type
        (type_alias name: (type_identifier) @name) @type
        """,
    "rust": """
        (function_item name: (identifier) @name) @function
        (function_signature_item name: (identifier) @name) @function
        (struct_item name: (type_identifier) @name) @struct
        (enum_item name: (type_identifier) @name) @enum
        (union_item name: (type_identifier) @name) @union
        (trait_item name: (type_identifier) @name) @trait
        (type_item name: (type_identifier) @name) @type
        (mod_item name: (identifier) @name body: (_)) @module
        (macro_definition name: (identifier) @name) @macro
        (impl_item type: (_) @name) @impl
        """,
    "java": """
        (class_declaration name: (identifier) @name) @class
        (interface_declaration name: (identifier) @name) @interface
        (annotation_type_declaration name: (identifier) @name) @interface
        (enum_declaration name: (identifier) @name) @enum
        (record_declaration name: (identifier) @name) @class
        (method_declaration name: (identifier) @name) @method
        (constructor_declaration name: (identifier) @name) @method
        """,
    "c": _C,
    "cpp": _CPP,
    "c_sharp": """
        (class_declaration name: (identifier) @name) @class
        (struct_declaration name: (identifier) @name) @struct
        (record_declaration name: (identifier) @name) @class
        (interface_declaration name: (identifier) @name) @interface
        (enum_declaration name: (identifier) @name) @enum
        (delegate_declaration name: (identifier) @name) @type
        (namespace_declaration name: (_) @name) @namespace
        (method_declaration name: (identifier) @name) @method
        (constructor_declaration name: (identifier) @name) @method
        (property_declaration name: (identifier) @name) @property
        """,
    "ruby": """
        (class name: (_) @name) @class
        (module name: (_) @name) @module
        (method name: (_) @name) @method
        (singleton_method name: (_) @name) @method
        """,
    "php": """
        (class_declaration name: (name) @name) @class
        (interface_declaration name: (name) @name) @interface
        (trait_declaration name: (name) @name) @trait
        (enum_declaration name: (name) @name) @enum
        (function_definition name: (name) @name) @function
        (method_declaration name: (name) @name) @method
        """,
    "bash": "(function_definition name: (word) @name) @function",
}
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
"""Where there are two, the second is tried on what is not of the first."""
_MODULES = {"tsx": "typescript"}
_FUNCTIONS = {"typescript": "language_typescript", "tsx": "language_tsx", "php": "language_php"}


class Definition(NamedTuple):
    """Something that code defines, at `text[start:end]`, called by `text[named:called]`; `depth` others are around it."""

    name: str
    kind: str
    start: int
    end: int
    named: int
    called: int
    depth: int


def definitions(text: str, media_type: str) -> list[Definition]:
    """What the code defines, in its order; nothing for a language whose grammar is not known. Never fails."""
    if media_type not in _LANGUAGES or not text or len(text) > _LONGEST:
        return []
    data = text.encode("utf-8", "replace")
    parsed = None if _is_too_deep(text) else _parsed(data, _LANGUAGES[media_type])
    if parsed is None:
        return []
    from tree_sitter import QueryCursor

    language, tree = parsed
    spans: list[tuple[int, int, int, int, str]] = []
    for _, found in QueryCursor(_query(language)).matches(tree.root_node):
        name = found.pop("name")[0]
        kind, nodes = next(iter(found.items()))
        # A greater end first: what is around others comes before them.
        spans.append((nodes[0].start_byte, -nodes[0].end_byte, name.start_byte, name.end_byte, kind))
    spans = sorted(set(spans))[:_MOST]
    places = _characters(data, [abs(place) for span in spans for place in span[:4]])
    return list(_nested(text, spans, places))


def symbols(found: Sequence[Definition]) -> Iterator[Entity]:
    """The names that are defined; what kind of thing each is as its detail."""
    for one in found:
        if one.kind != _ONLY_A_PLACE:
            yield Entity(EntityKind.SYMBOL, one.name, one.kind, one.named, one.called)


def passages(text: str, found: Sequence[Definition]) -> tuple[Chunk, ...]:
    """The passages as `chunks` cuts them, along definitions; the heading is the way to the first one in it, `Class > method`.

    A text that is one passage has none.
    """
    if len(text) <= LARGEST:
        return chunks(text, ())
    headings, last = [], 0
    for one in found:
        last = max(last, _first_line(text, one.start, last))
        headings.append(Entity(EntityKind.HEADING, one.name, str(one.depth + 1), last, one.end))
    return chunks(text, headings)


def _is_too_deep(text: str) -> bool:
    """Whether more brackets open within one another than in any program; looking for names takes quadratic time there."""
    depth = 0
    for bracket in _BRACKETS.findall(text):
        depth = depth + 1 if bracket in "([{" else max(depth - 1, 0)
        if depth > _DEEPEST:
            return True
    return False


def _parsed(data: bytes, languages: Sequence[str]) -> tuple[str, Tree] | None:
    """The first language in which all of it can be read, else the first; None where that takes too long."""
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

    return Query(_grammar(language), _QUERIES[language])


def _characters(data: bytes, places: Sequence[int]) -> dict[int, int]:
    """Which character begins at each of these bytes."""
    if data.isascii():
        return dict(zip(places, places, strict=True))
    found, before, count = {}, 0, 0
    for place in sorted(set(places)):
        count += len(data[before:place].decode("utf-8", "replace"))
        found[place], before = count, place
    return found


def _nested(text: str, spans: Sequence[tuple[int, int, int, int, str]], places: dict[int, int]) -> Iterator[Definition]:
    around: list[int] = []
    for start, negative, named, called, kind in spans:
        while around and around[-1] <= start:
            around.pop()
        name = " ".join(text[places[named] : places[called]].split())
        yield Definition(name, kind, places[start], places[-negative], places[named], places[called], len(around))
        around.append(-negative)


def _first_line(text: str, start: int, earliest: int) -> int:
    """Where the lines begin that belong to a definition: its own, and the comments and decorators right above it."""
    first = _line(text, start, earliest)
    while first > earliest:
        above = _line(text, first - 1, earliest)
        if above == first - 1 or not text[above:first].lstrip().startswith(_BEFORE):
            break
        first = above
    return first


def _line(text: str, place: int, earliest: int) -> int:
    """Where the line of this place begins; the place itself in a line that is too long to be looked through."""
    earliest = max(earliest, place - _LONGEST_LINE)
    newline = text.rfind("\n", earliest, place)
    if newline >= 0:
        return newline + 1
    return earliest if earliest == 0 or text[earliest - 1] == "\n" else place
