"""LaTeX as MathML. A formula is untrusted, so only known elements and attributes are written: no links, styles or scripts."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from markupsafe import Markup, escape

_MOST_CHARACTERS = 2_000
"""Converted in 20 ms."""
_MACRO = re.compile(r"\\(?:(?:re|provide)?newcommand|def|DeclareMathOperator)")
"""Definitions, which can make a formula grow without limit."""
_ELEMENT = re.compile(
    "m(?:ath|enclose|frac|[ino]|(?:und|ov|underov)er|padded|phantom|root|row|space|sqrt|style|su[bp]|"
    "subsup|table|td|text|tr)"
)
_ATTRIBUTE = re.compile(
    "accent|column(?:align|spacing)|display(?:style)?|fence|form|linethickness|[lr]space|mathvariant|(?:max|min)size|movablelimits|"
    "notation|rowspacing|scriptlevel|separator|stretchy|width"
)
_VALUE = re.compile(r"[a-z -]{1,40}|[+-]?\d?(?:\.\d{1,4})?(?:em|ex|pt|px)?")
"""Words, or a length of less than ten units."""


def mathml(formula: str, *, is_block: bool) -> Markup | None:
    """Return a formula as MathML, or None if it is too long or cannot be read."""
    if len(formula) > _MOST_CHARACTERS or _MACRO.search(formula):
        return None
    from latex2mathml.converter import convert_to_element  # 80 ms, and few texts have a formula

    try:
        root = convert_to_element(formula, display="block" if is_block else "inline")
        return Markup("").join(_written(root))
    except Exception:  # noqa: BLE001 - it raises StopIteration, IndexError and others; the formula is shown as typed
        return None


def _written(element: Element) -> Iterator[Markup]:
    known = {name: value for name, value in element.items() if _ATTRIBUTE.fullmatch(name) and _VALUE.fullmatch(value)}
    attributes = Markup("").join(Markup(' {}="{}"').format(name, value) for name, value in known.items())
    tag = Markup(element.tag if _ELEMENT.fullmatch(element.tag) else "mrow")
    yield Markup("<{}{}>").format(tag, attributes) + escape(html.unescape(element.text or ""))
    for child in element:
        yield from _written(child)
    yield Markup("</{}>").format(tag)
