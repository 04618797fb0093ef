"""Check HTML made from untrusted text, with an HTML5 parser, against lists of permitted tags, attributes and addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser

TAGS = frozenset(
    re.findall(
        r"\w+",
        """a blockquote br code del details div em h2 h3 h4 h5 h6 hr img li mark ol p pre s span strong summary sup table tbody
        td th thead tr ul figcaption figure
        math menclose mfrac mi mn mo mover mpadded mphantom mroot mrow mspace msqrt mstyle msub msubsup msup mtable mtd mtext
        mtr munder munderover""",
    )
)
ATTRIBUTES = frozenset(
    re.findall(
        r"[\w-]+",
        """alt aria-label class href id loading open rel role src start tabindex target width accent columnalign columnspacing
        display displaystyle fence form linethickness lspace mathvariant maxsize minsize movablelimits notation rowspacing
        rspace scriptlevel separator stretchy""",
    )
)
_OWN_ADDRESS = re.compile(r"/(?!/)[^\s\\\x00-\x1f]*|#[^\s\x00-\x1f]*|\?[^\s\x00-\x1f]*")
_OUTSIDE = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x20\\]+", re.IGNORECASE)
_ID = re.compile(r"t-[^\s]+")
_CLASS = re.compile(r"[a-z][a-z0-9-]*(?: [a-z][a-z0-9-]*)*")


def faults(html: str) -> list[str]:
    """Return the violations in a piece of HTML; empty if it is safe."""
    tree = LexborHTMLParser(f"<!doctype html><html><head></head><body>{html}</body></html>")
    violations: list[str] = []
    ids: set[str] = set()
    assert tree.body is not None
    for node in tree.body.traverse(include_text=False):
        if node.tag == "body":
            violations += [f"attribute of body: {name}" for name in node.attributes]
            continue
        if node.tag not in TAGS:
            violations.append(f"tag {node.tag}")
        for name, value in node.attributes.items():
            violations += _attribute(str(node.tag), name, value or "")
        if number := node.attributes.get("id"):
            violations += [f"id {number!r}"] if number in ids or not _ID.fullmatch(number) else []
            ids.add(number)
        if (
            node.tag == "a"
            and _is_outside(node.attributes.get("href"))
            and "noopener" not in (node.attributes.get("rel") or "")
        ):
            violations.append("link to elsewhere without rel")
    violations += [f"head has {child.tag}" for child in tree.head.iter()] if tree.head is not None else []
    return violations


def _attribute(tag: str, name: str, value: str) -> Iterator[str]:
    if name not in ATTRIBUTES:
        yield f"attribute {name} of {tag}"
    elif name == "href" and not (_OWN_ADDRESS.fullmatch(value) or _OUTSIDE.fullmatch(value)):
        yield f"href {value!r}"
    elif name == "src" and not (tag == "img" and _OWN_ADDRESS.fullmatch(value)):
        yield f"src {value!r} of {tag}"
    elif name == "class" and not _CLASS.fullmatch(value):
        yield f"class {value!r}"


def _is_outside(address: str | None) -> bool:
    return address is not None and _OUTSIDE.match(address) is not None
